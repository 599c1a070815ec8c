"""The events of the controllers' log. Each carries its choice and what that choice was based on.

A command is decided by the leader and checked again when it is applied: whatever came between makes
it a refusal, never a surprise. Encoding: one version byte, then msgpack with the class's tag.
"""

import msgspec

from epochmq.base.errors import OurBug
from epochmq.controller.controller_state import Key

VERSION = 1


class GroupEvent(msgspec.Struct, tag_field="do", frozen=True, omit_defaults=True):
    """One change of the group (cluster, name)."""

    cluster: str
    name: str

    @property
    def key(self) -> Key:
        return self.cluster, self.name


class ApplyBrokerId(GroupEvent, frozen=True, omit_defaults=True, tag="apply"):
    """Give `broker_id` to the owner of `check_code`; the same twice is no change.

    `adopted`: the broker has its number already, from controllers that were wiped since.
    """

    broker_id: int
    address: str
    check_code: str = ""
    incarnation: str = ""
    learner: bool = False
    by_address: bool = False
    adopted: bool = False


class UpdateBroker(GroupEvent, frozen=True, omit_defaults=True, tag="update"):
    """What a registration tells of a replica. A new `session` is a new process of it.

    `lost_tail`: the process before did not stop cleanly. `ended`: the master's process is another
    one now, so it is master no more.
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
    """The master's new set; takes the place of the one with `set_epoch`.

    With `settle` it may be the present set: only its epoch moves then, and what was proposed on
    top of the older epoch, and may still be on its way, can never be carried out any more.
    """

    master: int
    epoch: int
    set_epoch: int
    members: tuple[int, ...]
    settle: bool = False


class ElectMaster(GroupEvent, frozen=True, omit_defaults=True, tag="elect"):
    """Make `master` the master of `new_epoch` with the set `members`.

    Decided on the state of (`epoch`, `set_epoch`). `unclean` is somebody's consent to a loss.
    """

    epoch: int
    set_epoch: int
    master: int
    new_epoch: int
    members: tuple[int, ...]
    unclean: bool = False


class CleanBrokerData(GroupEvent, frozen=True, omit_defaults=True, tag="clean"):
    """Forget these replicas, or with none named the whole group."""

    ids: tuple[int, ...] = ()


class SetSetting(GroupEvent, frozen=True, omit_defaults=True, tag="setting"):
    """Set a switch for all controllers; `cluster` is empty and `name` the option's key."""

    value: str


AnyEvent = (
    ApplyBrokerId | UpdateBroker | AlterSyncStateSet | ElectMaster | CleanBrokerData | SetSetting
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[AnyEvent] = msgspec.msgpack.Decoder(AnyEvent)


def encode(event: AnyEvent) -> bytes:
    return bytes((VERSION,)) + _encoder.encode(event)


def decode(data: bytes) -> AnyEvent:
    """`OurBug` for what cannot be read: to skip an event would let the controllers differ."""
    try:
        if data[:1] == bytes((VERSION,)):
            return _decoder.decode(data[1:])
    except msgspec.DecodeError as error:
        raise OurBug(f"a command in the log is damaged: {error}") from None
    raise OurBug(f"a command of version {data[:1].hex() or 'none'}; this program reads {VERSION}")
