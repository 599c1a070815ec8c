"""Reads the units of one timer wheel slot in delivery order, a limited piece at a time.

A slot may hold a million units; sorting them all at once would stop the broker for a second. The
chain of a slot is read from its newest unit backwards. Units that join meanwhile are newer than the
start of that walk, so a further walk reads them, until none has joined. Each piece is sorted by
itself, then the pieces are merged pairwise, the oldest pieces first.
"""

from array import array
from collections import deque
from collections.abc import Callable, Sequence

from epochmq.store.timer.timer_files import SlotLink, TimerFiles
from epochmq.store.timer.wheel import DELETE, ROLL, Unit

MERGED_PER_READ = 16
"""Number of units that are merged in about the time of collecting one unit."""


def cancels_now(unit: Unit | SlotLink) -> bool:
    """Return whether the unit is a cancellation that takes effect now, not one that rolls."""
    return bool(unit.magic & DELETE) and not unit.magic & ROLL


class SlotReading:
    """Collects and sorts the units of one slot; needs 8 bytes for each unit.

    `key_of` returns the sort key of a unit from its time, its position and whether it rolls; None
    leaves the unit out. `read` raises `TimerDamaged` if the chain is broken.
    """

    def __init__(
        self, files: TimerFiles, slot_ms: int, key_of: Callable[[int, int, bool], int | None]
    ) -> None:
        self.slot_ms = slot_ms
        self.deletes: list[int] = []
        """Timer log positions of the cancellations."""
        self._files = files
        self._key_of = key_of
        self._sorted: deque[array[int]] = deque()
        self._read_to = -1
        """All units up to this position are collected when the present walk is over."""
        self._walk_from = -1
        self._walk = iter(files.walk(slot_ms))
        self._over = self._merging = False

    def read(self, count: int) -> bool:
        """Collect up to `count` more units, or merge some; return whether all are read."""
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
        """Return all sort keys in order; call it only after `read` has returned True."""
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
            if cancels_now(unit):
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
        """Merge the two oldest pieces into one; return how many units it has."""
        both = self._sorted.popleft().tolist()
        both += self._sorted.popleft()
        both.sort()  # two runs: no more than a merge
        self._sorted.append(array("Q", both))
        return len(both)


def merged(readings: Sequence[SlotReading]) -> "array[int]":
    """Return the sort keys of several slots in order.

    With more than one slot, all of them together should be few units, because they are sorted at
    once.
    """
    if len(readings) == 1:
        return readings[0].keys()
    keys = array("Q")
    for reading in readings:
        keys += reading.keys()
    return array("Q", sorted(keys))
