"""Collects the units of one slot in their order, a bounded piece at a time: it may hold a million.

A chain is walked from its newest unit back. What joins the slot meanwhile is newer than where the
walk began; it is walked to afterwards, until nothing joined. Each piece is sorted by itself; then
the pieces are merged, the shortest first. Sorting all at once would stop the broker for a second.
"""

from array import array
from collections import deque
from collections.abc import Callable, Sequence

from epochmq.store.timer.timer_files import SlotLink, TimerFiles
from epochmq.store.timer.wheel import DELETE, ROLL, Unit

MERGED_PER_READ = 16
"""Units that are merged for each that would be collected: what takes about as long."""


def takes_back(unit: Unit | SlotLink) -> bool:
    """Whether this one cancels others now, and is not only on its way there."""
    return bool(unit.magic & DELETE) and not unit.magic & ROLL


class SlotReading:
    """8 bytes a unit; `TimerDamaged` from `read` when the chain breaks.

    `key_of` makes a number that sorts of a unit's time and position, and whether it rolls, or None
    for one to leave out.
    """

    def __init__(
        self, files: TimerFiles, slot_ms: int, key_of: Callable[[int, int, bool], int | None]
    ) -> None:
        self.slot_ms = slot_ms
        self.deletes: list[int] = []
        """Positions of those that cancel others."""
        self._files = files
        self._key_of = key_of
        self._sorted: deque[array[int]] = deque()
        self._read_to = -1
        """Everything up to this position is collected, once the walk is over."""
        self._walk_from = -1
        self._walk = iter(files.walk(slot_ms))
        self._over = self._merging = False

    def read(self, count: int) -> bool:
        """Collect up to `count` more, or merge some; whether that is all."""
        if self._merging:
            return self._merge_on(count)
        self._merging = self._collect(count) and len(self._sorted) > 1
        return self._over and not self._merging

    def _merge_on(self, count: int) -> bool:
        left = MERGED_PER_READ * count
        while len(self._sorted) > 1 and left > 0:
            left -= self._merge()
        if len(self._sorted) > 1:
            return False
        self._merging = False
        self._walk_from = -1
        self._walk = iter(self._files.walk(self.slot_ms))
        if self._collect(count):  # a few may have joined meanwhile
            while len(self._sorted) > 1:
                self._merge()
        return self._over

    def keys(self) -> "array[int]":
        """All, in order, once `read` has said so."""
        return self._sorted[0] if self._sorted else array("Q")

    def _collect(self, count: int) -> bool:
        piece: list[int] = []
        self._over = self._walk_on(count, piece)
        if piece:
            self._sorted.append(array("Q", sorted(piece)))
        return self._over

    def _walk_on(self, count: int, piece: list[int]) -> bool:
        for position, unit in self._walk:
            if self._walk_from < 0:
                self._walk_from = position
            if position <= self._read_to:
                break
            key = self._key_of(unit.deliver_wall_ms, position, bool(unit.magic & ROLL))
            if key is not None:
                piece.append(key)
            if takes_back(unit):
                self.deletes.append(position)
            count -= 1
            if count <= 0:
                return False
        if self._walk_from <= self._read_to:
            return True
        self._read_to, self._walk_from = self._walk_from, -1
        self._walk = iter(self._files.walk(self.slot_ms))
        return self._walk_on(count, piece)

    def _merge(self) -> int:
        """The two that have waited longest become one; how many units that was."""
        both = self._sorted.popleft().tolist()
        both += self._sorted.popleft()
        both.sort()  # two runs: no more than a merge
        self._sorted.append(array("Q", both))
        return len(both)


def merged(readings: Sequence[SlotReading]) -> "array[int]":
    """What several slots hold, in order; the first may hold many, the others only with a few."""
    if len(readings) == 1:
        return readings[0].keys()
    keys = array("Q")
    for reading in readings:
        keys += reading.keys()
    return array("Q", sorted(keys))
