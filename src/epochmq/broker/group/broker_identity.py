"""Broker identity: a replica's broker id and incarnation, kept in small files (atomic replace).

`brokerIdentity` holds RocketMQ's text, `cluster#brokerName#brokerId`. `brokerIdentity-temp` holds
the same text with `#registerCheckCode` while the controllers decide about the id.
`brokerIdentity-state` holds, as JSON, what RocketMQ does not store: the incarnation, a random text
made once, which tells apart two brokers started from copies of one volume; and the newest
(controller term, master epoch) that this broker acted on; older ones are ignored.
`brokerIdentity-boot` names the boot of the machine under which the replica ran last (KIP-966).
`brokerIdentity-sum` is the checksum of `brokerIdentity`, for which RocketMQ's text has no field.
"""

from dataclasses import dataclass

import msgspec

from epochmq.base.errors import HeaderError, StoreDamaged
from epochmq.base.limits import EPOCH_MAX
from epochmq.base.ports import Disk
from epochmq.base.unbounded import LONG_MAX
from epochmq.model.crc import crc32
from epochmq.model.saved_file import Edited, check_seal, edited, seal
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.controller_bodies import BrokerReplicasInfo
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command

IDENTITY = "brokerIdentity"
UNCLEAN = "unclean"
"""Stored instead of a boot id: a start may have lost messages, and the controllers may not know it
yet."""
_SEPARATOR = "#"


@dataclass(frozen=True, slots=True)
class Temp:
    """A broker id that was applied for; the check code makes a repeated application idempotent."""

    broker_id: int
    check_code: str


class Known(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=False):
    """The contents of `brokerIdentity-state`; see the module's docstring."""

    incarnation: str = ""
    controller_term: int = 0
    master_epoch: int = 0


class IdentityFiles:
    """Reads and writes the identity files on `disk`, for one cluster and broker name."""

    def __init__(self, disk: Disk, path: str, cluster: str, broker: str) -> None:
        self._disk = disk
        self._path = path or IDENTITY
        self._owner = (cluster, broker)

    def broker_id(self) -> int | None:
        """Return the broker id that the controllers gave; None when there is none yet.

        Raises `StoreDamaged` when the file belongs to another broker or does not match its
        checksum.
        """
        fields = self._read(self._path, 3)
        if fields is None:
            return None
        kept = self._disk.read_file(f"{self._path}-sum")
        if kept is not None and kept != b"%08x" % crc32(_SEPARATOR.join(fields).encode()):
            raise StoreDamaged(
                f"{self._path} does not match its checksum in {self._path}-sum: it was damaged, or"
                f" edited by hand. Correct it and remove {self._path}-sum to start with it"
            )
        return self._id(fields[2])

    def temp(self) -> Temp | None:
        """Return the id that is being applied for; None when there is none or the file is
        unreadable."""
        try:
            fields = self._read(f"{self._path}-temp", 4)
            return None if fields is None else Temp(self._id(fields[2]), fields[3])
        except StoreDamaged:
            return None

    def known(self) -> Known:
        """Return the stored state; raises `StoreDamaged` when the file cannot be read."""
        path = f"{self._path}-state"
        data = self._disk.read_file(path)
        if not data:
            return Known()
        try:
            check_seal(data)
            known = msgspec.json.decode(data, type=Known)
        except Edited:
            raise StoreDamaged(edited(path)) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreDamaged(
                f"{path} cannot be read: {error}; take it from its .bak, or remove it and"
                " brokerIdentity to let the replica join its group as a new one"
            ) from None
        if known.master_epoch > EPOCH_MAX:  # written when forged notices were still believed
            return Known(known.incarnation)
        return known

    def save_temp(self, temp: Temp) -> None:
        text = _SEPARATOR.join((*self._owner, str(temp.broker_id), temp.check_code))
        self._disk.write_file(f"{self._path}-temp", text.encode())

    def drop_temp(self) -> None:
        self._disk.remove(f"{self._path}-temp")

    def save_id(self, broker_id: int) -> None:
        """Save the id durably before the temporary file is removed: after a crash in between, the
        broker applies for the same id again."""
        text = _SEPARATOR.join((*self._owner, str(broker_id))).encode()
        self._disk.write_file(f"{self._path}-sum", b"%08x" % crc32(text))
        self._disk.write_file(self._path, text)
        self.drop_temp()

    def save_known(self, known: Known) -> None:
        data = seal(msgspec.json.encode(known))
        self._disk.write_file(f"{self._path}-state", data, backup=True)

    def last_boot(self) -> str:
        """Return the boot under which this replica ran last; "" when it is unknown.

        Returns `UNCLEAN` after a start that may have lost messages, until the controllers know of
        it.
        """
        data = self._disk.read_file(f"{self._path}-boot")
        return "" if data is None else data.decode("utf-8", "replace").strip()

    def save_boot(self, boot: str) -> None:
        self._disk.write_file(f"{self._path}-boot", boot.encode())

    def _read(self, path: str, count: int) -> list[str] | None:
        data = self._disk.read_file(path)
        if data is None or not data.strip():
            return None
        fields = data.decode("utf-8", "replace").strip().split(_SEPARATOR, count - 1)
        if len(fields) != count or not fields[2].isdecimal():
            raise StoreDamaged(f"{path} does not hold cluster#brokerName#brokerId; restore it")
        if (fields[0], fields[1]) != self._owner:
            raise StoreDamaged(
                f"{path} belongs to broker '{fields[1]}' of cluster '{fields[0]}', the"
                f" configuration names '{self._owner[1]}' of '{self._owner[0]}'; correct the"
                " configuration, or remove the file if this data is to start a new replica"
            )
        return fields

    def _id(self, text: str) -> int:
        broker_id = int(text)
        if not 0 < broker_id <= LONG_MAX:
            raise StoreDamaged(f"{self._path} holds the id {text}; ids start at 1")
        return broker_id


# Registered ids ------------------------------------------------------------------------------
# Asks the controllers which broker ids are registered in this group, when the master needs them.


PAUSE_MS = 100
"""Pause in ms between two questions, however many unknown replicas connect."""
RETRY_MS = 300


class RegisterQuestion:
    """One question for the registered ids; it is repeated until an answer contains them."""

    def __init__(self) -> None:
        self._after: int | None = None
        """Only answers to questions with a higher number than this count; None when no answer is
        wanted."""
        self._due_at_ms = self._pause_until_ms = 0

    def want(self, newest: int) -> None:
        """Ask again; the answers to questions up to number `newest` do not count, because they were
        sent before."""
        self._after, self._due_at_ms = newest, self._pause_until_ms

    @property
    def next_at_ms(self) -> int | None:
        return None if self._after is None else self._due_at_ms

    def is_due(self, now: int) -> bool:
        return self._after is not None and now >= self._due_at_ms

    def asked(self, now: int, timeout_ms: int) -> None:
        self._due_at_ms, self._pause_until_ms = now + timeout_ms, now + PAUSE_MS

    def again(self, now: int) -> None:
        """Note that a question brought no answer; it is repeated after `RETRY_MS`."""
        self._due_at_ms = min(self._due_at_ms, now + RETRY_MS)

    def answered(self, number: int, command: Command, name: str, now: int) -> frozenset[int] | None:
        """Return the ids of group `name`; None when the answer does not contain them, or is not
        wanted."""
        if self._after is None or number <= self._after:
            return None
        ids = read_ids(command, name)
        if ids is None:
            self.again(now)
        else:
            self._after = None
        return ids


def read_ids(command: Command, name: str) -> frozenset[int] | None:
    """Return the ids in an answer to GET_SYNC_STATE_DATA; None when it does not describe group
    `name`."""
    if command.code != ResponseCode.SUCCESS:
        return None
    try:
        group = decode_body(BrokerReplicasInfo, command.body).replicas_info_table.get(name)
    except HeaderError:
        return None
    if group is None:
        return None
    return frozenset(
        each.broker_id for each in (*group.in_sync_replicas, *group.not_in_sync_replicas)
    )
