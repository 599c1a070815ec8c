"""Counts of timed messages since the start, by real topic, for metrics."""

from collections.abc import Sequence

from epochmq.base.counter_table import CounterTable
from epochmq.base.histogram import HistogramTable
from epochmq.base.limits import TOPICS_MAX

DELAY_S = (60, 600, 3_600, 43_200, 86_400, 259_200)
"""Bounds of the classes of delays: RocketMQ's."""


class TimerCounts:
    """What was placed on the timer wheel, and what was delivered from it."""

    def __init__(self) -> None:
        self.enqueued: CounterTable[str] = CounterTable(TOPICS_MAX)
        self.dequeued: CounterTable[str] = CounterTable(TOPICS_MAX)
        self.delays: HistogramTable[str] = HistogramTable(DELAY_S, TOPICS_MAX)
        """Delays in s, from the store time to the due time."""

    def placed(self, topics: Sequence[str], delays_ms: Sequence[int]) -> None:
        """Count messages that were placed on the wheel, and their delays."""
        for topic, delay_ms in zip(topics, delays_ms, strict=True):
            self.enqueued.add(topic)
            self.delays.get(topic).observe(max(0, delay_ms) / 1000)

    def forget(self, topic: str) -> None:
        """Drop the counts of a deleted topic."""
        for table in (self.enqueued, self.dequeued, self.delays):
            table.forget(lambda key: key == topic)
