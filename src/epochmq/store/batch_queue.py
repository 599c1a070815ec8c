"""The batch consume queue (BatchCQ): 46-byte units, each for one record with several messages.

A unit stands for one record and says which queue offsets it covers. Units are therefore found by
binary search, and queue offsets may have holes. Units, files and tail work like those of a plain
queue; unit numbers count from the first unit of the first file.
"""

from epochmq.model import properties as props
from epochmq.model.property_names import INNER_NUM
from epochmq.model.sys_flag import INNER_BATCH
from epochmq.store.consume_queue import ConsumeQueue, search_around_damage
from epochmq.store.draft import BATCH_PLACE, BATCH_UNIT
from epochmq.store.queue_files import QueueFiles

ROOT = "batchconsumequeue"
INNER_MESSAGES_MAX = 0x7FFF
"""A unit stores the number of messages as an i16."""

_INNER_NUM = INNER_NUM.encode()
_BASE, _COUNT = 4, 5

Unit = tuple[int, int, int, int, int, int, int, int]
"""The fields of `BATCH_UNIT`."""


def inner_count(sys_flag: int, properties: bytes) -> int:
    """Return how many queue offsets a record uses: INNER_NUM of an inner batch, else 1."""
    if not sys_flag & INNER_BATCH:
        return 1
    value = props.find(properties, _INNER_NUM) or b""
    if len(value) > 5 or not value.isdigit():
        return 1
    return min(max(int(value), 1), INNER_MESSAGES_MAX)


class BatchRun(ConsumeQueue):
    """The units of a batch queue by their position in its files."""

    __slots__ = ()
    root = ROOT
    size_option = "mapperFileSizeBatchConsumeQueue"


class BatchQueue(ConsumeQueue):
    """Messages `[min, next)`; all offsets except those of `run` are queue offsets of messages."""

    __slots__ = ("run",)
    root = ROOT

    def __init__(self, topic: str, queue_id: int, files: QueueFiles, file_bytes: int) -> None:
        super().__init__(topic, queue_id, files, file_bytes, BATCH_PLACE)
        self.run = BatchRun(topic, queue_id, files, file_bytes, BATCH_PLACE)

    @property
    def is_unused(self) -> bool:
        return self.next == 0 and self.run.next == 0

    def add(self, offset: int, size: int, tags: int, wall: int, count: int) -> None:
        """Add a unit: the record at `offset`, stored at `wall` (ms), holds `count` messages."""
        run = self.run
        run.tail += BATCH_UNIT.pack(offset, size, tags, wall, self.next, count, -1, 0)
        run.next += 1
        self.next += count

    def at(self, position: int) -> Unit | None:
        """Return the unit at `position` of `run`; None if there is none."""
        data = self.run.units(position, 1)
        return BATCH_UNIT.unpack(data) if len(data) == BATCH_UNIT.size else None

    def position(self, queue_offset: int) -> int:
        """Return the position of the unit that holds message `queue_offset`.

        For an offset in a hole, return the position of the next unit.
        """

        def is_below(position: int) -> bool:
            unit = self.at(position)
            return unit is not None and unit[_BASE] + unit[_COUNT] <= queue_offset

        return search_around_damage(self.run.min, self.run.next, is_below)

    def unit(self, queue_offset: int) -> tuple[int, int, int] | None:
        """Return (log offset, size, tags code) of the record that holds message `queue_offset`."""
        return self.run.unit(self.position(queue_offset))

    def base_of(self, queue_offset: int) -> int:
        unit = self.at(self.position(queue_offset))
        return queue_offset if unit is None else unit[_BASE]

    def last_unit(self) -> tuple[int, int, int, int | None] | None:
        unit = self.at(self.run.next - 1) if self.run.next > self.run.min else None
        return None if unit is None else (unit[_BASE], unit[0], unit[1], unit[_COUNT])

    def last_in_file(self, file_start: int) -> tuple[int, int, int] | None:
        return self.run.last_in_file(file_start)

    def place(self, first: int, queue_offset: int) -> None:
        """Continue at `queue_offset` without any unit."""
        super().place(first, queue_offset)
        self.run.place(0, 0)

    def load(self) -> None:
        self.run.load()
        self._adopt(0)
        self.reach = self.run.reach

    def _adopt(self, empty: int) -> None:
        """Set the bounds from the units that `run` found; to `empty` if there are none."""
        run = self.run
        first = self.at(run.min) if run.min < run.next else None
        last = self.at(run.next - 1) if run.min < run.next else None
        if first is None or last is None:
            super().place(empty, empty)
        else:
            super().place(first[_BASE], last[_BASE] + last[_COUNT])

    def cut(self, log_offset: int) -> None:
        end = self.run.next
        self.run.cut(log_offset)
        if self.run.next < end:
            self._adopt(self.min)

    def end_at(self, log_offset: int, low: int | None = None) -> int:
        run = self.run
        unit = self.at(run.end_at(log_offset))
        return self.next if unit is None else unit[_BASE]

    def end_before(self, log_offset: int) -> int:
        unit = self.at(self.run.end_before(log_offset))
        return self.next if unit is None else unit[_BASE]

    def truncate(self, log_offset: int) -> list[str]:
        run, end, visible = self.run, self.run.next, self.visible
        run.settled = run.next
        later = run.truncate(log_offset)
        if run.next < end:
            self._adopt(self.min)
            self.visible = min(visible, self.next)
        return later

    def clear_behind(self) -> None:
        self.run.clear_behind()

    def undo(self) -> None:
        run = self.run
        while run.next > run.written and self._last_base() >= self.settled:
            del run.tail[-BATCH_UNIT.size :]
            run.next -= 1
        self.next = self.settled

    def _last_base(self) -> int:
        base: int = BATCH_UNIT.unpack(self.run.tail[-BATCH_UNIT.size :])[_BASE]
        return base

    def write_out(self) -> None:
        """Write the units; between two appends every unit belongs to a successful append."""
        self.run.settled = self.run.next
        self.run.write_out()
        self.written = self.settled

    def set_floor(self, log_start: int) -> None:
        if self.floor == log_start:
            return
        self.run.set_floor(log_start)
        first = self.at(self.run.min) if self.run.min < self.run.next else None
        self.min = self.next if first is None else first[_BASE]
        self.floor = log_start
