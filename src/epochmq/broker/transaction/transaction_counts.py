"""Counts of transactions by the topic of the real message, for metrics."""

from epochmq.base.histogram import Histogram
from epochmq.base.limits import TOPICS_MAX

FINISH_LATENCY_S = (5, 60, 600, 3_600, 43_200, 86_400)
"""Bounds of the classes of the age of transactions when they are committed: RocketMQ's."""


class TopicTransactions:
    """The transactions of one topic."""

    __slots__ = ("latency", "open", "rolled_back")

    def __init__(self) -> None:
        self.open = 0
        """Number of transactions that are not ended."""
        self.rolled_back = 0
        self.latency = Histogram(FINISH_LATENCY_S)
        """From the birth of a transaction to its commit (s); each commit is counted here."""

    @property
    def committed(self) -> int:
        """Number of commits."""
        return sum(self.latency.counts)

    def commit(self, age_ms: int) -> None:
        """Count a commit; `age_ms` is the time since the birth of the message."""
        self.latency.observe(age_ms // 1000 if age_ms > 0 else 0)


class TransactionCounts:
    """The counts of all topics; beyond `topics_max` the topics share one that is not shown."""

    def __init__(self, topics_max: int = TOPICS_MAX) -> None:
        self._topics_max = topics_max
        self._by_topic: dict[bytes, TopicTransactions] = {}
        self._overflow = TopicTransactions()

    def of_topic(self, topic: bytes) -> TopicTransactions:
        """Return the counts to add to; `topic` is encoded, as records have it."""
        counts = self._by_topic.get(topic)
        if counts is None:
            if len(self._by_topic) >= self._topics_max:
                return self._overflow
            counts = self._by_topic[topic] = TopicTransactions()
        return counts

    def items(self) -> list[tuple[str, TopicTransactions]]:
        """Return all counts with their topics."""
        return [
            (topic.decode("utf-8", "replace"), counts) for topic, counts in self._by_topic.items()
        ]

    def begin(self) -> None:
        """Start a new term: no transaction is known to be open."""
        for counts in (*self._by_topic.values(), self._overflow):
            counts.open = 0

    def forget(self, topic: str) -> None:
        """Drop the counts of a deleted topic."""
        self._by_topic.pop(topic.encode(), None)
