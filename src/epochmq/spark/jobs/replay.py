"""Job `replay`: sends messages of an archive to a topic, in the order of their queues.

Each message goes to the target queue with its old queue id (modulo the target's queues). Properties
name its origin: REPLAY_OF is its old id, REPLAY_TOPIC and REPLAY_PLACE its old topic and place,
REPLAY_ID the replay. Consumers that must not act twice check REPLAY_OF.
"""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epochmq.base.errors import NotFound, UsageError
from epochmq.runtime.tls import OutgoingTls
from epochmq.spark.jobs.body_checksum import check_bodies, with_checked_bodies
from epochmq.spark.jobs.job_report import JobReport, Progress, no_progress
from epochmq.spark.jobs.replay_plan import (
    PIECE_S,
    ReplayFilters,
    ReplaySource,
    ReplayState,
    batch_count,
    batch_ranges,
    load_state,
    paced,
    save_state,
)
from epochmq.spark.option_table import reach
from epochmq.spark.spark_cluster import Cluster
from epochmq.tables.opening import data_frame, open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OF, TOPIC, PLACE, ID = "REPLAY_OF", "REPLAY_TOPIC", "REPLAY_PLACE", "REPLAY_ID"
MARKS = (OF, TOPIC, PLACE, ID)
NEEDED = ("topic", "brokerName", "queueId", "queueOffset", "body", "storeTimestamp", "msgId")
BATCH_ROWS = 200_000
_QUEUE = ("topic", "brokerName", "queueId")
_PAYLOAD = ("tags", "keys", "properties", "flag")


@dataclass(frozen=True)
class Replay:
    """Options of the job; `rate` is messages per second of the whole replay, 0 for no limit."""

    table: str
    target: str
    name_server: str
    state: Path
    filters: ReplayFilters = field(default_factory=ReplayFilters)
    rate: float = 0.0
    batch_rows: int = BATCH_ROWS
    tls: OutgoingTls | None = None

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise UsageError("a rate must not be negative")

    @property
    def what(self) -> dict[str, Any]:
        """Return the settings that must be the same when the replay continues."""
        # As it is after a round trip through JSON.
        plain = json.loads(json.dumps(asdict(self.filters)))
        return {"table": self.table, "target": self.target, "filters": plain}


def replay(
    spark: "SparkSession",
    job: Replay,
    *,
    dry_run: bool = False,
    progress: Progress = no_progress,
    stop: Any = None,
) -> JobReport:
    """Send the remaining messages; after `stop.asked` it ends after a batch and can be
    continued.
    """
    report = JobReport("replay")
    archived = filtered(_archive(spark, job.table), job.filters)
    state = load_state(job.state, job.what)
    if state is None:
        check_bodies(archived, job.table)
        sources = plan_sources(archived)
        total = sum(source.rows for source in sources)
        tasks = max(1, min(len(sources), spark.sparkContext.defaultParallelism))
        batches = batch_count(total, job.batch_rows)
        state = ReplayState(uuid.uuid4().hex, job.what, sources, batches, tasks)
    total = sum(source.rows for source in state.sources)
    rows = with_checked_bodies(archived, job.table)
    for source in state.sources:
        queue = f"{source.broker_name}:{source.queue_id}"
        report.add_range(source.topic, queue, source.low, source.high + 1)
    report.details |= {"target": job.target, "replayId": state.id, "batches": state.batches}
    queues = target_queues(job)
    if dry_run:
        report.rows = total
        return report.finish("dry-run")
    save_state(job.state, state)
    for number in range(state.done, state.batches):
        if stop is not None and stop.asked:
            break
        sent = send_batch(rows, job, state, number, queues)
        state.done, state.rows = number + 1, state.rows + sent
        report.rows += sent
        save_state(job.state, state)
        progress(state.rows, total, f"{state.rows:,} messages")
    return report.finish(None if state.is_finished else "interrupted")


def _archive(spark: "SparkSession", uri: str) -> "DataFrame":
    table = open_table(uri)
    lacking = sorted(set(NEEDED) - set(table.schema().names))
    if lacking:
        raise UsageError(f"the archive {uri} has no column {lacking[0]}, which a replay needs")
    table.check_files()
    rows: DataFrame = data_frame(spark, table)
    return rows


def filtered(rows: "DataFrame", filters: ReplayFilters) -> "DataFrame":
    """Return the rows that match the filters."""
    from pyspark.sql import functions as f

    if filters.topic:
        rows = rows.where(f.col("topic") == filters.topic)
    stored = f.unix_millis("storeTimestamp")
    if filters.since:
        rows = rows.where(stored >= filters.since)
    if filters.until:
        rows = rows.where(stored < filters.until)
    if filters.keys:
        mine = f.array(*(f.lit(key) for key in filters.keys))
        rows = rows.where(f.arrays_overlap(f.split(f.col("keys"), " "), mine))
    if filters.tags:
        rows = rows.where(f.col("tags").isin(list(filters.tags)))
    if filters.offsets:
        queue = f.concat_ws(":", "brokerName", "queueId")
        wanted = f.lit(False)
        for name, (low, high) in filters.offsets.items():
            at = f.col("queueOffset")
            wanted = wanted | ((queue == name) & (at >= low) & (at < high))
        rows = rows.where(wanted)
    return rows


def plan_sources(rows: "DataFrame") -> list[ReplaySource]:
    """Return the queues that have rows; raises `NotFound` when there are none."""
    from pyspark.sql import functions as f

    found = rows.groupBy(*_QUEUE).agg(
        f.min("queueOffset").alias("low"),
        f.max("queueOffset").alias("high"),
        f.count("*").alias("rows"),
    )
    sources = sorted(ReplaySource(*row) for row in found.collect())
    if not sources:
        raise NotFound("no message of the table passes the filters; nothing to replay")
    return sources


def target_queues(job: Replay) -> int:
    """Return the number of target queues per broker; raises `NotFound` for a missing topic."""
    with Cluster(job.name_server, tls=job.tls) as cluster:
        queues = cluster.queues(job.target)
    by_broker: dict[str, int] = {}
    for queue in queues:
        by_broker[queue.broker_name] = max(by_broker.get(queue.broker_name, 0), queue.queue_id + 1)
    if not by_broker:
        raise NotFound(f"topic {job.target} has no queue; create it before the replay")
    return min(by_broker.values())


def send_batch(rows: "DataFrame", job: Replay, state: ReplayState, number: int, queues: int) -> int:
    """Send one batch, the rows of a queue in one task and in order; returns the number of rows."""
    from pyspark.sql import functions as f

    wanted = f.lit(False)
    for source, low, high in batch_ranges(state, number):
        at = f.col("queueOffset")
        mine = (f.col("topic") == source.topic) & (f.col("brokerName") == source.broker_name)
        mine = mine & (f.col("queueId") == source.queue_id)
        wanted = wanted | (mine & (at >= low) & (at < high))
    # A repeated batch must have the same rows in the same tasks and order (adr/0040).
    batch = rows.where(wanted).repartition(state.tasks, *_QUEUE)
    batch = batch.sortWithinPartitions(*_QUEUE, "queueOffset")
    batch = outgoing(batch, job.target, state.id, queues).persist()
    try:
        count = batch.count()
        if job.rate:
            each_task = job.rate / state.tasks
            with small_batches(rows.sparkSession, each_task):
                _write(slowed(batch, each_task), job, state, number)
        else:
            _write(batch, job, state, number)
    finally:
        batch.unpersist()
    return int(count)


def _write(batch: "DataFrame", job: Replay, state: ReplayState, number: int) -> None:
    (
        batch.write.format("rocketmq")
        .options(**reach(job.name_server, job.tls))
        .option("sinkId", f"replay.{state.id}")
        .option("batchId", str(number))
        .mode("append")
        .save()
    )


def outgoing(rows: "DataFrame", target: str, replay_id: str, queues: int) -> "DataFrame":
    """Return the columns to write, with the origin in the properties."""
    from pyspark.sql import functions as f

    text = "map<string,string>"
    marks = f.create_map(
        f.lit(OF),
        f.col("msgId"),
        f.lit(TOPIC),
        f.col("topic"),
        f.lit(PLACE),
        f.concat_ws(":", "brokerName", "queueId", "queueOffset"),
        f.lit(ID),
        f.lit(replay_id),
    )
    own = f.lit(None).cast(text)
    if "properties" in rows.columns:
        own = f.map_filter("properties", lambda name, _: ~name.isin(list(MARKS)))
    kept = [name for name in _PAYLOAD if name in rows.columns and name != "properties"]
    return rows.select(
        f.lit(target).alias("topic"),
        (f.col("queueId") % queues).cast("int").alias("queueId"),
        "brokerName",
        "body",
        *kept,
        f.map_concat(f.coalesce(own, f.create_map().cast(text)), marks).alias("properties"),
    )


def slowed(rows: "DataFrame", per_second: float) -> "DataFrame":
    """Return rows that each task passes on at most at this rate per second."""
    import pyarrow as pa
    from pyspark.sql.pandas.functions import arrow_udf

    def slow(bodies: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return paced(bodies, len, per_second)

    pass_on = arrow_udf(slow, "binary")  # type: ignore[call-overload]
    return rows.withColumn("body", pass_on("body"))


@contextmanager
def small_batches(spark: "SparkSession", per_second: float) -> Iterator[None]:
    """Set Spark's batch size so that a batch takes about 0.1 s at the rate."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name) or "2000"
    spark.conf.set(name, str(min(int(before), max(1, int(per_second * PIECE_S)))))
    try:
        yield
    finally:
        spark.conf.set(name, before)
