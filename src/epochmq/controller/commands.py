"""The commands in the controllers' log. Each has its decision and the state that it is based on.

The leader decides a command, and every controller checks it again when it applies it. A command
that does not fit the state any more is refused. Encoding: one version byte, then msgpack with the
tag of the class.
"""

import msgspec

from epochmq.base.errors import OurBug
from epochmq.controller.controller_state import Key

VERSION = 1


class GroupEvent(msgspec.Struct, tag_field="do", frozen=True, omit_defaults=True):
    """One change of the broker group (cluster, name)."""

    cluster: str
    name: str

    @property
    def key(self) -> Key:
        """(cluster, name) of the group."""
        return self.cluster, self.name


class ApplyBrokerId(GroupEvent, frozen=True, omit_defaults=True, tag="apply"):
    """Give `broker_id` to the owner of `check_code`; a repeat changes nothing.

    `adopted`: the broker has the id already, from controllers whose data was deleted since.
    """

    broker_id: int
    address: str
    check_code: str = ""
    incarnation: str = ""
    learner: bool = False
    by_address: bool = False
    adopted: bool = False


class UpdateBroker(GroupEvent, frozen=True, omit_defaults=True, tag="update"):
    """The content of a broker's registration. A new `session` is a new process.

    `lost_tail`: the process before did not stop cleanly. `ended`: the master's process was
    replaced, so the group has no master.
    """

    broker_id: int
    address: str
    ha_address: str = ""
    incarnation: str = ""
    session: str = ""
    learner: bool = False
    floor: int = 0
    lost_tail: bool = False
    ended: bool = False


class AlterSyncStateSet(GroupEvent, frozen=True, omit_defaults=True, tag="alter"):
    """The master's new sync-state set; it replaces the set with `set_epoch`.

    With `settle` it may be the present set. Then only the epoch of the set rises, so that a
    proposal based on the older epoch, which may still be on its way, is refused.
    """

    master: int
    epoch: int
    set_epoch: int
    members: tuple[int, ...]
    settle: bool = False


class ElectMaster(GroupEvent, frozen=True, omit_defaults=True, tag="elect"):
    """Make `master` the master of `new_epoch` with the sync-state set `members`.

    Based on the state of (`epoch`, `set_epoch`). `unclean` means that messages may be lost.
    """

    epoch: int
    set_epoch: int
    master: int
    new_epoch: int
    members: tuple[int, ...]
    unclean: bool = False


class CleanBrokerData(GroupEvent, frozen=True, omit_defaults=True, tag="clean"):
    """Remove these replicas, or the whole group if `ids` is empty."""

    ids: tuple[int, ...] = ()


class SetSetting(GroupEvent, frozen=True, omit_defaults=True, tag="setting"):
    """Set a switch for all controllers; `cluster` is empty and `name` is the option's key."""

    value: str


AnyEvent = (
    ApplyBrokerId | UpdateBroker | AlterSyncStateSet | ElectMaster | CleanBrokerData | SetSetting
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[AnyEvent] = msgspec.msgpack.Decoder(AnyEvent)


def encode(event: AnyEvent) -> bytes:
    """Return the bytes of a command."""
    return bytes((VERSION,)) + _encoder.encode(event)


def decode(data: bytes) -> AnyEvent:
    """Decode a command. Raises `OurBug` if that fails: a skipped command would let
    states differ.
    """
    try:
        if data[:1] == bytes((VERSION,)):
            return _decoder.decode(data[1:])
    except msgspec.DecodeError as error:
        raise OurBug(f"a command in the log is damaged: {error}") from None
    raise OurBug(f"a command of version {data[:1].hex() or 'none'}; this program reads {VERSION}")
