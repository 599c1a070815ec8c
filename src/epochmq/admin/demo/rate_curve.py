"""Acknowledged sends in each quarter of a second: the curve that shows the failovers."""

from collections import Counter

BIN_S = 0.25


class RateCurve:
    """Counts by time; times are monotonic seconds, the curve's own begin at 0."""

    def __init__(self) -> None:
        self._began_s: float | None = None
        self._bins: Counter[int] = Counter()

    def add(self, at_s: float, count: int) -> None:
        """`count` messages were acknowledged at `at_s`."""
        if self._began_s is None:
            self._began_s = at_s
        self._bins[max(0, int((at_s - self._began_s) / BIN_S))] += count

    def since_start(self, at_s: float) -> float:
        """`at_s` on the curve's own time."""
        return at_s - (at_s if self._began_s is None else self._began_s)

    def points(self) -> list[tuple[float, float]]:
        """(seconds at the bin's middle, messages a second), empty bins included."""
        last = max(self._bins, default=-1)
        return [((n + 0.5) * BIN_S, self._bins[n] / BIN_S) for n in range(last + 1)]
