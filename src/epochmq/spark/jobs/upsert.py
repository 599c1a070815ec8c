"""Job `upsert`: keeps a table with the latest message of each key of a topic, without Spark.

Each batch reads the next messages of all queues, keeps the last one of each key, and merges them
into the table in one transaction, which also contains where the next batch begins. The version of a
message decides which of two is later, whatever the order in which they arrive: within a queue the
queue offset, between queues the time. A message that deletes its key stays as a row with `deleted`,
so that an older message of another queue that arrives later does not bring the key back.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from epochmq.base.errors import Refused, StoreDamaged, UsageError
from epochmq.model.names import check_topic
from epochmq.model.queue_offsets import by_topic, from_topics, queue_text
from epochmq.model.topic import MessageQueue
from epochmq.runtime.tls import OutgoingTls
from epochmq.spark import columns
from epochmq.spark.decode import CorruptRecord, Decoder
from epochmq.spark.decode_bodies import AS_STORED
from epochmq.spark.jobs import archive_plan as plan
from epochmq.spark.jobs.archive import wait
from epochmq.spark.jobs.archive_plan import Positions, Range
from epochmq.spark.jobs.archive_run import TaskSource, fetch
from epochmq.spark.jobs.archive_task import Fetch
from epochmq.spark.jobs.compact import key_property
from epochmq.spark.jobs.framework import JobStop
from epochmq.spark.jobs.job_report import (
    DRY_RUN,
    CheckpointLock,
    JobReport,
    Progress,
    no_progress,
)
from epochmq.tables.iceberg import DEFAULT_NAME
from epochmq.tables.keyed_table import BUCKET, KEY, VERSION, KeyedTable, open_keyed
from epochmq.tables.storage import is_local, local_path

DELETED = "deleted"
COLUMNS = ("topic", "brokerName", "queueId", "queueOffset", "storeTimestamp", "body", "tags",
           "keys", "properties", "msgId")  # fmt: skip
BUCKETS_MAX = 4096
"""More partitions would make many small files of each batch."""
_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class UpsertOptions:
    """What to read, where the table is, and what a key is."""

    name_server: str
    topic: str
    table: str
    format: str | None = None
    key: str = "keys"
    """`keys` (the whole text), `orderingKey` or `property:NAME`."""
    tombstone_tag: str = ""
    """A message with this tag deletes its key; so does one with an empty body."""
    until_now: bool = True
    interval_s: float = 10.0
    max_rows: int = 100_000
    allow_loss: bool = False
    compact_every: int = 0
    """Batches after which small files are merged (Delta); 0 is never."""
    cluster: bool = False
    """Whether a compaction sorts the whole table by key."""
    buckets: int = 0
    """Number of partitions of a new table, to which keys belong by `bucket_of`; 0 for a table
    without them, or to use the number that the table has.
    """
    name: str = DEFAULT_NAME
    catalog: str | None = None
    read_from: str = "auto"
    """Which replicas serve the messages: auto, master or follower."""
    failover_timeout_ms: int = 60_000
    tls: OutgoingTls | None = None

    def __post_init__(self) -> None:
        key_property(self.key)
        try:
            check_topic(self.topic)
        except Refused as error:
            raise UsageError(error.remark) from None
        if self.max_rows < 1:
            raise UsageError(f"a batch of {self.max_rows} rows is none: use 1 or more")
        if self.cluster and not self.compact_every:
            raise UsageError("--cluster is about compactions: give --compact-every N as well")
        if not 0 <= self.buckets <= BUCKETS_MAX:
            raise UsageError(f"{self.buckets} buckets cannot be used: use 0 to {BUCKETS_MAX}")

    @property
    def identity(self) -> str:
        """What the table is made of: another topic or key needs another table."""
        return f"{self.topic} by {self.key}"


@dataclass(frozen=True)
class UpsertState:
    """The state of the job in the table's last transaction."""

    identity: str
    offsets: Positions
    clocks: Mapping[MessageQueue, int]
    """The largest store time (wall ms) of each queue up to its offset.

    Store times of a queue may go back when a broker's clock is set. Versions use this running
    maximum, so that within a queue the queue offset decides.
    """
    buckets: int = 0

    def to_json(self) -> str:
        """Return the state as text."""
        found: dict[str, object] = {
            "identity": self.identity,
            "offsets": by_topic(self.offsets),
            "clocks": by_topic(self.clocks),
        }
        if self.buckets:
            found["buckets"] = self.buckets
        return json.dumps(found, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "UpsertState":
        """Parse the text of `to_json`; raises `UsageError` for another one."""
        try:
            found = json.loads(text)
            offsets, clocks = from_topics(found["offsets"]), from_topics(found["clocks"])
            return cls(found["identity"], offsets, clocks, int(found.get("buckets", 0)))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UsageError(f"the table's state cannot be read: {text[:80]}") from None


def table_schema(buckets: int = 0) -> pa.Schema:
    """Return the schema of the table: key, version, whether it is deleted, the message, and the
    bucket of a table that has `buckets`.
    """
    fields = [
        pa.field(KEY, pa.string()),
        pa.field(VERSION, pa.string()),
        pa.field(DELETED, pa.bool_()),
        *columns.schema(COLUMNS),
    ]
    return pa.schema([*fields, pa.field(BUCKET, pa.int32())] if buckets else fields)


def bucket_of(key: str, buckets: int) -> int:
    """Return the partition of a key: the CRC-32 of its UTF-8 bytes, modulo `buckets`.

    Spark's SQL computes the same by `crc32(key) % buckets`.
    """
    return crc32(key.encode()) % buckets


def version_of(clock_ms: int, queue: MessageQueue, offset: int) -> str:
    """Return the version of a message; the text of a later version is larger."""
    return f"{clock_ms:015d}:{queue.broker_name}:{queue.queue_id:06d}:{offset:020d}"


def latest_rows(rows: pa.Table) -> pa.Table:
    """Return the row with the largest version of each key."""
    ordered = rows.sort_by([(KEY, "ascending"), (VERSION, "ascending")])
    if not ordered.num_rows:
        return ordered
    codes = ordered.column(KEY).combine_chunks().dictionary_encode().indices.to_numpy()
    is_last = np.append(np.diff(codes) != 0, True)
    return ordered.filter(pa.array(is_last))


class Upsert:
    """One run of the job; `read` returns the records of a range."""

    def __init__(
        self,
        options: UpsertOptions,
        cluster: Any,
        read: Fetch,
        progress: Progress = no_progress,
        on_step: Callable[[str], None] = lambda _step: None,
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._read = read
        self._progress = progress
        self._step = on_step
        self._decoder = Decoder(COLUMNS, check_crc=True, bad_bodies=AS_STORED)
        self.report = JobReport("upsert")
        self._table: KeyedTable
        self._positions: Positions = {}
        self._clocks: dict[MessageQueue, int] = {}
        self._buckets = options.buckets
        self._lost: list[str] = []
        self._without_key = 0
        self._batches = 0

    def open(self) -> None:
        """Open or create the table, and continue where its last transaction ended."""
        options = self._options
        self._table = open_keyed(
            options.table,
            options.format,
            schema=table_schema(options.buckets),
            name=options.name,
            catalog=options.catalog,
        )
        text = self._table.state()
        if text is not None:
            state = UpsertState.from_json(text)
            if state.identity != options.identity:
                raise UsageError(
                    f"the table {options.table} has {state.identity}, not {options.identity}: name"
                    " another table"
                )
            self._buckets = self._buckets or state.buckets
            if self._buckets != state.buckets:
                raise UsageError(
                    f"the table {options.table} has {state.buckets or 'no'} buckets, not"
                    f" {options.buckets}: leave --buckets out, or name another table"
                )
            self._positions, self._clocks = dict(state.offsets), dict(state.clocks)
        elif (BUCKET in self._table.columns()) != bool(self._buckets):
            # A run that was killed before its first batch has created it.
            made = "without" if self._buckets else "with"
            raise UsageError(
                f"the table {options.table} is empty and was made {made} buckets: start the job as"
                " then, or name another table"
            )

    def run(self, stop: JobStop) -> JobReport:
        """Merge all batches and return the report; a stream runs until it is stopped."""
        options = self._options
        ends = self._bounds() if options.until_now else None
        while not stop.asked:
            began_s = time.monotonic()
            count = self._next(ends or self._bounds())
            if not count and ends is not None:
                break
            if ends is None and count < options.max_rows:
                wait(began_s + options.interval_s, stop)
        self.report.details.update(
            table=f"{self._table.format} {options.table}",
            withoutKey=self._without_key,
            lost=self._lost,
        )
        return self.report.finish("interrupted" if stop.asked and options.until_now else "done")

    def _bounds(self) -> plan.Bounds:
        bounds: plan.Bounds = self._cluster.bounds_of([self._options.topic], master=True)
        plan.check_alive(bounds, self._positions)
        return bounds

    def _next(self, bounds: plan.Bounds) -> int:
        """Merge one batch, and return the number of messages that it read."""
        self._positions = plan.starting(bounds, self._positions)
        lost = plan.gaps(bounds, self._positions)
        plan.check_gaps(lost, self._options.allow_loss)
        for gap in lost:
            self._lost.append(str(gap))
            self._positions[gap.queue] = gap.end
        ranges = plan.share(plan.backlog(bounds, self._positions), self._options.max_rows)
        if not ranges:
            return 0
        clocks = dict(self._clocks)
        parts = [part for one in ranges for part in self._rows(one, clocks)]
        self._step("read")
        rows = latest_rows(pa.Table.from_batches(parts, table_schema()))
        if self._buckets:
            found = [bucket_of(key, self._buckets) for key in rows.column(KEY).to_pylist()]
            rows = rows.append_column(BUCKET, pa.array(found, pa.int32()))
        ends = plan.advanced(self._positions, ranges)
        state = UpsertState(self._options.identity, ends, clocks, self._buckets)
        self._table.merge(rows, state.to_json())
        self._step("merged")
        self._positions, self._clocks = ends, clocks
        self._batches += 1
        if self._options.compact_every and self._batches % self._options.compact_every == 0:
            self._table.compact(state.to_json(), cluster=self._options.cluster)
            self._step("compacted")
        count = sum(map(len, ranges))
        for each in ranges:
            self.report.add_range(each.queue.topic, queue_text(each.queue), each.start, each.end)
        self.report.rows += count
        self._progress(self.report.rows, None, f"{self.report.rows:,} messages")
        return count

    def _rows(self, one: Range, clocks: dict[MessageQueue, int]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range, with key and version; advances the queue's clock."""
        for records in self._read(one):
            self.report.bytes += len(records)
            try:
                for batch in self._decoder.batches(
                    records, one.queue.broker_name, _ROWS, (one.start, one.end)
                ):
                    yield self._keyed(batch, one.queue, clocks)
            except CorruptRecord as fault:
                raise StoreDamaged(
                    f"{one.queue}: a message from queue offset {one.start} on is damaged:"
                    f" {fault.why}. Nothing of its batch is in the table"
                ) from None

    def _keyed(
        self, batch: pa.RecordBatch, queue: MessageQueue, clocks: dict[MessageQueue, int]
    ) -> pa.RecordBatch:
        stored = batch.column("storeTimestamp").cast(pa.int64()).to_numpy() // 1000
        running = np.maximum.accumulate(np.append(clocks.get(queue, 0), stored))[1:]
        clocks[queue] = int(running[-1])
        offsets = batch.column("queueOffset").to_pylist()
        pairs = zip(running.tolist(), offsets, strict=True)
        versions = pa.array([version_of(clock, queue, at) for clock, at in pairs], pa.string())
        name = key_property(self._options.key)
        if name is None:
            keys = batch.column("keys")
        else:
            keys = pc.map_lookup(batch.column("properties"), pa.scalar(name), "first")
        empty = pc.equal(pc.binary_length(batch.column("body")), 0)
        deleted = pc.fill_null(empty, True)
        if self._options.tombstone_tag:
            tagged = pc.equal(batch.column("tags"), self._options.tombstone_tag)
            deleted = pc.or_(deleted, pc.fill_null(tagged, False))
        made = pa.record_batch([keys, versions, deleted, *batch.columns], schema=table_schema())
        has_key = pc.fill_null(pc.greater(pc.utf8_length(keys), 0), False)
        kept = made.filter(has_key)
        self._without_key += made.num_rows - kept.num_rows
        return kept


def live_keys(rows: pa.Table) -> pa.Table:
    """Return the rows of keys that are not deleted."""
    return rows.filter(pc.invert(rows.column(DELETED)))


def run_upsert(
    options: UpsertOptions,
    *,
    dry_run: bool = False,
    progress: Progress = no_progress,
) -> JobReport:
    """Run the job and return its report; with `dry_run` nothing is written."""
    from epochmq.spark.spark_cluster import Cluster

    source = TaskSource(
        options.name_server,
        options.failover_timeout_ms,
        options.allow_loss,
        options.tls,
        options.read_from,
    )
    timeout_ms = options.failover_timeout_ms
    with ExitStack() as stack:
        cluster = stack.enter_context(
            Cluster(options.name_server, failover_timeout_ms=timeout_ms, tls=options.tls)
        )
        bounds = cluster.bounds_of([options.topic], master=True)
        if dry_run:
            report = JobReport("upsert")
            report.rows = sum(high - low for low, high in bounds.values())
            return report.finish(DRY_RUN)
        if is_local(options.table):
            place = local_path(options.table) / "_checkpoint"
            stack.enter_context(CheckpointLock(place, "upsert"))
        job = Upsert(options, cluster, partial(fetch, source, cluster), progress)
        job.open()
        return job.run(stack.enter_context(JobStop()))
