"""Wheel and timer log together: adding units, walking a slot's chain, going back to a position.

Order on the device: the log, then the wheel, then the checkpoint that vouches for both. After a
crash the wheel may be ahead of its checkpoint: `open` cuts the log where the checkpoint says and
takes what lies behind it out of the slots. Whatever does not fit raises `TimerDamaged`.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from epochmq.base.ports import Disk
from epochmq.store.timer.timer_log import FOLDER as LOG_FOLDER
from epochmq.store.timer.timer_log import TimerLog
from epochmq.store.timer.wheel import FILE as WHEEL_FILE
from epochmq.store.timer.wheel import UNIT_BYTES, TimerDamaged, TimerSlot, Unit, Wheel, decode_unit

_I32 = 1 << 31
CLEAN_FILES_MAX = 4
"""Files of the timer log that are looked at, or deleted, in one step."""


class SlotLink(NamedTuple):
    """A message to be hung into the slot of `slot_ms`."""

    slot_ms: int
    magic: int
    offset: int
    size: int
    topic_hash: int
    deliver_wall_ms: int


class TimerFiles:
    """The timer's own files; the timer topic in the log can always replace them."""

    def __init__(self, wheel: Wheel, log: TimerLog, precision_ms: int) -> None:
        self.wheel = wheel
        self.log = log
        self.precision_ms = precision_ms

    @staticmethod
    def exist(disk: Disk) -> bool:
        """Whether anything of a timer is on the disk."""
        return disk.exists(WHEEL_FILE) or bool(disk.list(LOG_FOLDER))

    def open(self, position: int) -> None:
        """Open what a checkpoint vouches for; `TimerDamaged` when it is not there."""
        self.wheel.open()
        self.log.open(position)
        behind: dict[int, TimerSlot | None] = {}
        for slot in self.wheel.all():
            if slot.last >= position:
                behind[slot.tick] = self._cut_slot(slot, position)
        if behind:
            self.wheel.put(behind)
        self.log.cut(position)

    def add(self, links: Sequence[SlotLink], wall: int) -> list[int]:
        """Append a unit for each link and hang them in; their positions."""
        positions = self.log.places(len(links))
        slots: dict[int, TimerSlot | None] = {}
        units = []
        tick = length = -1
        first = last = 0
        for link, position in zip(links, positions, strict=True):
            slot_ms = link.slot_ms
            if slot_ms // self.precision_ms != tick:
                if length > 0:
                    slots[tick] = TimerSlot(tick, first, last, length)
                tick = slot_ms // self.precision_ms
                slot = slots[tick] if tick in slots else self.wheel.get(tick)
                _, first, last, length = slot or (tick, position, -1, 0)
            delay_ms = slot_ms - wall
            written = (wall, delay_ms) if abs(delay_ms) < _I32 else (slot_ms, 0)
            units.append(Unit(last, link.magic, *written, *link[2:]).encode())
            last = position
            length += 1
        if length > 0:
            slots[tick] = TimerSlot(tick, first, last, length)
        self.log.append(units, positions)
        self.wheel.put(slots)
        return positions

    def count(self, slot_ms: int) -> int:
        """Messages in the slot of a time."""
        slot = self.wheel.get(slot_ms // self.precision_ms)
        return 0 if slot is None else slot.length

    def walk(self, slot_ms: int) -> Iterator[tuple[int, Unit]]:
        """(position, unit) of a slot's chain, newest first; `TimerDamaged` when it breaks."""
        slot = self.wheel.get(slot_ms // self.precision_ms)
        if slot is None:
            return
        at = slot.last
        for left in range(slot.length, 0, -1):
            unit = self._unit_of(slot, at)
            if (left == 1) != (at == slot.first):
                raise TimerDamaged(f"the chain of slot {slot.tick} breaks at {at}")
            yield at, unit
            at = unit.previous

    def unit(self, position: int) -> Unit:
        return decode_unit(self.log.read(position))

    def units(self, positions: Sequence[int]) -> list[Unit]:
        """The units at these positions, at least one; `TimerDamaged` as from `unit`."""
        return [decode_unit(data) for data in self.log.read_many(positions)]

    def rewind(self, position: int) -> None:
        """Take everything from `position` of the log on out again."""
        slots: dict[int, TimerSlot | None] = {}
        at = self.log.place(position)
        while at < self.log.end:
            unit = self.unit(at)
            tick = (unit.write_wall_ms + unit.delay_ms) // self.precision_ms
            if tick not in slots:
                slot = self.wheel.get(tick)
                slots[tick] = None if slot is None else self._cut_slot(slot, position)
            at = self.log.place(at + UNIT_BYTES)
        if slots:
            self.wheel.put(slots)
        self.log.cut(position)

    def clear(self, slots_ms: Collection[int]) -> None:
        """Empty slots whose messages are delivered, and the deliveries on the device."""
        ticks = {slot_ms // self.precision_ms for slot_ms in slots_ms}
        found = [tick for tick in ticks if self.wheel.get(tick) is not None]
        if found:
            self.wheel.put(dict.fromkeys(found))

    def clean(self, before_ms: int) -> None:
        """Delete log files whose last unit was written before a time."""
        for start, last in self.log.first_files()[:CLEAN_FILES_MAX]:
            if start != self.log.start or self.unit(last).write_wall_ms >= before_ms:
                return
            self.log.drop_first()

    def sync_point(self) -> Callable[[], None]:
        """A call that puts on the device what is written by now; it blocks, in any thread."""
        files = self.log.pop_unsynced()
        if self.wheel.file is not None:
            files.append(self.wheel.file)

        def sync() -> None:
            for file in files:
                file.sync()

        return sync

    def close(self) -> None:
        self.log.close()
        self.wheel.close()

    def reset(self, position: int) -> None:
        """Begin anew; `position` is the last one that a checkpoint may have vouched for."""
        self.log.reset(position)
        self.wheel.reset()

    def _cut_slot(self, slot: TimerSlot, position: int) -> TimerSlot | None:
        """The slot without the units from `position` on."""
        at, count = slot.last, slot.length
        while count > 0 and at >= position:
            at, count = self._unit_of(slot, at).previous, count - 1
        if (count > 0) != (at >= slot.first) or (count == 1) != (at == slot.first):
            raise TimerDamaged(f"the chain of slot {slot.tick} has another length")
        if count == 0:
            return None
        return TimerSlot(slot.tick, slot.first, at, count)

    def _unit_of(self, slot: TimerSlot, at: int) -> Unit:
        """The unit of a slot's chain at a position; `TimerDamaged` when it is another slot's."""
        unit = decode_unit(self.log.read(at))
        tick = (unit.write_wall_ms + unit.delay_ms) // self.precision_ms
        if unit.previous >= at or tick != slot.tick:
            raise TimerDamaged(f"the chain of slot {slot.tick} breaks at {at}")
        return unit
