"""Collects the units of one slot, a bounded number at a time: a slot may hold a million.

A chain is walked from its newest unit back. What joins the slot meanwhile is newer than where the
walk began; it is walked to afterwards, until nothing joined.
"""

from array import array
from collections.abc import Iterator

from epochmq.store.timer.files import Link, TimerFiles
from epochmq.store.timer.layout import DELETE, ROLL, Unit


def takes_back(unit: Unit | Link) -> bool:
    """Whether this one cancels others now, and is not only on its way there."""
    return bool(unit.magic & DELETE) and not unit.magic & ROLL


class SlotReading:
    """16 bytes a unit; `TimerDamaged` from `read` when the chain breaks."""

    def __init__(self, files: TimerFiles, slot_ms: int) -> None:
        self.slot_ms = slot_ms
        self.deletes: list[int] = []
        """Positions of those that cancel others."""
        self._files = files
        self._positions = array("q")
        self._times = array("q")
        self._read_to = -1
        """Everything up to this position is collected, once the walk is over."""
        self._walk_from = -1
        self._walk = iter(files.walk(slot_ms))

    def read(self, count: int) -> bool:
        """Collect up to `count` more; whether that is all."""
        for position, unit in self._walk:
            if self._walk_from < 0:
                self._walk_from = position
            if position <= self._read_to:
                break
            self._positions.append(position)
            self._times.append(unit.deliver_wall_ms)
            if takes_back(unit):
                self.deletes.append(position)
            count -= 1
            if count <= 0:
                return False
        if self._walk_from <= self._read_to:
            return True
        self._read_to, self._walk_from = self._walk_from, -1
        self._walk = iter(self._files.walk(self.slot_ms))
        return self.read(count)

    def units(self) -> Iterator[tuple[int, int]]:
        """(deliver wall ms, position) of all."""
        return zip(self._times, self._positions, strict=True)
