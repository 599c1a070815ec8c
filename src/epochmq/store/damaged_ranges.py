"""The table of damaged ranges of the log: reads of them are refused until they are repaired."""

import logging
from bisect import bisect_left, insort
from typing import NamedTuple

_log = logging.getLogger(__name__)

RANGES_MAX = 10_000
"""Beyond this limit, a new range is joined with the one before it, including the bytes in
between.
"""


class DamagedRange(NamedTuple):
    """Bytes `[start, end)` of the log that must not be returned to readers."""

    start: int
    end: int
    reason: str

    def __str__(self) -> str:
        return f"the log is damaged from offset {self.start} to {self.end}: {self.reason}"


class DamageTable:
    """Damage found by reads and by the scrub, until it is repaired, cut or deleted."""

    def __init__(self) -> None:
        self.ranges: list[DamagedRange] = []
        self._longest = 0
        """Upper limit of the ranges' lengths."""
        self.found = 0
        """Number of ranges found since the start of this process."""
        self.repaired = 0
        self.units_rebuilt = 0
        """Damaged consume queue units that were derived from the log again."""

    def report(self, start: int, end: int, reason: str) -> DamagedRange:
        """Note that `[start, end)` is damaged; logged once per range."""
        known = self.find(start, end)
        if known is not None and known.start <= start and end <= known.end:
            return known
        damaged = DamagedRange(start, end, reason)
        self.found += 1
        if len(self.ranges) >= RANGES_MAX:
            before = self.ranges.pop(max(bisect_left(self.ranges, damaged) - 1, 0))
            low, high = min(before.start, start), max(before.end, end)
            damaged = DamagedRange(low, high, reason)
        insort(self.ranges, damaged)
        self._longest = max(self._longest, damaged.end - damaged.start)
        _log.error(
            "%s; reads of it are refused until it is repaired (a replica's scrub does that, or"
            " epochmq store repair)",
            damaged,
        )
        return damaged

    def find(self, start: int, end: int) -> DamagedRange | None:
        """Return the first known range that overlaps `[start, end)`, or None."""
        ranges = self.ranges
        for at in range(bisect_left(ranges, (start - self._longest,)), len(ranges)):
            known = ranges[at]
            if known.start >= end:
                break
            if start < known.end:
                return known
        return None

    def first_of(self, start: int, end: int, most: int) -> list[tuple[int, int]]:
        """Return the bounds of the first `most` known ranges that overlap `[start, end)`."""
        found: list[tuple[int, int]] = []
        while start < end and len(found) < most:
            known = self.find(start, end)
            if known is None:
                break
            found.append((known.start, known.end))
            start = known.end
        return found

    def clear(self, start: int, end: int) -> list[DamagedRange]:
        """Forget and return the ranges within `[start, end)`, because their bytes were replaced."""
        gone = [known for known in self.ranges if start <= known.start and known.end <= end]
        self.ranges = [known for known in self.ranges if known not in gone]
        return gone

    def mark_repaired(self, start: int, end: int, how: str) -> None:
        """Note that the bytes `[start, end)` were replaced by sound ones."""
        gone = self.clear(start, end)
        self.repaired += len(gone)
        for damaged in gone:
            _log.warning(
                "repaired the log from offset %d to %d: %s", damaged.start, damaged.end, how
            )

    @property
    def bytes_waiting(self) -> int:
        """Bytes of all ranges that wait for a repair."""
        return sum(known.end - known.start for known in self.ranges)

    def statistics(self) -> dict[str, int]:
        """Plain figures."""
        return {
            "damage_found": self.found,
            "damage_repaired": self.repaired,
            "damage_waiting": len(self.ranges),
            "damage_waiting_bytes": self.bytes_waiting,
            "queue_units_rebuilt": self.units_rebuilt,
        }
