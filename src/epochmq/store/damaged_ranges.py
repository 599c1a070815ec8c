"""Ranges of the log known to be damaged: what reads refuse, and what waits for a repair."""

import logging
from bisect import bisect_left, insort
from typing import NamedTuple

_log = logging.getLogger(__name__)

RANGES_MAX = 10_000
"""Beyond so many a new one is joined with the one before it, and what lies between is refused."""


class DamagedRange(NamedTuple):
    """Bytes `[start, end)` of the log that may not be handed out."""

    start: int
    end: int
    reason: str

    def __str__(self) -> str:
        return f"the log is damaged from offset {self.start} to {self.end}: {self.reason}"


class DamageTable:
    """What was found by reads and by the scrub, until it is repaired, cut or deleted."""

    def __init__(self) -> None:
        self.ranges: list[DamagedRange] = []
        self._longest = 0
        """No range has more bytes."""
        self.found = 0
        """Ranges since the start of this process."""
        self.repaired = 0
        self.units_rebuilt = 0
        """Consume-queue units that were damaged, and derived from the log again."""

    def report(self, start: int, end: int, reason: str) -> DamagedRange:
        """Remember that `[start, end)` is damaged; logged once for each range."""
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
        """The first known range that overlaps `[start, end)`."""
        ranges = self.ranges
        for at in range(bisect_left(ranges, (start - self._longest,)), len(ranges)):
            known = ranges[at]
            if known.start >= end:
                break
            if start < known.end:
                return known
        return None

    def clear(self, start: int, end: int) -> list[DamagedRange]:
        """Forget the ranges that lie within `[start, end)`: their bytes are others now."""
        gone = [known for known in self.ranges if start <= known.start and known.end <= end]
        self.ranges = [known for known in self.ranges if known not in gone]
        return gone

    def mark_repaired(self, start: int, end: int, how: str) -> None:
        """The bytes `[start, end)` were replaced by sound ones."""
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
