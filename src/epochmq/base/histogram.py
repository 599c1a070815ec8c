"""A histogram of plain integers, as Prometheus has it."""

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """Counts values by class; `observe` costs a binary search and two additions.

    Args:
        bounds: the largest value of each class, rising; larger values have a class of their own.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, int]]:
        """Return each bound as text, "+Inf" last, with the number of values up to it."""
        found, count = [], 0
        texts = [*(f"{bound:g}" for bound in self.bounds), "+Inf"]
        for text, own in zip(texts, self.counts, strict=True):
            count += own
            found.append((text, count))
        return found
