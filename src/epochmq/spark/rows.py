"""A task's work: one span of one queue from the brokers into Arrow batches. Runs in executors."""

import atexit
import logging
import threading
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from epochmq.base.errors import EpochError
from epochmq.base.ports import Buffer
from epochmq.model import record
from epochmq.model.tags import split_expression
from epochmq.model.topic import MessageQueue
from epochmq.spark.decode import CorruptRecord, Decoder
from epochmq.spark.freeze import freeze_once
from epochmq.spark.options import SourceOptions
from epochmq.spark.plan import QueueRange
from epochmq.spark.retry import DataLost, Lost
from epochmq.spark.spark_cluster import Cluster, OnLost

log = logging.getLogger(__name__)

HEAD_BYTES = record.OFFSET_AT
"""So much of a record holds its size and its queue offset."""

_lock = threading.Lock()
_clusters: dict[tuple[object, ...], Cluster] = {}


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


def on_lost(options: SourceOptions) -> OnLost | None:
    """What to do about messages that are gone, as `failOnDataLoss` says."""
    if options["failOnDataLoss"]:
        return None
    return lambda lost: log.warning("going on without lost messages: %s", lost)


def batches(
    options: SourceOptions, columns: Sequence[str], span: QueueRange
) -> Iterator[pa.RecordBatch]:
    """The rows of `span`, every one and none twice: queue offsets are counted.

    `DataLost` for what is gone, `DamagedRecord` for a record that is none, unless
    failOnDataLoss=false.
    """
    freeze_once()
    forgiving = on_lost(options)
    counter = Counter(span, forgiving or _raise, has_gaps=options["tags"] is not None)
    while counter.next < span.stop:
        try:
            yield from _read(options, columns, span, counter)
        except DamagedRecord as damaged:
            if forgiving is None:
                raise
            counter.lost(damaged.lost)


def _read(
    options: SourceOptions, columns: Sequence[str], span: QueueRange, counter: "Counter"
) -> Iterator[pa.RecordBatch]:
    """What of `span` the counter still waits for."""
    tags = split_expression(options["tags"])
    needed = ("queueOffset", *(("tags",) if tags else ()))
    decoded = (*columns, *(name for name in needed if name not in columns))
    decoder = Decoder(
        decoded,
        options["properties"],
        options["decompress"],
        check_crc=options["checkCrc"] and "body" in columns,  # else bodies may be left out
        bad_bodies=options["badBodies"],
    )
    chunks = cluster_of(options).read(
        span.queue,
        counter.next,
        span.stop,
        tags=options["tags"],
        max_bytes=options["maxBytesPerRead"],
        read_from=options["readFrom"],
        bodies="body" in columns,
        on_lost=None if options["failOnDataLoss"] else counter.lost,
        skips_damage=not options["failOnDataLoss"],
    )
    for chunk in chunks:
        counter.records = chunk.records
        for batch in _decoded(decoder, chunk.records, counter, options["rowsPerBatch"]):
            kept = counter.keep(batch)
            if tags:
                wanted = pc.is_in(kept.column("tags"), value_set=pa.array(tags, pa.string()))
                kept = kept.filter(wanted)
            if kept.num_rows:
                yield kept.select(list(columns)) if len(decoded) > len(columns) else kept
        counter.reached(chunk.next_offset)
    counter.records = b""
    counter.reached(span.stop)


def _decoded(
    decoder: Decoder, records: Buffer, counter: "Counter", rows: int
) -> Iterator[pa.RecordBatch]:
    """The rows of a chunk, all in front of the damage before `DamagedRecord` is raised."""
    try:
        yield from decoder.batches(records, counter.queue.broker_name, rows)
    except CorruptRecord as error:
        at = error.offset_in_buffer
        claimed = record.queue_offset_at(records, at) if at + HEAD_BYTES <= len(records) else -1
        offset = claimed if counter.next <= claimed < counter.stop else counter.next
        raise DamagedRecord(counter.queue, offset, error.why) from None


def _raise(lost: Lost) -> None:
    raise DataLost(lost)


class DamagedRecord(EpochError):
    """A broker gave bytes that are no record."""

    def __init__(self, queue: MessageQueue, offset: int, why: str) -> None:
        super().__init__(
            f"{queue}: the message at queue offset {offset} is damaged: {why}. Another replica may"
            " have it whole (readFrom); failOnDataLoss=false goes on without it"
        )
        self.lost = Lost(queue, offset, offset + 1, f"it is damaged: {why}")


class Counter:
    """Follows the queue offsets of a span: no row twice, none outside it, and no gap unseen.

    `on_gap` hears of what is missing; with `has_gaps` a filter leaves rows out, and only what the
    reader calls lost is missing.
    """

    def __init__(self, span: QueueRange, on_gap: OnLost, *, has_gaps: bool = False) -> None:
        self.queue = span.queue
        self.next = span.start
        """The first queue offset that is still to come."""
        self.records: Buffer = b""
        """The chunk whose rows are counted now."""
        self.stop = span.stop
        self._on_gap = on_gap
        self._has_gaps = has_gaps

    def lost(self, lost: Lost) -> None:
        """The reader goes on behind messages that are gone."""
        self.next = max(self.next, lost.stop)
        self._on_gap(lost)

    def keep(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of `batch` that are still to come: a stored batch may reach over the edges."""
        offsets = batch.column("queueOffset").to_numpy(zero_copy_only=False)
        count = len(offsets)
        if not count:
            return batch
        first, last = int(offsets[0]), int(offsets[-1])
        if first == self.next and last == first + count - 1 and last < self.stop:
            self.next = last + 1
            return batch
        wanted = (offsets >= self.next) & (offsets < self.stop)
        batch, offsets = batch.filter(pa.array(wanted)), offsets[wanted]
        for offset in offsets.tolist():
            self._see(offset)
        return batch

    def reached(self, offset: int) -> None:
        """The reader says that nothing more comes before `offset`."""
        if offset > self.next:
            self._gap(min(offset, self.stop))

    def _see(self, offset: int) -> None:
        if offset > self.next:
            self._gap(offset)
        self.next = max(self.next, offset + 1)

    def _gap(self, stop: int) -> None:
        start, self.next = self.next, max(self.next, stop)
        if self._has_gaps:
            return
        for first, last in absent(self.records, start, stop):
            self._on_gap(Lost(self.queue, first, last, "the broker skips them"))


def absent(records: Buffer, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """The parts of a range that no record is there for.

    A record may be there and give no row: one that claims to be of an open transaction.
    """
    for offset in queue_offsets(records):
        if start <= offset < stop:
            if start < offset:
                yield start, offset
            start = offset + 1
    if start < stop:
        yield start, stop


def queue_offsets(records: Buffer) -> Iterator[int]:
    """What the records of a chunk say, up to the first one that cannot be passed."""
    at = 0
    while at + HEAD_BYTES <= len(records):
        yield record.queue_offset_at(records, at)
        at += max(record.size_at(records, at), HEAD_BYTES)
