"""The consume queue of one topic and queue id: 20-byte units in files, the newest in memory.

Unit n is at byte n * 20. New units are appended to `tail`, a bytearray. They are written to the
file in runs of 4 KiB or by the tick, never one by one. The last units stay in memory, so that
readers at the end of the queue need no file. Consume queues are derived data: units that a crash
loses are derived from the commit log again.
"""

from collections.abc import Callable
from struct import Struct

from epochmq.base.errors import StoreDamaged
from epochmq.model.record import MAGIC_V1, MAGIC_V2
from epochmq.store.draft import LENGTHS, PRE_BLANK, PRE_BLANK_SIZE, UNIT, UNIT_BYTES, file_name
from epochmq.store.queue_files import QueueFiles
from epochmq.store.ranges import Ranges

ROOT = "consumequeue"

WRITE_UNITS = 4096 // UNIT_BYTES
"""A tail with this many unwritten units is written to the file at once."""

KEEP_UNITS = 8192 // UNIT_BYTES
"""Number of written units that stay in the tail."""

_FAR = 1 << 62


def _is_unit(offset: int, size: int, tags: int) -> bool:
    """Whether the values are a unit: behind the last unit all bytes are zero."""
    return bool(offset or size or tags)


def search_around_damage(low: int, high: int, is_below: Callable[[int], bool]) -> int:
    """Binary search: return the first number in `[low, high)` for which `is_below` is false.

    Returns `high` if there is none. The numbers that are below come first. A damaged unit that
    misleads the search disagrees with its neighbours: the search then continues beside it.
    """
    while True:
        found, end = low, high
        while found < end:
            middle = (found + end) // 2
            if is_below(middle):
                found = middle + 1
            else:
                end = middle
        if found - 2 >= low and not is_below(found - 2):
            high = found - 1
        elif found + 1 < high and is_below(found + 1):
            low = found + 1
        else:
            return found


class ConsumeQueue:
    """A consume queue with the units `[min, next)`; readers see the units below `visible`."""

    __slots__ = (
        "_files",
        "_folder",
        "_last_path",
        "_last_start",
        "base_bytes",
        "checked",
        "delay_ms",
        "dirty",
        "file_bytes",
        "floor",
        "magic",
        "min",
        "name",
        "next",
        "queue_id",
        "reach",
        "settled",
        "shape",
        "tail",
        "tail_start",
        "topic",
        "trusted",
        "unit_bytes",
        "visible",
        "written",
    )

    root = ROOT
    size_option = "mappedFileSizeConsumeQueue"

    def __init__(
        self, topic: str, queue_id: int, files: QueueFiles, file_bytes: int, shape: Struct = UNIT
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self._files = files
        self._folder = f"{self.root}/{topic}/{queue_id}"
        self.file_bytes = file_bytes
        self._last_start, self._last_path = -1, ""
        """The last result of `_path`."""
        self.shape = shape
        """The layout of (log offset, size, tags code) in a unit."""
        self.unit_bytes = shape.size
        encoded = topic.encode()
        wide = len(encoded) > 127
        self.name = LENGTHS[len(encoded)] + encoded if wide else bytes((len(encoded),)) + encoded
        """The record's topic field: length (i16 if over 127, record V2) and text."""
        self.magic = MAGIC_V2 if wide else MAGIC_V1
        self.base_bytes = 90 + len(self.name)
        """Size of a record without body, properties and the additional bytes of IPv6 hosts."""
        self.delay_ms: int | None = None
        """Set for a queue of the delay topic: the tags codes of its units are delivery times."""
        self.min = 0
        self.floor = -1
        """The log start for which `min` was computed."""
        self.next = 0
        self.reach = 0
        """Log offset of the end of the last unit's record, as `load` found it."""
        self.settled = 0
        """`next` after the last successful append."""
        self.visible = 0
        self.tail = bytearray()
        self.tail_start = 0
        self.written = 0
        """Units below this number are in files."""
        self.dirty = False
        self.trusted = 0
        """Units from this number on were made by this process, from checked records; see
        `read_check`.
        """
        self.checked = Ranges()
        """Units below `trusted` that were compared with their records."""

    @property
    def is_unused(self) -> bool:
        """Whether the queue never had a unit."""
        return self.next == 0

    @property
    def folder(self) -> str:
        return self._folder

    def place(self, first: int, queue_offset: int) -> None:
        """Continue at `queue_offset` behind the units in the files; the first of them is
        `first`.
        """
        self.min = first
        self.floor = -1
        self.next = self.settled = self.visible = self.written = self.tail_start = queue_offset
        self.tail.clear()
        self.trusted = queue_offset
        self.checked.clear()

    def load(self) -> None:
        """Find the first and the last unit in the files.

        Raises `StoreDamaged` if a file has another size than the option says.
        """
        disk = self._files.disk
        names: list[str] = []
        for name in filter(str.isdecimal, disk.list(self._folder)):
            found = disk.size(f"{self._folder}/{name}")
            if found == 0:
                disk.remove(f"{self._folder}/{name}")  # a crash interrupted its creation
                continue
            names.append(name)
            if found != self.file_bytes or int(name) % self.file_bytes:
                raise StoreDamaged(
                    f"{self._folder}/{name} has {found} bytes, but {self.size_option} asks"
                    f" for {self.file_bytes}; set that option as it was when the store was"
                    f" written, or delete the directory {self.root} (it is derived from the log)"
                )
        for at, name in enumerate(names):
            if int(name) != int(names[0]) + at * self.file_bytes:
                del names[at:]  # units behind a missing file are derived again
                break
        self.tail_start = _FAR  # all reads go to the files
        for name in reversed(names):
            first = int(name) // self.unit_bytes
            end, last = self._end_in(first)
            if last is not None:
                self.place(int(names[0]) // self.unit_bytes, end)
                self.reach = last[0] + last[1] if last[1] != PRE_BLANK_SIZE else 0
                return
        self.place(0, 0)

    def _end_in(self, first: int) -> tuple[int, tuple[int, int, int] | None]:
        """Return (end of the units in the file that begins with unit `first`, its last unit)."""
        stop = first + self.file_bytes // self.unit_bytes
        low, high = first, min(first + WRITE_UNITS, stop)
        if high < stop and (unit := self.unit(high)) is not None and _is_unit(*unit):
            low = self._search(high, stop, _is_unit) - 1
            high = low + 1
        end, last = self._count(low, high)
        before = self.unit(end - 2) if last is not None and end > 1 else None
        if before is not None and not _is_unit(*before) and low > first:
            # The unit where the search began is damage in the zeros behind the end.
            end, last = self._count(first, stop)
            before = self.unit(end - 2) if last is not None and end > 1 else None
        if last is not None and before is not None and self._is_flipped(end - 1, last, before):
            return end - 1, before if end - 1 > first else None
        return end, last

    def _is_flipped(
        self, number: int, unit: tuple[int, int, int], before: tuple[int, int, int]
    ) -> bool:
        """Whether `unit` is only a flipped bit in the zeros behind the queue's end."""
        bits = int.from_bytes(self.units(number, 1), "big").bit_count()
        return bits == 1 and unit[0] <= before[0] and before[1] != PRE_BLANK_SIZE

    def _count(self, low: int, high: int) -> tuple[int, tuple[int, int, int] | None]:
        """Return (first number in `[low, high)` without a unit, the unit before it)."""
        last = None
        for unit in self.shape.iter_unpack(self.units(low, high - low)):
            if not _is_unit(*unit):
                break
            last = unit
            low += 1
        return low, last

    def _search(self, low: int, high: int, below: Callable[[int, int, int], bool]) -> int:
        """Binary search: return the first unit in `[low, high)` that is not `below`, else `high`.

        The `below` units come first. Damaged units are skipped, see `search_around_damage`.
        """

        def is_below(number: int) -> bool:
            unit = self.unit(number)
            return unit is not None and below(*unit)

        return search_around_damage(low, high, is_below)

    def cut(self, log_offset: int) -> None:
        """Drop the units at or beyond `log_offset` (recovery; all units are in files)."""
        end = self._search(
            self.min, self.next, lambda at, size, _tags: size > 0 and 0 <= at < log_offset
        )
        self.place(self.min, end)

    def end_at(self, log_offset: int, low: int | None = None) -> int:
        """Return the queue offset behind the last unit whose record ends at or below `log_offset`.

        The caller knows that this is true for the units below `low`.
        """

        def ends(at: int, size: int, _tags: int) -> bool:
            return at + (size if size != PRE_BLANK_SIZE else 1) <= log_offset

        low = self.min if low is None else max(low, self.min)
        if low < self.next and (unit := self.unit(low)) is not None and not ends(*unit):
            return low  # the usual case: no new unit is visible
        return self._search(low, self.next, ends)

    def end_before(self, log_offset: int) -> int:
        """Return the queue offset behind the last unit whose record begins below `log_offset`."""
        return self._search(self.min, self.next, lambda at, _size, _tags: at < log_offset)

    def truncate(self, log_offset: int) -> list[str]:
        """Drop the units at or beyond `log_offset`, in memory and in files, after a log cut.

        If a crash restores such units, recovery drops them again, see `truncation`. Returns the
        paths of files without units, which the caller must remove.
        """
        end = self.end_before(log_offset)
        if end == self.next:
            return []
        if end >= self.tail_start:
            del self.tail[(end - self.tail_start) * self.unit_bytes :]
        else:
            self.tail.clear()
            self.tail_start = end
        in_files = self.written > end
        self.next = self.settled = end
        self.visible = min(self.visible, end)
        self.written = min(self.written, end)
        self.trusted = min(self.trusted, end)
        return self._zero_behind() if in_files else []

    def clear_behind(self) -> None:
        """Zero old units behind the queue's end, and remove later files."""
        for path in self._zero_behind():
            self._files.disk.remove(path)

    def _zero_behind(self) -> list[str]:
        """Zero old units behind the queue's end; readers of the files take zeros as the end.

        Returns the paths of later files, which are no longer open.
        """
        at = self.next * self.unit_bytes
        while at % self.file_bytes:
            room = self.file_bytes - at % self.file_bytes
            data = self._files.read(self._path(at), at % self.file_bytes, min(4096, room))
            if not any(data):
                return []
            self._files.write(self._path(at), at % self.file_bytes, bytes(len(data)))
            at += len(data)
        later = [
            f"{self._folder}/{name}"
            for name in self._files.disk.list(self._folder)
            if name.isdecimal() and int(name) >= at
        ]
        for path in later:
            self._files.forget(path)
            self._files.created.add(path)  # its directory must be synced
        return later

    def undo(self) -> None:
        """Remove the units of a failed append."""
        del self.tail[(self.settled - self.tail_start) * self.unit_bytes :]
        self.next = self.settled

    def _path(self, at: int) -> str:
        start = at - at % self.file_bytes
        if start != self._last_start:
            self._last_start, self._last_path = start, f"{self._folder}/{file_name(start)}"
        return self._last_path

    def write_out(self) -> None:
        """Write the units that are not in a file yet; after `DiskFull` they stay in memory."""
        while self.written < self.settled:
            at = self.written * self.unit_bytes
            room = self.file_bytes - at % self.file_bytes
            low = at - self.tail_start * self.unit_bytes
            data = bytes(self.tail[low : min(low + room, self._stored_bytes())])
            path = self._path(at)
            if self.written == self.min and at % self.file_bytes:
                self._pre_blank(path, at % self.file_bytes)
            self._files.write(path, at % self.file_bytes, data, self.file_bytes)
            self.written += len(data) // self.unit_bytes
        drop = self.written - self.tail_start - KEEP_UNITS
        if drop > KEEP_UNITS:
            del self.tail[: drop * self.unit_bytes]
            self.tail_start += drop

    def put_unit(self, number: int, data: bytes) -> None:
        """Overwrite one unit, in the file and in the tail. Raises `DiskFull`, `DiskFailed`."""
        if number < self.written:
            at = number * self.unit_bytes
            self._files.write(self._path(at), at % self.file_bytes, data)
        if number >= self.tail_start:
            low = (number - self.tail_start) * self.unit_bytes
            self.tail[low : low + self.unit_bytes] = data

    def blank_units(self, start: int, stop: int) -> None:
        """Turn the units whose records begin in `[start, stop)` of the log into a hole (repair).

        All units must be in files. The hole points to the record that follows (rocketmq#6570).
        """
        low, high = self.end_before(start), self.end_before(stop)
        after = self.unit(high) if high < self.next else None
        hole = UNIT.pack(stop if after is None else after[0], PRE_BLANK_SIZE, 0)
        for number in range(low, high):
            at = number * self.unit_bytes
            self._files.write(self._path(at), at % self.file_bytes, hole)

    def _stored_bytes(self) -> int:
        return (self.settled - self.tail_start) * self.unit_bytes

    def _pre_blank(self, path: str, size: int) -> None:
        """Fill the units below the first one with blanks, if the queue begins inside a file."""
        file = self._files.get(path, self.file_bytes)
        if file.read(size - self.unit_bytes, self.unit_bytes) == bytes(self.unit_bytes):
            self._files.write(path, 0, PRE_BLANK * (size // self.unit_bytes))

    def units(self, queue_offset: int, count: int, *, is_reader: bool = False) -> bytes:
        """Return the bytes of up to `count` units from `queue_offset`, which is at least `min`.

        For a consumer (`is_reader`), which will continue behind them, more is read and kept.
        """
        low = queue_offset - self.tail_start
        if low >= 0:
            return bytes(self.tail[low * self.unit_bytes : (low + count) * self.unit_bytes])
        from_files = min(count, -low)
        data = self._from_files(queue_offset, from_files, is_reader)
        if len(data) == from_files * self.unit_bytes and count > from_files:
            data += bytes(self.tail[: (count - from_files) * self.unit_bytes])
        return data

    def _from_files(self, queue_offset: int, count: int, is_reader: bool) -> bytes:
        read = self._files.read_ahead if is_reader else self._files.read
        at = queue_offset * self.unit_bytes
        left = count * self.unit_bytes
        place = at % self.file_bytes
        if 0 < left <= self.file_bytes - place:  # the usual case: in one file
            return read(self._path(at), place, left)
        data = b""
        while left:
            step = min(left, self.file_bytes - at % self.file_bytes)
            part = read(self._path(at), at % self.file_bytes, step)
            data += part
            if len(part) < step:
                break
            at += step
            left -= step
        return data

    def unit(self, queue_offset: int) -> tuple[int, int, int] | None:
        """Return (log offset, size, tags code) of one unit; None if there is none."""
        data = self.units(queue_offset, 1)
        return self.shape.unpack(data) if len(data) == self.unit_bytes else None

    def base_of(self, queue_offset: int) -> int:
        """Return the queue offset stored in the record of message `queue_offset`."""
        return queue_offset

    def last_unit(self) -> tuple[int, int, int, int | None] | None:
        """Return (queue offset of the record, log offset, size, message count) of the last unit.

        The message count is None for a plain queue. Returns None if there is no unit.
        """
        unit = self.unit(self.next - 1) if self.next > self.min else None
        return None if unit is None else (self.next - 1, unit[0], unit[1], None)

    def last_in_file(self, file_start: int) -> tuple[int, int, int] | None:
        """Return the last unit of the file that begins at byte `file_start`."""
        return self.unit((file_start + self.file_bytes) // self.unit_bytes - 1)

    def set_floor(self, log_start: int) -> None:
        """Raise `min` to the first unit whose record is still in the log."""
        if self.floor == log_start:
            return
        self.min = self._search(
            self.min,
            self.next,
            lambda at, size, _tags: 0 <= at < log_start or (at == 0 and size == PRE_BLANK_SIZE),
        )
        self.floor = log_start
