"""Histograms of plain integers, as Prometheus has them."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

K = TypeVar("K")


class Histogram:
    """Counts values by class; `observe` costs a binary search and two additions.

    Args:
        bounds: the largest value of each class, rising; larger values have a class of their own.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds: tuple[float, ...] = tuple(bounds)
        self.counts: list[int] = [0] * (len(self.bounds) + 1)
        self.total: float = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count one value, `times` times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def add(self, counts: Sequence[int], total: float) -> None:
        """Add values that were counted elsewhere by the same classes; `total` is their sum."""
        for number, count in enumerate(counts):
            self.counts[number] += count
        self.total += total

    def buckets(self) -> list[tuple[str, int]]:
        """Return each bound as text ("5.0"), "+Inf" last, with the number of values up to it."""
        found, count = [], 0
        texts = [*(repr(float(bound)) for bound in self.bounds), "+Inf"]
        for text, own in zip(texts, self.counts, strict=True):
            count += own
            found.append((text, count))
        return found


class HistogramTable(Generic[K]):
    """Histograms with the same bounds, by key; a limited number of them.

    Args:
        bounds: as those of `Histogram`.
        keys_max: when there are this many, the values of new keys are not kept.
    """

    def __init__(self, bounds: Sequence[float], keys_max: int) -> None:
        self._bounds = tuple(bounds)
        self._keys_max = keys_max
        self._table: dict[K, Histogram] = {}
        self._overflow = Histogram(bounds)

    def get(self, key: K) -> Histogram:
        """Return the histogram to add to."""
        histogram = self._table.get(key)
        if histogram is None:
            if len(self._table) >= self._keys_max:
                return self._overflow
            histogram = self._table[key] = Histogram(self._bounds)
        return histogram

    def items(self) -> list[tuple[K, Histogram]]:
        """Return all histograms with their keys."""
        return list(self._table.items())

    def forget(self, is_gone: Callable[[K], bool]) -> None:
        """Drop the histograms whose key is gone."""
        for key in [key for key in self._table if is_gone(key)]:
            del self._table[key]
