"""Counts of the records of the revive queues since the start, for metrics."""

from epochmq.base.counter_table import CounterTable
from epochmq.base.histogram import Histogram
from epochmq.base.limits import STAT_ITEMS_MAX
from epochmq.broker.internal_writes.internal_writer import WriteOutcome

CHECK_POINT, ACK = "CK", "ACK"
"""Types of records, as RocketMQ's metrics name them."""
_STATUS = {
    WriteOutcome.STORED: "PUT_OK",
    WriteOutcome.LATER: "SERVICE_NOT_AVAILABLE",
    WriteOutcome.ILLEGAL: "MESSAGE_ILLEGAL",
}
SCAN_MS = (1, 10, 100, 1_000, 2_000, 3_000)
"""Bounds of the classes of times that a look at the POP buffer takes (ms): RocketMQ's."""


class ReviveCounts:
    """Each key begins with consumer group and topic."""

    def __init__(self) -> None:
        self.written: CounterTable[tuple[str, str, str, str]] = CounterTable(STAT_ITEMS_MAX)
        """Records that were written; the key ends with type and result."""
        self.read: CounterTable[tuple[str, str, str, str]] = CounterTable(STAT_ITEMS_MAX)
        """Records that were read; the key ends with type and revive queue."""
        self.retried: CounterTable[tuple[str, str, str]] = CounterTable(STAT_ITEMS_MAX)
        """Messages written into retry topics; the key ends with the result."""
        self.scan_times = Histogram(SCAN_MS)
        """How long it took to look through the POP buffer (ms)."""

    def count_written(self, group: str, topic: str, kind: str, outcome: WriteOutcome) -> None:
        """Count a record that was to be written."""
        self.written.add((group, topic, kind, _STATUS[outcome]))

    def count_retried(self, group: str, topic: str, outcome: WriteOutcome) -> None:
        """Count a message that was to be written into a retry topic."""
        self.retried.add((group, topic, _STATUS[outcome]))

    def forget(self, name: str) -> None:
        """Drop the counts of a deleted topic or group."""
        for table in (self.written, self.read):
            table.forget(lambda key: name in key[:2])
        self.retried.forget(lambda key: name in key[:2])
