"""Timer wheel and timer log together: adding units, reading a slot's chain, rewinding.

Order of syncs: the timer log, then the wheel, then the checkpoint that covers both. After a crash
the wheel may be newer than its checkpoint: `open` cuts the timer log at the checkpoint's position
and removes later units from the slots. Inconsistent files raise `TimerDamaged`.
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
"""Limit of timer log files that are examined, or deleted, in one step."""


class SlotLink(NamedTuple):
    """A message to be added to the slot of time `slot_ms`."""

    slot_ms: int
    magic: int
    offset: int
    size: int
    topic_hash: int
    deliver_wall_ms: int


class TimerFiles:
    """The files of the timer; they can always be rebuilt from the timer topic in the commit log."""

    def __init__(self, wheel: Wheel, log: TimerLog, precision_ms: int) -> None:
        self.wheel = wheel
        self.log = log
        self.precision_ms = precision_ms

    @staticmethod
    def exist(disk: Disk) -> bool:
        """Whether any timer file is on the disk."""
        return disk.exists(WHEEL_FILE) or bool(disk.list(LOG_FOLDER))

    def open(self, position: int) -> None:
        """Open the files up to the checkpoint's `position`; raise `TimerDamaged` if they lack
        it.
        """
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
        """Append a unit for each link and add it to its slot's chain; return the units'
        positions.
        """
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
        """Return the number of messages in the slot of time `slot_ms`."""
        slot = self.wheel.get(slot_ms // self.precision_ms)
        return 0 if slot is None else slot.length

    def counts_between(self, from_ms: int, until_ms: int) -> Iterator[int]:
        """Yield parts of the number of messages in the slots of [`from_ms`, `until_ms`)."""
        first = from_ms // self.precision_ms
        return self.wheel.lengths(first, until_ms // self.precision_ms - first)

    def walk(self, slot_ms: int) -> Iterator[tuple[int, Unit]]:
        """Yield (position, unit) of a slot's chain, newest first; `TimerDamaged` if it is
        broken.
        """
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
        """Return the units at these positions (at least one); raises `TimerDamaged` like `unit`."""
        return [decode_unit(data) for data in self.log.read_many(positions)]

    def rewind(self, position: int) -> None:
        """Remove all units from `position` of the timer log on."""
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
        """Empty slots whose messages are delivered, after the deliveries were synced."""
        ticks = {slot_ms // self.precision_ms for slot_ms in slots_ms}
        found = [tick for tick in ticks if self.wheel.get(tick) is not None]
        if found:
            self.wheel.put(dict.fromkeys(found))

    def clean(self, before_ms: int) -> None:
        """Delete timer log files whose last unit was written before `before_ms`."""
        for start, last in self.log.first_files()[:CLEAN_FILES_MAX]:
            if start != self.log.start or self.unit(last).write_wall_ms >= before_ms:
                return
            self.log.drop_first()

    def sync_point(self) -> Callable[[], None]:
        """Return a blocking call, for any thread, that syncs what is written now."""
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
        """Restart with empty files; `position` is the last one that a checkpoint may contain."""
        self.log.reset(position)
        self.wheel.reset()

    def _cut_slot(self, slot: TimerSlot, position: int) -> TimerSlot | None:
        """Return the slot without the units from `position` on; None if it becomes empty."""
        at, count = slot.last, slot.length
        while count > 0 and at >= position:
            at, count = self._unit_of(slot, at).previous, count - 1
        if (count > 0) != (at >= slot.first) or (count == 1) != (at == slot.first):
            raise TimerDamaged(f"the chain of slot {slot.tick} has another length")
        if count == 0:
            return None
        return TimerSlot(slot.tick, slot.first, at, count)

    def _unit_of(self, slot: TimerSlot, at: int) -> Unit:
        """Return the unit at a position of a slot's chain; `TimerDamaged` if it has another
        slot.
        """
        unit = decode_unit(self.log.read(at))
        tick = (unit.write_wall_ms + unit.delay_ms) // self.precision_ms
        if unit.previous >= at or tick != slot.tick:
            raise TimerDamaged(f"the chain of slot {slot.tick} breaks at {at}")
        return unit
