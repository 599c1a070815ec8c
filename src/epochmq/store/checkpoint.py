"""The checkpoint file: up to which time and offset each part of the store is synced.

The file has 4096 bytes: five i64 fields and two copies of our mark; all other bytes are kept. It is
written in place without a sync. It claims only what was synced before, so if the newest copy is
lost, recovery merely reads more.

The mark adds what RocketMQ's fields lack: which range of the log was on the device, whether the log
ends exactly there (a clean stop), and during which boot of the machine this was written. The mark
repeats the five fields and has a checksum. RocketMQ and older versions write only the fields: the
mark then disagrees with the fields and is ignored. If they differ in one bit, this is damage, and
the mark's copy is used.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from struct import Struct

from epochmq.base.errors import EnvironmentFault, StoreDamaged
from epochmq.base.ports import Disk, File
from epochmq.model.crc import crc32

FILE = "checkpoint"
FILE_BYTES = 4096
MARGIN_MS = 3000
"""Recovery trusts the checkpoint's times only up to this much earlier."""

_FIELDS = Struct(">5q")
_MARK = Struct(">8sIqq36s40s")
"""Magic, 1 after a clean stop, log start, log end, boot id, the five fields; then a checksum."""
_MAGIC = b"EpochMQ1"
_MARK_BYTES = _MARK.size + 4
_MARK_AT = 64
"""In the same sector as the fields: a power cut leaves both old or both new."""
_COPY_AT = 1024


@dataclass(frozen=True)
class WriterMark:
    """What the program that last wrote the checkpoint knew about the log."""

    clean: bool
    """Whether the stop was clean: the log ends at `end`. Otherwise the log may be longer."""
    start: int
    end: int
    """The bytes `[start, end)` of the log were on the device."""
    boot: str
    """Identifies the boot of the machine; empty if unknown, or after a failed sync."""

    def pack(self, fields: bytes) -> bytes:
        boot = self.boot.encode()[:36]
        data = _MARK.pack(_MAGIC, self.clean, self.start, self.end, boot, fields)
        return data + crc32(data).to_bytes(4, "big")


def _unpack_mark(data: bytes) -> tuple[WriterMark, bytes] | None:
    """Return the mark and the fields that it repeats; None if there is none or it is damaged."""
    if len(data) < _MARK_BYTES or not data.startswith(_MAGIC):
        return None
    if crc32(data[: _MARK.size]) != int.from_bytes(data[_MARK.size : _MARK_BYTES], "big"):
        return None
    _magic, clean, start, end, boot, fields = _MARK.unpack_from(data)
    return WriterMark(
        bool(clean), start, end, boot.rstrip(b"\0").decode("ascii", "replace")
    ), fields


def _differ_by_a_bit(one: bytes, other: bytes) -> bool:
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).bit_count() == 1


def _read_mark(data: bytes) -> tuple[WriterMark | None, bytes]:
    """Return the valid mark, or None, and the five fields with a single wrong bit corrected."""
    fields = data[: _FIELDS.size]
    for at in (_MARK_AT, _COPY_AT):
        found = _unpack_mark(data[at : at + _MARK_BYTES])
        if found is not None:
            mark, repeated = found
            same = repeated == fields or _differ_by_a_bit(repeated, fields)
            return (mark, repeated) if same else (None, fields)
    return None, fields


def stored_confirm(disk: Disk) -> int:
    """Return confirmPhyOffset of a stopped store without changing it; 0 if there is none."""
    data = disk.read_file(FILE) or b""
    if len(data) < _FIELDS.size:
        return 0
    return max(int(_FIELDS.unpack(_read_mark(data)[1])[4]), 0)


def stored_mark(disk: Disk) -> WriterMark | None:
    """Return the mark of a stopped store without changing it; None if there is none."""
    data = disk.read_file(FILE) or b""
    return _read_mark(data)[0] if len(data) >= _FIELDS.size else None


class Checkpoint:
    """The five fields and the mark of the checkpoint, and the file that stores them."""

    def __init__(self, disk: Disk, boot: str = "") -> None:
        self._disk = disk
        self.boot = boot
        """Identifies the current boot of the machine; empty if unknown, or after a failed sync."""
        self._file: File | None = None
        self._written: bytes = b""
        self.log_wall_ms = 0
        """physicMsgTimestamp: the log is synced up to messages of this store time."""
        self.queues_wall_ms = 0
        """logicsMsgTimestamp: the same for the consume queues."""
        self.index_wall_ms = 0
        """indexMsgTimestamp: the same for the index."""
        self.master_flushed_offset = 0
        self.confirmed = 0
        """confirmPhyOffset"""
        self.mark: WriterMark | None = None
        """The mark as read, later as it is written next; None if nothing is known."""
        self.foreign = False
        """Whether RocketMQ or an older version wrote the file last."""
        self._between = bytes(_MARK_AT - _FIELDS.size)
        """The bytes found between the fields and the mark."""

    def load(self) -> None:
        """Read the file; a missing or empty file counts as all zeros.

        Raises `StoreDamaged` if the file is too short for the fields.
        """
        if not self._disk.exists(FILE) or self._disk.size(FILE) == 0:
            self._file = self._disk.open(FILE, create_size=FILE_BYTES)
            self._disk.sync_dir("")
        else:
            self._file = self._disk.open(FILE)
        data = self._file.read(0, FILE_BYTES)
        if len(data) < _FIELDS.size:
            raise StoreDamaged(f"{FILE} has only {len(data)} bytes; delete it and start again")
        self.mark, fields = _read_mark(data)
        self.foreign = self.mark is None and any(fields)
        self._between = data[_FIELDS.size : _MARK_AT].ljust(_MARK_AT - _FIELDS.size, b"\0")
        self._written = data[: _FIELDS.size]
        if self.mark is not None:
            self._written = data[: _MARK_AT + _MARK_BYTES]
        (
            self.log_wall_ms,
            self.queues_wall_ms,
            self.index_wall_ms,
            self.master_flushed_offset,
            self.confirmed,
        ) = (max(value, 0) for value in _FIELDS.unpack(fields))

    def safe_wall_ms(self) -> int:
        """Return the store time up to which messages are synced in the log and in the queues."""
        return max(0, min(self.log_wall_ms, self.queues_wall_ms) - MARGIN_MS)

    def clock_back(self, wall: int) -> bool:
        """Lower the claimed times to `wall` (ms) after the wall clock went back.

        Later claims would wrongly cover newer messages. Returns False if no claim was later.
        """
        if wall >= max(self.log_wall_ms, self.queues_wall_ms, self.index_wall_ms):
            return False
        self.log_wall_ms = min(self.log_wall_ms, wall)
        self.queues_wall_ms = min(self.queues_wall_ms, wall)
        self.index_wall_ms = min(self.index_wall_ms, wall)
        return True

    def forget_index(self) -> None:
        """Claim nothing about the index, before index files are deleted and derived again.

        After a crash the old claim would cover keys that only the deleted files had. Until the new
        files are synced, keys are complete as far as the index reaches.
        """
        self.index_wall_ms = 0

    def lower_end(self, end: int) -> None:
        """Lower the claims to `end` before the log is cut there."""
        self.forget_index()
        if self.mark is not None and self.mark.end > end:
            start = min(self.mark.start, end)
            self.mark = WriterMark(clean=False, start=start, end=end, boot=self.mark.boot)

    def claim(self, start: int, end: int, *, clean: bool = False) -> None:
        """Claim that `[start, end)` of the log is on the device; `clean`: the log ends at `end`."""
        self.mark = WriterMark(clean, start, max(start, end), self.boot)

    def forget_boot(self) -> None:
        """Write that the boot is unknown: after a failed sync the cache may lose any bytes.

        The write is skipped if the disk does not accept it.
        """
        self.boot = ""
        if self.mark is not None and self.mark.boot:
            self.mark = replace(self.mark, clean=False, boot="")
            with suppress(EnvironmentFault):
                self.write()

    def write(self) -> None:
        """Write changed fields, and the mark, to the file, without a sync."""
        data = fields = _FIELDS.pack(
            self.log_wall_ms,
            self.queues_wall_ms,
            self.index_wall_ms,
            self.master_flushed_offset,
            self.confirmed,
        )
        mark = b"" if self.mark is None else self.mark.pack(fields)
        if mark:
            data = fields + self._between + mark
        if self._file is not None and data != self._written:
            self._file.write(0, data)
            if mark:
                self._file.write(_COPY_AT, mark)
            self._written = data

    def sync(self) -> None:
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
