"""The checkpoint file: how far each part is known to be on the device (facts/store.md 1.9).

4096 bytes: five i64, the rest is kept as found. It is written in place without a sync: it only
ever claims what was synced before, so losing the newest copy merely makes recovery read more.
"""

from struct import Struct

from epochmq.base.errors import StoreDamaged
from epochmq.base.ports import Disk, File

FILE = "checkpoint"
FILE_BYTES = 4096
MARGIN_MS = 3000
"""Times are trusted only this much earlier than they say."""

_FIELDS = Struct(">5q")


def stored_confirm(disk: Disk) -> int:
    """confirmPhyOffset of a stopped store, read without touching anything; 0 for none."""
    data = disk.read_file(FILE) or b""
    return max(_FIELDS.unpack_from(data)[4], 0) if len(data) >= _FIELDS.size else 0


class Checkpoint:
    """The five fields, and the file they live in."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
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

    def load(self) -> None:
        """Read the file; one that is missing or empty counts as all zeros."""
        if not self._disk.exists(FILE) or self._disk.size(FILE) == 0:
            self._file = self._disk.open(FILE, create_size=FILE_BYTES)
            self._disk.sync_dir("")
        else:
            self._file = self._disk.open(FILE)
        data = self._file.read(0, _FIELDS.size)
        if len(data) < _FIELDS.size:
            raise StoreDamaged(f"{FILE} has only {len(data)} bytes; delete it and start again")
        self._written = data
        (
            self.log_wall_ms,
            self.queues_wall_ms,
            self.index_wall_ms,
            self.master_flushed_offset,
            self.confirmed,
        ) = (max(value, 0) for value in _FIELDS.unpack(data))

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

    def write(self) -> None:
        """Put changed fields into the file."""
        data = _FIELDS.pack(
            self.log_wall_ms,
            self.queues_wall_ms,
            self.index_wall_ms,
            self.master_flushed_offset,
            self.confirmed,
        )
        if self._file is not None and data != self._written:
            self._file.write(0, data)
            self._written = data

    def sync(self) -> None:
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
