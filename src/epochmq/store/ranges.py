"""A set of numbers stored as ranges: which units of a queue were compared with the log."""

from bisect import bisect_right

RANGES_MAX = 64
"""Limit of ranges; numbers beyond it are forgotten, and compared again."""


class Ranges:
    """Disjoint ranges `[low, high)`, in order; adjacent ranges are joined."""

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def covers(self, low: int, high: int) -> bool:
        """Whether all of `[low, high)` is in the set."""
        at = bisect_right(self._ranges, (low, 1 << 63)) - 1
        return high <= low or (at >= 0 and high <= self._ranges[at][1])

    def add(self, low: int, high: int) -> None:
        """Add `[low, high)` to the set; beyond the limit the smallest range is removed."""
        if high <= low:
            return
        ranges = self._ranges
        kept = [one for one in ranges if one[1] < low or one[0] > high]
        joined = [one for one in ranges if not (one[1] < low or one[0] > high)]
        kept.append((min([low, *(one[0] for one in joined)]), max([high, *(o[1] for o in joined)])))
        kept.sort()
        if len(kept) > RANGES_MAX:
            kept.remove(min(kept, key=lambda one: one[1] - one[0]))
        self._ranges = kept

    def clear(self) -> None:
        self._ranges = []
