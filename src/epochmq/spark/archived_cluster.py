"""A cluster whose queues begin where an archive of its topics begins."""

from collections.abc import Iterable, Mapping
from typing import Any

from epochmq.base.errors import UsageError
from epochmq.model.queue_offsets import Offsets, from_topics
from epochmq.model.topic import MessageQueue
from epochmq.spark.archive_reader import ArchiveReader
from epochmq.spark.cluster_calls import Bounds
from epochmq.spark.spark_cluster import Cluster


class ArchivedCluster(Cluster):
    """A client of one cluster that knows the queue offsets of an archive too.

    `read` returns only what brokers have; `archive` has the messages before.
    """

    def __init__(self, name_server: str, archive: ArchiveReader, **more: Any) -> None:
        super().__init__(name_server, **more)
        self.archive = archive
        self._lows: Offsets = {}
        """The first queue offsets that brokers had when they were asked last."""
        self._is_checked = False

    def bounds(self, topic: str, *, master: bool = False) -> dict[MessageQueue, tuple[int, int]]:
        """Return the bounds of the queues; a queue begins where the archive begins, or before."""
        return self._widened(super().bounds(topic, master=master))

    def bounds_of(self, topics: Iterable[str], *, master: bool = False) -> Bounds:
        """Return the bounds of several topics, as `bounds` does."""
        return self._widened(super().bounds_of(topics, master=master))

    def _widened(self, bounds: Mapping[MessageQueue, tuple[int, int]]) -> Bounds:
        self._lows.update({queue: low for queue, (low, _) in bounds.items()})
        archived = self.archive.bounds()
        self._check_same_topics(bounds)
        return {
            queue: (min(low, archived[queue][0]) if queue in archived else low, high)
            for queue, (low, high) in bounds.items()
        }

    def _check_same_topics(self, bounds: Mapping[MessageQueue, tuple[int, int]]) -> None:
        """Raise `UsageError` once when a topic was deleted and created again since the archive."""
        if self._is_checked:
            return
        mark = self.archive.mark
        ends = {queue: end for queue, end in from_topics(mark.offsets).items() if queue in bounds}
        again = super().recreated(bounds, ends, mark.newest)
        shorter = sorted(queue for queue, end in ends.items() if bounds[queue][1] < end)
        if again or shorter:
            raise UsageError(
                f"{[*again, *shorter][0]} was deleted and created again since the archive was"
                " written: read the topic without the option archive, and the archive by itself"
            )
        self._is_checked = True

    def recreated(
        self,
        bounds: Mapping[MessageQueue, tuple[int, int]],
        positions: Mapping[MessageQueue, int],
        newest: Mapping[str, int],
    ) -> list[MessageQueue]:
        """Return the recreated queues, judged by the first messages that brokers have."""
        there = {queue: (self._lows.get(queue, low), high) for queue, (low, high) in bounds.items()}
        return super().recreated(there, positions, newest)

    def offsets_at(self, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Return the first queue offset stored at a time or later, in the archive or at brokers."""
        found = super().offsets_at(times)
        early = {q: ms for q, ms in times.items() if found[q] <= self._lows.get(q, 0)}
        for queue, offset in self.archive.offsets_at(early).items():
            found[queue] = min(found[queue], offset)
        return found

    def first_at_brokers(self, queue: MessageQueue) -> int:
        """Return the first queue offset that brokers had when they were asked last."""
        return self._lows.get(queue, 0)
