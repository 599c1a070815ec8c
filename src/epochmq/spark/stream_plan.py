"""The planner of a streaming read: where the query begins, where each micro-batch ends, its tasks.

It runs in the driver's process. Of Spark it knows only the offsets in JSON. An error raised here
ends the query, so calls to the cluster wait until a failover is over.
"""

import logging
import time
from collections.abc import Collection, Iterable
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from typing import Any

from epochmq.base.errors import NotFound
from epochmq.model import record
from epochmq.model.queue_offsets import by_topic
from epochmq.model.topic import MessageQueue
from epochmq.spark.options import OffsetsOption, SourceOptions
from epochmq.spark.plan import (
    Backlog,
    QueueRange,
    admit,
    admit_bytes,
    after,
    backlog,
    batch_spans,
    split,
    tasks_of,
)
from epochmq.spark.positions import Bounds, begin_within, resolve, selected
from epochmq.spark.range_read import LOSS_CERTAIN_MS
from epochmq.spark.retry import DataLost
from epochmq.spark.spark_cluster import Cluster, OnLost
from epochmq.spark.spark_offsets import StreamOffset, topics_of

log = logging.getLogger(__name__)

_LATEST = OffsetsOption("Offsets", "latest")
_ASK_AGAIN_S = 0.2
_SAMPLE_BYTES = 64 << 10
_SAMPLE_ROWS = 64
_SAMPLE_KEPT_MS = 60_000
PUBLISH_WAIT_S = 3.0


@dataclass(frozen=True, slots=True)
class Limits:
    """The most rows and bytes of one micro-batch; None means no limit."""

    rows: int | None = None
    byte_count: int | None = None


class StreamPlanner:
    """Plans the micro-batches of one streaming query, in the process where Spark plans them."""

    def __init__(
        self, options: SourceOptions, cluster: Cluster, forgiving: OnLost | None = None
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._forgiving = forgiving
        self._initial: dict[str, Any] | None = None
        self._bounds: tuple[int, Bounds] | None = None
        self._until: dict[MessageQueue, int] | None = None
        self._planned: dict[MessageQueue, int] = {}
        self._batch_at_ms = _now_ms()
        self._row_bytes: dict[MessageQueue, tuple[int, float]] = {}
        self._published: dict[str, Any] | None = None
        self._last: dict[str, Any] | None = None
        self._publishing: Future[None] | None = None
        self._recreated_known = False
        """Whether the planner has already searched for topics that were recreated since the
        checkpoint.
        """

    def initial(self) -> dict[str, Any]:
        """Return the offsets at which a query without a checkpoint begins; each call returns the
        same.
        """
        if self._initial is None:
            bounds = self._ask(())
            start = self._options.start or _LATEST
            begin = resolve(self._cluster, bounds, start)
            at = begin_within(bounds, begin, start, self._forgiving)
            self._initial = StreamOffset(at, fresh=True).to_json()
        return self._initial

    def latest(self, start: dict[str, Any], limits: Limits) -> dict[str, Any]:
        """Return the end of the micro-batch that begins at `start`, or `start` itself without
        new rows.
        """
        before = StreamOffset.from_json(start)
        if not before.fresh:
            self.publish(start)  # the micro-batch before is finished
        found = self._backlog(before)
        end = before
        if not self._waits_for_more(before, found):
            end = after(before, found, self._admitted(found.spans, limits))
        self._planned = end.at
        if end is not before:
            end = replace(end, newest=self._newest(end))
        if end is before:
            self._publish_surely(start)
            return start
        self._batch_at_ms = _now_ms()
        return end.to_json()

    def report(self) -> dict[str, Any] | None:
        """Return the known ends of all queues, and how far behind them the last micro-batch ended.

        Spark shows the result as `latestOffset` in the progress, since it has no metrics for
        sources in Python.
        """
        if self._bounds is None:
            return None
        highs = {queue: high for queue, (_, high) in self._bounds[1].items()}
        report: dict[str, Any] = {"offsets": by_topic(highs)}
        behind = [high - self._planned[q] for q, high in highs.items() if q in self._planned]
        if behind:
            lag = {"min": min(behind), "max": max(behind), "total": sum(behind)}
            report["offsetsBehindLatest"] = lag
        return report

    def spans(self, start: dict[str, Any], end: dict[str, Any]) -> list[QueueRange]:
        """Return the ranges of queues that the micro-batch from `start` to `end` reads."""
        whole = batch_spans(StreamOffset.from_json(start), StreamOffset.from_json(end))
        options = self._options
        return split(whole, options["minPartitions"], options["maxRecordsPerPartition"])

    def tasks(self, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[QueueRange, ...]]:
        """Return the tasks of a micro-batch: its ranges, with small ones joined
        (`plan.tasks_of`).
        """
        return tasks_of(self.spans(start, end), self._options)

    def prepare(self) -> None:
        """Remember the current ends of the queues as the query's end, for
        trigger(availableNow=True).
        """
        bounds = self._ask(())
        self._until = {queue: high for queue, (_, high) in bounds.items()}

    # Offsets that the brokers have ----------------------------------------------------------------

    def _ask(self, known: Iterable[str], *, master: bool = False) -> Bounds:
        """Ask the brokers for the bounds of all queues."""
        known = tuple(known)
        try:
            bounds = selected(
                self._cluster,
                self._options.selection,
                known,
                master=master,
                missing_ok=bool(known) and self._forgiving is not None,
            )
        except NotFound as error:
            if not known:
                raise
            raise NotFound(
                f"{error}. This query read it before; failOnDataLoss=false goes on without it"
            ) from None
        self._bounds = (_now_ms(), bounds)
        return bounds

    def _known_bounds(self, before: StreamOffset) -> Bounds:
        """Return the bounds, at most `pollIntervalMs` old: Spark plans an idle query 90 times a
        second.
        """
        if self._bounds is not None:
            asked_at_ms, bounds = self._bounds
            if _now_ms() - asked_at_ms < self._options["pollIntervalMs"]:
                return bounds
        return self._ask(topics_of(before.at))

    def _backlog(self, before: StreamOffset) -> Backlog:
        bounds = self._known_bounds(before)
        recreated = self._recreated(before, bounds)
        found = backlog(before, self._capped(before, bounds), recreated)
        deadline = _now_ms() + min(LOSS_CERTAIN_MS, self._options["failoverTimeoutMs"])
        while _goes_back(found, before, recreated) and _now_ms() < deadline:
            # A follower that lags, or a new master that is still waiting for its replicas.
            time.sleep(_ASK_AGAIN_S)
            bounds = self._ask(topics_of(before.at), master=True)
            found = backlog(before, self._capped(before, bounds), recreated)
        for lost in found.lost:
            if self._forgiving is None:
                raise DataLost(lost)
            self._forgiving(lost)
        return found

    def _capped(self, before: StreamOffset, bounds: Bounds) -> Bounds:
        if self._until is None:
            return bounds
        return {
            queue: (low, min(high, max(self._until[queue], before.at.get(queue, 0))))
            for queue, (low, high) in bounds.items()
            if queue in self._until
        }

    def _recreated(self, before: StreamOffset, bounds: Bounds) -> list[MessageQueue]:
        """Return the queues of recreated topics; checked once for each start of a query.

        While the query runs, a recreated queue shows by an end that is smaller than before.
        """
        if self._recreated_known or before.fresh:
            return []
        self._recreated_known = True
        return self._cluster.recreated(bounds, before.at, before.newest)

    def _newest(self, end: StreamOffset) -> dict[str, int]:
        """Return the newest store time (ms) of each topic, which never decreases."""
        found = self._cluster.newest(topics_of(end.at))
        return {**end.newest, **{t: max(ms, end.newest.get(t, 0)) for t, ms in found.items()}}

    # Size of a micro-batch ------------------------------------------------------------------------

    def _waits_for_more(self, before: StreamOffset, found: Backlog) -> bool:
        least = self._options["minOffsetsPerTrigger"]
        if least is None or self._until is not None or before.fresh or found.init:
            return False
        waited_ms = _now_ms() - self._batch_at_ms
        is_little = sum(span.count for span in found.spans) < int(least)
        return is_little and waited_ms < int(self._options["maxTriggerDelay"])

    def _admitted(self, spans: list[QueueRange], limits: Limits) -> list[QueueRange]:
        if limits.rows is not None:
            spans = admit(spans, limits.rows)
        if limits.byte_count is not None:
            spans = admit_bytes(spans, self._sizes(spans), limits.byte_count)
        return spans

    def _sizes(self, spans: list[QueueRange]) -> dict[MessageQueue, float]:
        """Return the mean size in bytes of a stored message by queue, from a sample of the next
        messages.
        """
        now = _now_ms()
        for span in spans:
            kept = self._row_bytes.get(span.queue)
            if span.count and (kept is None or now - kept[0] > _SAMPLE_KEPT_MS):
                self._row_bytes[span.queue] = (now, self._sample(span))
        return {queue: size for queue, (_, size) in self._row_bytes.items()}

    def _sample(self, span: QueueRange) -> float:
        start = max(span.start, self._cluster.first_at_brokers(span.queue))
        stop = min(max(span.stop, start), start + _SAMPLE_ROWS)
        chunks = self._cluster.read(
            span.queue, start, stop, max_bytes=_SAMPLE_BYTES, on_lost=lambda lost: None
        )
        count = size = 0
        for chunk in chunks:
            size += len(chunk.records)
            count += _count(chunk.records)
        return size / count if count else 1.0

    # Publishing offsets to the brokers ------------------------------------------------------------

    def publish(self, end: dict[str, Any]) -> None:
        """Start to commit `end` as the offsets of the consumer group in option `groupId`.

        While a commit is running, a call does nothing. Failures are logged. The committed offsets
        only show the progress of the query; the checkpoint alone decides what the query reads.
        """
        group = self._options["groupId"]
        if group is None or end == self._published or not self._is_published():
            return
        self._published = end
        self._publishing = self._cluster.commit_soon(group, StreamOffset.from_json(end).at)

    def _publish_surely(self, end: dict[str, Any]) -> None:
        """Publish `end` once and wait up to `PUBLISH_WAIT_S` for it, since it may be the last
        offset.

        At the end of availableNow Spark kills this process without notice.
        """
        if end != self._last:
            self._last = end
            self._wait_published()
            self.publish(end)
            self._wait_published()

    def _wait_published(self) -> None:
        if self._publishing is not None:
            wait([self._publishing], PUBLISH_WAIT_S)

    def _is_published(self) -> bool:
        """Return whether no commit is running; log the error of a commit that failed."""
        if self._publishing is None:
            return True
        if not self._publishing.done():
            return False
        error = self._publishing.exception()
        if error is not None:
            log.warning("the group's offsets could not be published: %(error)s", {"error": error})
        self._publishing = None
        return True

    def stop(self) -> None:
        """Wait up to `PUBLISH_WAIT_S` for a commit that is running."""
        self._wait_published()
        self._is_published()


def _goes_back(found: Backlog, before: StreamOffset, recreated: Collection[MessageQueue]) -> bool:
    """Return whether a queue seems to end before the offset that the query has reached."""
    return any(
        lost.stop == before.at.get(lost.queue) and lost.queue not in recreated
        for lost in found.lost
    )


def _count(records: Any) -> int:
    count = at = 0
    while at < len(records):
        at += record.size_at(records, at)
        count += 1
    return count


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
