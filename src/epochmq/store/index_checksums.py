"""Checksums of the pages of an index file, so that a search notices damage.

A full index file never changes. Its checksums are written when it is full. The last file changes
with each message: its checksums are written at a clean stop, and are valid until it is filled
further. RocketMQ's layout of index files has no room for them, so they are files of their own.
"""

from array import array
from struct import Struct
from sys import byteorder

from epochmq.base.errors import StoreDamaged
from epochmq.base.ports import Disk, File
from epochmq.model.crc import crc32

FOLDER = "indexChecksums"
PAGE = 16 * 1024
"""Bytes that have one checksum."""

_HEAD = Struct(">8sQ")
"""Magic, and the number of bytes that have checksums; the checksums and their own one follow."""
_MAGIC = b"EpochMQ1"


class IndexDamaged(StoreDamaged):
    """Raised when bytes of an index file are not those that were written."""


class PageChecksums:
    """The checksums of the first `end` bytes of a file; the last page may be shorter."""

    def __init__(self, end: int, sums: "array[int]") -> None:
        self.end = end
        self._sums = sums
        self._checked = bytearray(len(sums))

    @classmethod
    def of(cls, file: File, end: int) -> "PageChecksums":
        """Compute the checksums of the first `end` bytes of `file`; this reads all of them."""
        starts = range(0, end, PAGE)
        return cls(end, array("I", [crc32(file.read(at, min(PAGE, end - at))) for at in starts]))

    @classmethod
    def read(cls, disk: Disk, path: str) -> "PageChecksums | None":
        """Read the checksums at `path`; return None if there are none or they are damaged."""
        data = disk.read_file(path)
        if data is None or len(data) < _HEAD.size + 4:
            return None
        body = data[:-4]
        magic, end = _HEAD.unpack_from(body)
        sums = array("I", body[_HEAD.size : len(body) - (len(body) - _HEAD.size) % 4])
        if byteorder == "little":
            sums.byteswap()
        is_sound = magic == _MAGIC and crc32(body) == int.from_bytes(data[-4:], "big")
        return cls(end, sums) if is_sound and len(sums) == -(-end // PAGE) else None

    def write(self, disk: Disk, path: str) -> None:
        """Replace the checksums at `path`, atomically and durably."""
        sums = array("I", self._sums)
        if byteorder == "little":
            sums.byteswap()
        body = _HEAD.pack(_MAGIC, self.end) + sums.tobytes()
        disk.write_file(path, body + crc32(body).to_bytes(4, "big"))

    def check(self, file: File, start: int, stop: int) -> None:
        """Check the pages of `file` that contain the bytes from `start` to `stop`, once each.

        Bytes behind `end` have no checksums. Raises `IndexDamaged` for other bytes than were
        written.
        """
        for page in range(start // PAGE, -(-min(stop, self.end) // PAGE)):
            if self._checked[page]:
                continue
            at = page * PAGE
            if crc32(file.read(at, min(PAGE, self.end - at))) != self._sums[page]:
                raise IndexDamaged(f"{file.path} is damaged between byte {at} and {at + PAGE}")
            self._checked[page] = 1


def checksums_path(path: str) -> str:
    """Return where the checksums of the index file at `path` are."""
    return f"{FOLDER}/{path.rpartition('/')[2]}"
