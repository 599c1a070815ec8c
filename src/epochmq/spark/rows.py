"""Reads one range of one queue from brokers into Arrow batches. Runs in executors."""

import atexit
import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from epochmq.base.errors import EpochError
from epochmq.base.ports import Buffer
from epochmq.model import record
from epochmq.model.tags import split_expression
from epochmq.model.topic import MessageQueue
from epochmq.runtime.address_map import mapped_addresses
from epochmq.spark.archive_reader import ArchiveReader
from epochmq.spark.archived_cluster import ArchivedCluster
from epochmq.spark.decode import CorruptRecord, Decoder
from epochmq.spark.freeze import freeze_once
from epochmq.spark.options import ArchiveAddress, SourceOptions
from epochmq.spark.plan import QueueRange
from epochmq.spark.retry import DataLost, Lost
from epochmq.spark.spark_cluster import Cluster, OnLost
from epochmq.spark.typed_rows import needed_columns, with_typed

log = logging.getLogger(__name__)

HEAD_BYTES = record.OFFSET_AT
"""The first bytes of a record, which contain its size and its queue offset."""

_lock = threading.Lock()
_clusters: dict[tuple[object, ...], Cluster] = {}


def cluster_of(options: SourceOptions) -> Cluster:
    """Return this process's connection to the cluster of `options`; later tasks use it again."""
    archive, timeout_ms = options.archive, options["failoverTimeoutMs"]
    addresses = options["addressMap"]
    pairs = tuple(sorted(addresses.items())) if addresses is not None else None
    key = (options.name_server, timeout_ms, options.tls, archive, options["checkCrc"], pairs)
    with _lock:
        found = _clusters.get(key)
        if found is None or not found.is_of_this_process:
            with mapped_addresses(addresses):
                found = _clusters[key] = _connected(options, archive)
        return found


def check_archive(options: SourceOptions, names: Sequence[str]) -> None:
    """Raise `UsageError` when the archive of the options does not have the columns `names`."""
    cluster = cluster_of(options)
    if isinstance(cluster, ArchivedCluster):
        stored = needed_columns(names) if options.typed else names
        cluster.archive.check(stored, options["properties"])


def _connected(options: SourceOptions, archive: ArchiveAddress | None) -> Cluster:
    timeout_ms = options["failoverTimeoutMs"]
    if archive is None:
        return Cluster(options.name_server, failover_timeout_ms=timeout_ms, tls=options.tls)
    reader = ArchiveReader(archive, options["checkCrc"])
    return ArchivedCluster(
        options.name_server, reader, failover_timeout_ms=timeout_ms, tls=options.tls
    )


@atexit.register
def close_clusters() -> None:
    """Close the connections that `cluster_of` created in this process."""
    with _lock:
        for cluster in _clusters.values():
            if cluster.is_of_this_process:
                cluster.close()
        _clusters.clear()


def on_lost(options: SourceOptions) -> OnLost | None:
    """Return a function that logs lost messages if failOnDataLoss=false, else None."""
    if options["failOnDataLoss"]:
        return None
    return lambda lost: log.warning("going on without lost messages: %(lost)s", {"lost": lost})


def batches(
    options: SourceOptions, columns: Sequence[str], span: QueueRange
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `span`, each exactly once; queue offsets are counted to check that.

    Raises `DataLost` for deleted messages and `DamagedRecord` for bytes that are not a record,
    unless failOnDataLoss=false; `UnparsableBody` for a body that does not fit typed.schema.
    """
    freeze_once()
    if options.typed:
        stored = _stored(options, needed_columns(columns), span)
        return with_typed(options.typed, columns, stored)
    return _stored(options, columns, span)


def _stored(
    options: SourceOptions, columns: Sequence[str], span: QueueRange
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `span` with columns that messages have by themselves."""
    forgiving = on_lost(options)
    counter = Counter(span, forgiving or _raise, has_gaps=options["tags"] is not None)
    while counter.next < span.stop:
        try:
            yield from _read(options, columns, span, counter)
        except DataLost as gone:
            archive = archive_of(options)
            if archive is None:
                raise
            yield from _archived(archive, options, columns, counter, gone.lost)
        except DamagedRecord as damaged:
            if forgiving is None:
                raise
            counter.lost(damaged.lost)


def _read(
    options: SourceOptions, columns: Sequence[str], span: QueueRange, counter: "Counter"
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `span` that the counter still expects."""
    tags = split_expression(options["tags"])
    needed = ("queueOffset", *(("tags",) if tags else ()))
    decoded = (*columns, *(name for name in needed if name not in columns))
    decoder = Decoder(
        decoded,
        options["properties"],
        options["decompress"],
        check_crc=options["checkCrc"] and "body" in columns,  # else the broker may leave bodies out
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
        on_lost=None if options["failOnDataLoss"] or options["archive"] else counter.lost,
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


def archive_of(options: SourceOptions) -> ArchiveReader | None:
    """Return the archive of the options; None without one."""
    cluster = cluster_of(options)
    return cluster.archive if isinstance(cluster, ArchivedCluster) else None


def _archived(
    archive: ArchiveReader,
    options: SourceOptions,
    columns: Sequence[str],
    counter: "Counter",
    lost: Lost,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that brokers have lost, from the archive; what it lacks too is lost."""
    stop = min(lost.stop, counter.stop)
    tags = split_expression(options["tags"])
    needed = ("queueOffset", *(("tags",) if tags else ()))
    names = (*columns, *(name for name in needed if name not in columns))
    found = archive.batches(
        counter.queue, counter.next, stop, names, options["properties"], options["rowsPerBatch"]
    )
    for batch in found:
        first = int(batch.column("queueOffset")[0].as_py())
        if first > counter.next:
            counter.lost(replace(lost, start=counter.next, stop=first))
        counter.next = first + batch.num_rows
        if tags:
            wanted = pc.is_in(batch.column("tags"), value_set=pa.array(tags, pa.string()))
            batch = batch.filter(wanted)
        if batch.num_rows:
            yield batch.select(list(columns))
    if counter.next < stop:
        counter.lost(replace(lost, start=counter.next, stop=stop))


def _decoded(
    decoder: Decoder, records: Buffer, counter: "Counter", rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a chunk; the rows before damage come before `DamagedRecord` is raised."""
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
    """Raised when a broker sends bytes that are not a valid record."""

    def __init__(self, queue: MessageQueue, offset: int, why: str) -> None:
        super().__init__(
            f"{queue}: the message at queue offset {offset} is damaged: {why}. Another replica may"
            " have it whole (readFrom); failOnDataLoss=false goes on without it"
        )
        self.lost = Lost(queue, offset, offset + 1, f"it is damaged: {why}")


class Counter:
    """Tracks the queue offsets of a range: drops repeated rows and rows outside it, and reports
    gaps.

    `on_gap` is called with each gap. With `has_gaps` a filter leaves rows out; then only what the
    reader reports as lost counts as missing.
    """

    def __init__(self, span: QueueRange, on_gap: OnLost, *, has_gaps: bool = False) -> None:
        self.queue = span.queue
        self.next = span.start
        """The next expected queue offset."""
        self.records: Buffer = b""
        """The chunk whose rows are being counted."""
        self.stop = span.stop
        self._on_gap = on_gap
        self._has_gaps = has_gaps

    def lost(self, lost: Lost) -> None:
        """Continue after messages that are gone, and report them."""
        self.next = max(self.next, lost.stop)
        self._on_gap(lost)

    def keep(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of `batch` that are expected: a stored batch may exceed the range."""
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
        """Record that no more rows with queue offsets below `offset` will follow."""
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
    """Yield the parts of the range `start` to `stop` for which `records` has no record.

    A record may exist and give no row: one that is marked as part of an open transaction.
    """
    for offset in queue_offsets(records):
        if start <= offset < stop:
            if start < offset:
                yield start, offset
            start = offset + 1
    if start < stop:
        yield start, stop


def queue_offsets(records: Buffer) -> Iterator[int]:
    """Yield the queue offsets of the records in a chunk, until the size of a record is not
    readable.
    """
    at = 0
    while at + HEAD_BYTES <= len(records):
        yield record.queue_offset_at(records, at)
        at += max(record.size_at(records, at), HEAD_BYTES)
