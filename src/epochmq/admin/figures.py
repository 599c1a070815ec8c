"""Numbers for people: percentiles in little memory, rates, sizes."""

import math

_STEPS = 100
"""Buckets an e-fold: a percentile is right to one in a hundred."""


class Latencies:
    """Counts of durations in buckets of one per cent; never grows past a few thousand entries."""

    __slots__ = ("_buckets", "_total", "max_ms")

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self._total = 0
        self.max_ms = 0.0

    def add(self, ms: float, count: int = 1) -> None:
        """Count `count` durations of `ms`."""
        bucket = int(math.log(max(ms, 0.0) * 1_000 + 1) * _STEPS)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        self._total += count
        self.max_ms = max(self.max_ms, ms)

    def percentile(self, share: float) -> float:
        """The duration in ms that `share` (0 to 1) of all stay within; 0 without any."""
        left = math.ceil(self._total * share)
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                return min((math.exp((bucket + 1) / _STEPS) - 1) / 1_000, self.max_ms)
        return 0.0

    def as_dict(self) -> dict[str, float]:
        """For reports: rounded milliseconds."""
        shares = {"p50_ms": 0.5, "p99_ms": 0.99}
        figures = {name: round(self.percentile(share), 2) for name, share in shares.items()}
        return {**figures, "max_ms": round(self.max_ms, 2)}


def size(count: float) -> str:
    """Bytes in the largest fitting unit: "12.3 MB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1_000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1_000
    return f"{count:.1f} TB"


def rate(count: int, seconds: float) -> str:
    """ "1,234/s"; of a single moment there is no rate."""
    return f"{count / seconds:,.0f}/s" if seconds > 0 else "-"
