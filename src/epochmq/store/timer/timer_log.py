"""The timer log: files of consecutive 52-byte units under `timerlog/`, with a blank at the end.

A file is named by its first position. A unit never crosses files: the rest of a file begins with a
blank of 16 bytes if there is room for one.
"""

from collections.abc import Sequence

from epochmq.base.ports import Disk, File
from epochmq.store.draft import file_name
from epochmq.store.timer.wheel import BLANK, BLANK_MAGIC, UNIT_BYTES, TimerDamaged

FOLDER = "timerlog"
FILE_BYTES = 100 * 1024 * 1024
NEAR = 4
"""Units are read together if at most so many times the requested bytes are read."""


class TimerLog:
    """Positions `[start, end)` of the timer log; the caller sets `end` to the trusted end."""

    def __init__(self, disk: Disk, file_bytes: int = FILE_BYTES) -> None:
        self._disk = disk
        self._bytes = file_bytes
        self._files: dict[int, File] = {}
        self._unsynced: set[int] = set()
        self.start = 0
        self.end = 0

    def open(self, position: int) -> None:
        """Open all existing files; the caller cuts what is behind `position`.

        Raises `TimerDamaged` unless the files hold everything before `position`, except cleaned
        files, without a gap.
        """
        starts = sorted(self._start_of(name) for name in self._disk.list(FOLDER))
        for start in starts:
            if self._disk.size(self._path(start)) != self._bytes:
                raise TimerDamaged(f"{self._path(start)} has not {self._bytes} bytes")
            self._files[start] = self._disk.open(self._path(start))
        self.start = starts[0] if starts else 0
        self.end = starts[-1] + self._bytes if starts else 0
        if starts != list(range(self.start, self.end, self._bytes)) or not (
            self.start <= position <= self.end
        ):
            raise TimerDamaged(f"{FOLDER} does not hold {self.start}..{position} without a gap")

    def append(self, units: Sequence[bytes], positions: Sequence[int]) -> None:
        """Write units to the positions that `places` returned for them."""
        at = 0
        while at < len(units):
            base = positions[at] // self._bytes * self._bytes
            stop = at + 1
            while stop < len(units) and positions[stop] < base + self._bytes:
                stop += 1
            self._file(base).write(positions[at] - base, b"".join(units[at:stop]))
            self._unsynced.add(base)
            self.end = positions[stop - 1] + UNIT_BYTES
            if stop < len(units):
                self._fill(base)
            at = stop

    def places(self, count: int) -> list[int]:
        """Return the positions of the next `count` units."""
        places, at = [], self.place(self.end)
        for _ in range(count):
            places.append(at)
            at = self.place(at + UNIT_BYTES)
        return places

    def place(self, position: int) -> int:
        """Return `position`, or the start of the next file if this file has no room for a unit."""
        left = self._bytes - position % self._bytes
        return position if left >= UNIT_BYTES else position + left

    def read(self, position: int, size: int = UNIT_BYTES) -> bytes:
        """Return `size` bytes of one file at `position`; `TimerDamaged` outside `start` and
        `end`.
        """
        base = position // self._bytes * self._bytes
        file = self._files.get(base)
        if file is None or not self.start <= position <= self.end - size:
            raise TimerDamaged(f"nothing is at {position} of the timer log")
        return file.read(position - base, size)

    def read_many(self, positions: Sequence[int]) -> list[bytes]:
        """Return 52 bytes at each position, with one read if the positions are near each other."""
        low, high = min(positions), max(positions)
        size = high + UNIT_BYTES - low
        apart = low // self._bytes != high // self._bytes
        if apart or size > NEAR * UNIT_BYTES * len(positions):
            return [self.read(position) for position in positions]
        data = self.read(low, size)
        return [data[at : at + UNIT_BYTES] for at in [position - low for position in positions]]

    def cut(self, end: int) -> None:
        """Set the log's end to `end`, and delete the files behind it."""
        for start in [start for start in self._files if start >= end]:
            self._files.pop(start).close()
            self._unsynced.discard(start)
            self._disk.remove(self._path(start))
        self.end = end

    def first_files(self) -> list[tuple[int, int]]:
        """Return (start, position of the last unit) of every full file, oldest first."""
        per_file = self._bytes // UNIT_BYTES
        return [
            (start, start + (per_file - 1) * UNIT_BYTES)
            for start in sorted(self._files)
            if start + self._bytes <= self.end
        ]

    def drop_first(self) -> None:
        """Delete the oldest file."""
        start = min(self._files)
        self._files.pop(start).close()
        self._unsynced.discard(start)
        self._disk.remove(self._path(start))
        self.start = start + self._bytes

    def pop_unsynced(self) -> list[File]:
        """Return the files written since the last call."""
        starts, self._unsynced = self._unsynced, set()
        return [self._files[start] for start in sorted(starts) if start in self._files]

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def reset(self, position: int) -> None:
        """Delete all files and restart behind `position` and all earlier positions.

        So an old checkpoint finds nothing at the position that it contains.
        """
        self.close()
        self._unsynced.clear()
        names = [name for name in self._disk.list(FOLDER) if name.isdecimal()]
        highest = max([position, self.end, *(int(name) for name in names if len(name) == 20)])
        self._disk.remove(FOLDER)
        self.start = self.end = (highest // self._bytes + 2) * self._bytes

    def _file(self, start: int) -> File:
        file = self._files.get(start)
        if file is None:
            file = self._disk.open(self._path(start), create_size=self._bytes)
            self._disk.sync_dir(FOLDER)
            if not self._files:
                self._disk.sync_dir("")
            self._files[start] = file
        return file

    def _fill(self, base: int) -> None:
        """Write a blank to the rest of a file, as RocketMQ does."""
        left = base + self._bytes - self.end
        if left >= BLANK.size:
            self._file(base).write(self.end - base, BLANK.pack(left, 0, BLANK_MAGIC))

    def _start_of(self, name: str) -> int:
        if len(name) != 20 or not name.isdecimal() or int(name) % self._bytes:
            raise TimerDamaged(f"{FOLDER}/{name} is not a file of the timer log")
        return int(name)

    def _path(self, start: int) -> str:
        return f"{FOLDER}/{file_name(start)}"
