"""One counted thing with its samples, and the figures of a span made from them.

Sampling follows RocketMQ: every 10 s for the last minute (7 samples), every 10 min for the last
hour (7), every hour for the last day (25).
"""

from collections import deque
from typing import NamedTuple

MINUTE_STEP_MS = 10_000
HOUR_STEP_MS = 600_000
DAY_STEP_MS = 3_600_000


class StatsSpan(NamedTuple):
    """Figures between the first and the last sample of a span."""

    sum: int
    times: int
    tps: float
    """`sum` a second."""
    avgpt: float
    """Average of the added values."""


Samples = deque[tuple[int, int, int]]
"""(now, times, value), oldest first."""


class StatsItem:
    """`value` is what was added up, `times` how often."""

    __slots__ = ("_day", "_hour", "_minute", "times", "value")

    def __init__(self) -> None:
        self.value = 0
        self.times = 0
        self._minute: Samples = deque(maxlen=7)
        self._hour: Samples = deque(maxlen=7)
        self._day: Samples = deque(maxlen=25)

    def sample(self, now: int) -> None:
        """Take what is due of the three rows; called every 10 s."""
        for samples, step in (
            (self._minute, MINUTE_STEP_MS),
            (self._hour, HOUR_STEP_MS),
            (self._day, DAY_STEP_MS),
        ):
            if not samples or now - samples[-1][0] >= step:
                samples.append((now, self.times, self.value))

    def minute(self) -> StatsSpan:
        return _span(self._minute)

    def hour(self) -> StatsSpan:
        return _span(self._hour)

    def day(self) -> StatsSpan:
        return _span(self._day)


def _span(samples: Samples) -> StatsSpan:
    if len(samples) < 2:
        return StatsSpan(0, 0, 0.0, 0.0)
    first_at, first_times, first_value = samples[0]
    last_at, last_times, last_value = samples[-1]
    total, times = last_value - first_value, last_times - first_times
    elapsed = last_at - first_at
    tps = total * 1000 / elapsed if elapsed > 0 else 0.0
    return StatsSpan(total, times, tps, total / times if times else 0.0)
