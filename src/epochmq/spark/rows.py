"""A task's work: one span of one queue from the brokers into Arrow batches. Runs in executors."""

import atexit
import gc
import logging
import threading
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from epochmq.model.tags import split_expression
from epochmq.spark.cluster import Cluster, OnLost
from epochmq.spark.decode import Decoder
from epochmq.spark.lost import DataLost, Lost
from epochmq.spark.options import SourceOptions
from epochmq.spark.plan import Span

log = logging.getLogger(__name__)

_lock = threading.Lock()
_clusters: dict[tuple[object, ...], Cluster] = {}
_frozen = False


def cluster_of(options: SourceOptions) -> Cluster:
    """This process's connection to the options' cluster, kept for the tasks that follow."""
    key = (options.name_server, options["failoverTimeoutMs"], options.tls)
    with _lock:
        found = _clusters.get(key)
        if found is None or not found.is_of_this_process:
            found = _clusters[key] = Cluster(
                options.name_server,
                failover_timeout_ms=options["failoverTimeoutMs"],
                tls=options.tls,
            )
        return found


@atexit.register
def close_clusters() -> None:
    """Close what `cluster_of` made in this process."""
    with _lock:
        for cluster in _clusters.values():
            if cluster.is_of_this_process:
                cluster.close()
        _clusters.clear()


def freeze_once() -> None:
    """Take what is loaded out of the collector's sight.

    Spark's daemon collects garbage after every task: 23 to 41 ms with pyarrow loaded, nothing after
    this (facts/spark.md 4.2).
    """
    global _frozen
    if not _frozen:
        _frozen = True
        gc.collect()
        gc.freeze()


def on_lost(options: SourceOptions) -> OnLost | None:
    """What to do about messages that are gone, as `failOnDataLoss` says."""
    if options["failOnDataLoss"]:
        return None
    return lambda lost: log.warning("going on without lost messages: %s", lost)


def batches(options: SourceOptions, columns: Sequence[str], span: Span) -> Iterator[pa.RecordBatch]:
    """The rows of `span`, every one and none twice: queue offsets are counted."""
    freeze_once()
    tags = split_expression(options["tags"])
    needed = ("queueOffset", *(("tags",) if tags else ()))
    decoded = (*columns, *(name for name in needed if name not in columns))
    decoder = Decoder(decoded, options["properties"], options["decompress"])
    forgiving = on_lost(options)
    counter = Counter(span, forgiving or _raise, has_gaps=bool(tags))
    chunks = cluster_of(options).read(
        span.queue,
        span.start,
        span.stop,
        tags=options["tags"],
        max_bytes=options["maxBytesPerRead"],
        read_from=options["readFrom"],
        on_lost=counter.lost if forgiving else None,
    )
    for chunk in chunks:
        for batch in decoder.batches(
            chunk.records, span.queue.broker_name, options["rowsPerBatch"]
        ):
            kept = counter.keep(batch)
            if tags:
                wanted = pc.is_in(kept.column("tags"), value_set=pa.array(tags, pa.string()))
                kept = kept.filter(wanted)
            if kept.num_rows:
                yield kept.select(list(columns)) if len(decoded) > len(columns) else kept
        counter.reached(chunk.next_offset)
    counter.reached(span.stop)


def _raise(lost: Lost) -> None:
    raise DataLost(lost)


class Counter:
    """Follows the queue offsets of a span: no row twice, none outside it, and no gap unseen.

    `on_gap` hears of what is missing; with `has_gaps` a filter leaves rows out, and only what the
    reader calls lost is missing.
    """

    def __init__(self, span: Span, on_gap: OnLost, *, has_gaps: bool = False) -> None:
        self._span = span
        self._next = span.start
        self._on_gap = on_gap
        self._has_gaps = has_gaps

    def lost(self, lost: Lost) -> None:
        """The reader goes on behind messages that are gone."""
        self._next = max(self._next, lost.stop)
        self._on_gap(lost)

    def keep(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of `batch` that are still to come: a stored batch may reach over the edges."""
        offsets = batch.column("queueOffset").to_numpy(zero_copy_only=False)
        count = len(offsets)
        if not count:
            return batch
        first, last = int(offsets[0]), int(offsets[-1])
        if first == self._next and last == first + count - 1 and last < self._span.stop:
            self._next = last + 1
            return batch
        wanted = (offsets >= self._next) & (offsets < self._span.stop)
        batch, offsets = batch.filter(pa.array(wanted)), offsets[wanted]
        for offset in offsets.tolist():
            self._see(offset)
        return batch

    def reached(self, offset: int) -> None:
        """The reader says that nothing more comes before `offset`."""
        if offset > self._next:
            self._gap(min(offset, self._span.stop))

    def _see(self, offset: int) -> None:
        if offset > self._next:
            self._gap(offset)
        self._next = max(self._next, offset + 1)

    def _gap(self, stop: int) -> None:
        start, self._next = self._next, max(self._next, stop)
        if start < stop and not self._has_gaps:
            self._on_gap(Lost(self._span.queue, start, stop, "the broker skips them"))
