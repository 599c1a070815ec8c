"""One queue of one topic: 20-byte units in files, the newest of them in memory.

Unit n lies at byte n * 20. New units go to `tail`, a bytearray; they are written to the file in
runs of 4 KiB or by the tick, never one by one, and the last few stay in memory so that readers at
the end of the queue need no file at all. The log is the truth: what a crash takes from a tail is
derived again.
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
"""A tail with this many unwritten units is written at once."""

KEEP_UNITS = 8192 // UNIT_BYTES
"""Written units beyond this many are dropped from the tail."""

_FAR = 1 << 62


def _is_unit(offset: int, size: int, tags: int) -> bool:
    """Behind the last unit all is zero; a damaged unit is not."""
    return bool(offset or size or tags)


def search_around_damage(low: int, high: int, is_below: Callable[[int], bool]) -> int:
    """First number in `[low, high)` that is not below, else `high`; those below come first.

    A damaged unit that leads astray contradicts its neighbours: the search goes on beside it.
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
    """Units `[min, next)`; readers are shown those below `visible`."""

    __slots__ = (
        "_files",
        "_folder",
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
        self.shape = shape
        """How to read (log offset, size, tags code) from a unit."""
        self.unit_bytes = shape.size
        encoded = topic.encode()
        wide = len(encoded) > 127
        self.name = LENGTHS[len(encoded)] + encoded if wide else bytes((len(encoded),)) + encoded
        """The record's topic field: length (i16 when over 127, record V2) and text."""
        self.magic = MAGIC_V2 if wide else MAGIC_V1
        self.base_bytes = 90 + len(self.name)
        """Record bytes without body, properties and IPv6 extras."""
        self.delay_ms: int | None = None
        """Set for a queue of the delay topic: its tags codes are times of delivery."""
        self.min = 0
        self.floor = -1
        """The log start for which `min` was found."""
        self.next = 0
        self.reach = 0
        """End of the record of the last unit that `load` found."""
        self.settled = 0
        """`next` after the last append that succeeded."""
        self.visible = 0
        self.tail = bytearray()
        self.tail_start = 0
        self.written = 0
        """Units below are in files."""
        self.dirty = False
        self.trusted = 0
        """This process made the units from here on of records that it had checked, see
        `read_check`."""
        self.checked = Ranges()
        """Which units below that were compared with their records."""

    @property
    def is_unused(self) -> bool:
        """Whether it never had a unit."""
        return self.next == 0

    @property
    def folder(self) -> str:
        return self._folder

    def place(self, first: int, queue_offset: int) -> None:
        """Go on at `queue_offset` behind the files' units, the first of which is `first`."""
        self.min = first
        self.floor = -1
        self.next = self.settled = self.visible = self.written = self.tail_start = queue_offset
        self.tail.clear()
        self.trusted = queue_offset
        self.checked.clear()

    def load(self) -> None:
        """Find the first and the last unit in the files."""
        disk = self._files.disk
        names: list[str] = []
        for name in filter(str.isdecimal, disk.list(self._folder)):
            found = disk.size(f"{self._folder}/{name}")
            if found == 0:
                disk.remove(f"{self._folder}/{name}")  # a crash while it was being made
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
                del names[at:]  # what lies behind a missing file is derived again
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
        """(end of the units of the file that begins with unit `first`, its last unit)."""
        stop = first + self.file_bytes // self.unit_bytes
        low, high = first, min(first + WRITE_UNITS, stop)
        if high < stop and (unit := self.unit(high)) is not None and _is_unit(*unit):
            low = self._search(high, stop, _is_unit) - 1
            high = low + 1
        end, last = self._count(low, high)
        before = self.unit(end - 2) if last is not None and end > 1 else None
        if before is not None and not _is_unit(*before) and low > first:
            # The unit that the search began with is damage among the zeros behind the end.
            end, last = self._count(first, stop)
            before = self.unit(end - 2) if last is not None and end > 1 else None
        if last is not None and before is not None and self._is_flipped(end - 1, last, before):
            return end - 1, before if end - 1 > first else None
        return end, last

    def _is_flipped(
        self, number: int, unit: tuple[int, int, int], before: tuple[int, int, int]
    ) -> bool:
        """Whether a bit flipped in the zeros behind a queue's end makes up the unit."""
        bits = int.from_bytes(self.units(number, 1), "big").bit_count()
        return bits == 1 and unit[0] <= before[0] and before[1] != PRE_BLANK_SIZE

    def _count(self, low: int, high: int) -> tuple[int, tuple[int, int, int] | None]:
        """(the first in `[low, high)` that is no unit, the unit before it)."""
        last = None
        for unit in self.shape.iter_unpack(self.units(low, high - low)):
            if not _is_unit(*unit):
                break
            last = unit
            low += 1
        return low, last

    def _search(self, low: int, high: int, below: Callable[[int, int, int], bool]) -> int:
        """First unit in `[low, high)` that is not `below`, else `high`; `below` ones come first.

        Units that are damaged are gone around, see `search_around_damage`.
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
        """The queue offset behind the last unit whose record ends up to `log_offset`; those below
        `low` are known to."""

        def ends(at: int, size: int, _tags: int) -> bool:
            return at + (size if size != PRE_BLANK_SIZE else 1) <= log_offset

        low = self.min if low is None else max(low, self.min)
        if low < self.next and (unit := self.unit(low)) is not None and not ends(*unit):
            return low  # most often: nothing new can be seen
        return self._search(low, self.next, ends)

    def end_before(self, log_offset: int) -> int:
        """The queue offset behind the last unit whose record begins below `log_offset`."""
        return self._search(self.min, self.next, lambda at, _size, _tags: at < log_offset)

    def truncate(self, log_offset: int) -> None:
        """The log was cut to `log_offset`: drop later units, in memory and in the files.

        What a crash brings back of them recovery drops again, see `truncation`.
        """
        end = self.end_before(log_offset)
        if end == self.next:
            return
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
        if in_files:
            self.clear_behind()

    def clear_behind(self) -> None:
        """Zero old units that lie behind the end; a reader of the files takes zeros as the end."""
        at = self.next * self.unit_bytes
        while at % self.file_bytes:
            room = self.file_bytes - at % self.file_bytes
            data = self._files.read(self._path(at), at % self.file_bytes, min(4096, room))
            if not any(data):
                return
            self._files.get(self._path(at)).write(at % self.file_bytes, bytes(len(data)))
            self._files.unsynced.add(self._path(at))
            at += len(data)
        disk = self._files.disk
        for name in disk.list(self._folder):
            if name.isdecimal() and int(name) >= at:
                self._files.forget(f"{self._folder}/{name}")
                disk.remove(f"{self._folder}/{name}")
                self._files.created.add(f"{self._folder}/{name}")  # its directory wants a sync

    def undo(self) -> None:
        """Take back the units of an append that failed."""
        del self.tail[(self.settled - self.tail_start) * self.unit_bytes :]
        self.next = self.settled

    def _path(self, at: int) -> str:
        return f"{self._folder}/{file_name(at - at % self.file_bytes)}"

    def write_out(self) -> None:
        """Write the units that no file has yet; `DiskFull` leaves them in memory."""
        while self.written < self.settled:
            at = self.written * self.unit_bytes
            room = self.file_bytes - at % self.file_bytes
            low = at - self.tail_start * self.unit_bytes
            data = bytes(self.tail[low : min(low + room, self._stored_bytes())])
            path = self._path(at)
            file = self._files.get(path, self.file_bytes)
            if self.written == self.min and at % self.file_bytes:
                self._pre_blank(path, at % self.file_bytes)
            file.write(at % self.file_bytes, data)
            self._files.unsynced.add(path)
            self.written += len(data) // self.unit_bytes
        drop = self.written - self.tail_start - KEEP_UNITS
        if drop > KEEP_UNITS:
            del self.tail[: drop * self.unit_bytes]
            self.tail_start += drop

    def put_unit(self, number: int, data: bytes) -> None:
        """Write one unit again, wherever it is; `DiskFull`, `DiskFailed`."""
        if number < self.written:
            at = number * self.unit_bytes
            path = self._path(at)
            self._files.get(path).write(at % self.file_bytes, data)
            self._files.unsynced.add(path)
        if number >= self.tail_start:
            low = (number - self.tail_start) * self.unit_bytes
            self.tail[low : low + self.unit_bytes] = data

    def blank_units(self, start: int, stop: int) -> None:
        """Make a hole of the units whose records begin in `[start, stop)` of the log (repair; all
        units are in files). It names the record that follows, as after rocketmq#6570."""
        low, high = self.end_before(start), self.end_before(stop)
        after = self.unit(high) if high < self.next else None
        hole = UNIT.pack(stop if after is None else after[0], PRE_BLANK_SIZE, 0)
        for number in range(low, high):
            at = number * self.unit_bytes
            self._files.get(self._path(at)).write(at % self.file_bytes, hole)
            self._files.unsynced.add(self._path(at))

    def _stored_bytes(self) -> int:
        return (self.settled - self.tail_start) * self.unit_bytes

    def _pre_blank(self, path: str, size: int) -> None:
        """A queue that begins inside a file fills what is below it."""
        file = self._files.get(path)
        if file.read(size - self.unit_bytes, self.unit_bytes) == bytes(self.unit_bytes):
            file.write(0, PRE_BLANK * (size // self.unit_bytes))

    def units(self, queue_offset: int, count: int) -> bytes:
        """The bytes of up to `count` units from `queue_offset`, which is not below `min`."""
        low = queue_offset - self.tail_start
        if low >= 0:
            return bytes(self.tail[low * self.unit_bytes : (low + count) * self.unit_bytes])
        from_files = min(count, -low)
        data = self._from_files(queue_offset, from_files)
        if len(data) == from_files * self.unit_bytes and count > from_files:
            data += bytes(self.tail[: (count - from_files) * self.unit_bytes])
        return data

    def _from_files(self, queue_offset: int, count: int) -> bytes:
        data = b""
        at = queue_offset * self.unit_bytes
        left = count * self.unit_bytes
        while left:
            step = min(left, self.file_bytes - at % self.file_bytes)
            part = self._files.read(self._path(at), at % self.file_bytes, step)
            data += part
            if len(part) < step:
                break
            at += step
            left -= step
        return data

    def unit(self, queue_offset: int) -> tuple[int, int, int] | None:
        """(log offset, size, tags code) of one unit."""
        data = self.units(queue_offset, 1)
        return self.shape.unpack(data) if len(data) == self.unit_bytes else None

    def base_of(self, queue_offset: int) -> int:
        """The queue offset that the record of message `queue_offset` carries."""
        return queue_offset

    def last_unit(self) -> tuple[int, int, int, int | None] | None:
        """(queue offset of the record, log offset, size, messages in it if the unit tells) by the
        last unit; None for no unit."""
        unit = self.unit(self.next - 1) if self.next > self.min else None
        return None if unit is None else (self.next - 1, unit[0], unit[1], None)

    def last_in_file(self, file_start: int) -> tuple[int, int, int] | None:
        """The last unit of the file that begins at byte `file_start`."""
        return self.unit((file_start + self.file_bytes) // self.unit_bytes - 1)

    def set_floor(self, log_start: int) -> None:
        """Raise `min` to the first unit whose record the log still has."""
        if self.floor == log_start:
            return
        self.min = self._search(
            self.min,
            self.next,
            lambda at, size, _tags: 0 <= at < log_start or (at == 0 and size == PRE_BLANK_SIZE),
        )
        self.floor = log_start
