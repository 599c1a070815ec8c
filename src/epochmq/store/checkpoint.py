"""The checkpoint file: how far each part is known to be on the device.

4096 bytes: five i64, our mark twice, the rest is kept as found. It is written in place without a
sync: it only ever claims what was synced before, so losing the newest copy merely makes recovery
read more.

The mark says what RocketMQ's fields cannot: from where to where the log was on the device, whether
it ends exactly there (a clean stop), and in which run of the machine that was written. It repeats
the five fields and has a checksum. RocketMQ and older versions write the fields only: the mark
then disagrees with them and does not count. One bit of difference is damage, and the mark is right.
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
"""Times are trusted only this much earlier than they say."""

_FIELDS = Struct(">5q")
_MARK = Struct(">8sIqq36s40s")
"""Magic, 1 after a clean stop, log start, log end, boot id, the five fields; then a checksum."""
_MAGIC = b"EpochMQ1"
_MARK_BYTES = _MARK.size + 4
_MARK_AT = 64
"""In the sector of the fields: a power cut leaves both old or both new."""
_COPY_AT = 1024


@dataclass(frozen=True)
class WriterMark:
    """What the program that wrote the checkpoint last knew of the log."""

    clean: bool
    """It was stopped: the log ends at `end`. Else the log has more, perhaps."""
    start: int
    end: int
    """`[start, end)` was on the device."""
    boot: str
    """Names the run of the machine; empty: unknown, or a sync failed."""

    def pack(self, fields: bytes) -> bytes:
        boot = self.boot.encode()[:36]
        data = _MARK.pack(_MAGIC, self.clean, self.start, self.end, boot, fields)
        return data + crc32(data).to_bytes(4, "big")


def _unpack_mark(data: bytes) -> tuple[WriterMark, bytes] | None:
    """A mark and the fields that it repeats; None when there is none, or it is damaged."""
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
    """The mark that counts, and the five fields, mended if one bit of them was damaged."""
    fields = data[: _FIELDS.size]
    for at in (_MARK_AT, _COPY_AT):
        found = _unpack_mark(data[at : at + _MARK_BYTES])
        if found is not None:
            mark, repeated = found
            same = repeated == fields or _differ_by_a_bit(repeated, fields)
            return (mark, repeated) if same else (None, fields)
    return None, fields


def stored_confirm(disk: Disk) -> int:
    """confirmPhyOffset of a stopped store, read without touching anything; 0 for none."""
    data = disk.read_file(FILE) or b""
    if len(data) < _FIELDS.size:
        return 0
    return max(int(_FIELDS.unpack(_read_mark(data)[1])[4]), 0)


def stored_mark(disk: Disk) -> WriterMark | None:
    """The mark of a stopped store, read without touching anything."""
    data = disk.read_file(FILE) or b""
    return _read_mark(data)[0] if len(data) >= _FIELDS.size else None


class Checkpoint:
    """The five fields, and the file they live in."""

    def __init__(self, disk: Disk, boot: str = "") -> None:
        self._disk = disk
        self.boot = boot
        """Names this run of the machine; empty: unknown, or a sync failed."""
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
        """What the last program said, and what is written next; None: nothing is known."""
        self.foreign = False
        """RocketMQ or an older version wrote the file last."""
        self._between = bytes(_MARK_AT - _FIELDS.size)
        """What was found between the fields and the mark."""

    def load(self) -> None:
        """Read the file; one that is missing or empty counts as all zeros."""
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
        """Messages stored up to this time are in the log and in the queues, on the device."""
        return max(0, min(self.log_wall_ms, self.queues_wall_ms) - MARGIN_MS)

    def clock_back(self, wall: int) -> bool:
        """The wall clock went back: later claims would be mistaken for newer messages.

        False when no claim was so late.
        """
        if wall >= max(self.log_wall_ms, self.queues_wall_ms, self.index_wall_ms):
            return False
        self.log_wall_ms = min(self.log_wall_ms, wall)
        self.queues_wall_ms = min(self.queues_wall_ms, wall)
        self.index_wall_ms = min(self.index_wall_ms, wall)
        return True

    def forget_index(self) -> None:
        """Index files are about to be deleted and derived again: claim nothing of the index.

        A crash before the new files are synced must not leave the claim: it would cover keys that
        only the deleted files had. Until then keys are complete as far as the index reaches.
        """
        self.index_wall_ms = 0

    def lower_end(self, end: int) -> None:
        """The log is about to be cut to `end`: claim no more."""
        self.forget_index()
        if self.mark is not None and self.mark.end > end:
            start = min(self.mark.start, end)
            self.mark = WriterMark(clean=False, start=start, end=end, boot=self.mark.boot)

    def claim(self, start: int, end: int, *, clean: bool = False) -> None:
        """Say that the log has `[start, end)` on the device; `clean`: the log ends at `end`."""
        self.mark = WriterMark(clean, start, max(start, end), self.boot)

    def forget_boot(self) -> None:
        """Write that the boot is unknown: after a failed sync the cache may lose any bytes.

        A disk that cannot take the write is ignored.
        """
        self.boot = ""
        if self.mark is not None and self.mark.boot:
            self.mark = replace(self.mark, clean=False, boot="")
            with suppress(EnvironmentFault):
                self.write()

    def write(self) -> None:
        """Put changed fields, and the mark, into the file."""
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
