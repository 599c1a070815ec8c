"""Job `compact`: log compaction, the latest message of each key of a topic, as a snapshot table.

Within a queue the highest queue offset is the latest, whatever the clocks say. For a key in several
queues (avoid this by an ordering key) the message stored last wins, then the highest broker name,
queue and offset: the same rows always give the same snapshot. A message with an empty body, or with
the tag for deletion, removes its key.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epochmq.base.errors import UsageError
from epochmq.model.queue_offsets import from_topics
from epochmq.runtime.tls import OutgoingTls
from epochmq.spark.jobs.backfill import (
    CutOver,
    archived,
    backfill,
    chosen_topics,
    mark_of,
    ranges_of,
)
from epochmq.spark.jobs.job_report import JobReport
from epochmq.spark.jobs.snapshot import SnapshotTarget
from epochmq.spark.option_table import reach
from epochmq.spark.spark_cluster import Cluster
from epochmq.tables.opening import open_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

KEY = "key"
COLUMNS = (
    "topic",
    "queueId",
    "queueOffset",
    "brokerName",
    "body",
    "tags",
    "keys",
    "properties",
    "storeTimestamp",
    "msgId",
)
_PROPERTY = re.compile(r"property:(.+)")


@dataclass(frozen=True, slots=True)
class Compact:
    """Options of the job: `source` is an archive, `name_server` adds the live tail or stands alone.

    `key`: `keys` (the whole text), `orderingKey` (__SHARDINGKEY) or `property:NAME`.
    """

    target: str
    topic: str
    source: str = ""
    name_server: str = ""
    format: str | None = None
    key: str = "keys"
    tombstone_tag: str = ""
    tls: OutgoingTls | None = None

    def __post_init__(self) -> None:
        if not self.topic:
            raise UsageError("a snapshot is of one topic: name it")
        if not self.source and not self.name_server:
            raise UsageError("name an archive to read, or name servers, or both")
        key_property(self.key)


def key_property(key: str) -> str | None:
    """Return the property for `key`, None for column keys; raises `UsageError` for other texts."""
    if key == "keys":
        return None
    if key == "orderingKey":
        return "__SHARDINGKEY"
    found = _PROPERTY.fullmatch(key)
    if found is None:
        raise UsageError(f"'{key}' is not a key: use keys, orderingKey or property:NAME")
    return found[1]


def compact(spark: "SparkSession", job: Compact, *, dry_run: bool = False) -> JobReport:
    """Write the snapshot and return a report with its end offsets."""
    report = JobReport("compact")
    target = SnapshotTarget(job.target, job.format)
    rows, ends = source_rows(spark, job)
    report.ranges = ends
    keyed = with_key(rows, job.key).cache()
    try:
        messages, missing = _counts(keyed)
        found = latest(keyed.where(f"{KEY} is not null"))
        kept = without_tombstones(found, job.tombstone_tag)
        report.details |= {
            "target": target.root,
            "format": target.format,
            "messages": messages,
            "withoutKey": missing,
        }
        if dry_run:
            report.rows = kept.count()
            return report.finish("dry-run")
        done = target.write(kept.orderBy(KEY), {"topic": job.topic, "key": job.key, "to": ends})
    finally:
        keyed.unpersist()
    report.rows, report.bytes = done.rows, done.bytes
    return report.finish()


def _counts(keyed: "DataFrame") -> tuple[int, int]:
    """Return the number of all messages, and of those without a key."""
    row = keyed.selectExpr("count(*)", f"count_if({KEY} is null)").collect()[0]
    return int(row[0]), int(row[1])


def source_rows(
    spark: "SparkSession", job: Compact
) -> "tuple[DataFrame, dict[str, dict[str, list[int]]]]":
    """Return the messages and, by queue, the ranges of their offsets."""
    if not job.source:
        return _live_only(spark, job)
    table = open_table(job.source)
    lacking = sorted(set(COLUMNS) - set(table.schema().names))
    if lacking:
        raise UsageError(f"the archive {table.root} has no column {lacking[0]}, which this needs")
    table.check_files()
    if job.name_server:
        found = backfill(
            spark, table, job.name_server, topics=[job.topic], columns=COLUMNS, tls=job.tls
        )
        ends = {
            topic: {queue: [0, end] for queue, (_, end) in queues.items()}
            for topic, queues in ranges_of(found.cut_over).items()
        }
        return found.frame.drop("source"), ends
    offsets = mark_of(table).offsets
    chosen_topics(offsets, [job.topic], table.root)
    cut_over = CutOver(from_topics({job.topic: offsets[job.topic]}), {})
    rows = archived(spark, table, [job.topic], cut_over).select(*COLUMNS)
    return rows, {job.topic: {queue: [0, end] for queue, end in offsets[job.topic].items()}}


def _live_only(
    spark: "SparkSession", job: Compact
) -> "tuple[DataFrame, dict[str, dict[str, list[int]]]]":
    with Cluster(job.name_server, tls=job.tls) as cluster:
        bounds = cluster.bounds(job.topic)
    ends = {f"{q.broker_name}:{q.queue_id}": list(pair) for q, pair in bounds.items()}
    rows = (
        spark.read.format("rocketmq")
        .options(**reach(job.name_server, job.tls))
        .option("subscribe", job.topic)
        .option("columns", ",".join(COLUMNS))
        .option("endingOffsets", json.dumps({job.topic: {q: end for q, (_, end) in ends.items()}}))
        .load()
    )
    return rows, {job.topic: ends}


def with_key(rows: "DataFrame", key: str) -> "DataFrame":
    """Add the key column, which is null for messages without a key."""
    from pyspark.sql import functions as f

    name = key_property(key)
    value = f.col("keys") if name is None else f.col("properties")[name]
    return rows.withColumn(KEY, f.when(f.length(value) > 0, value))


def latest(rows: "DataFrame") -> "DataFrame":
    """Return the latest row of each key."""
    from pyspark.sql import functions as f

    names = [name for name in rows.columns if name != KEY]
    in_queue = _newest(rows, [KEY, "brokerName", "queueId"], names, f.col("queueOffset"))
    order = f.struct("storeTimestamp", "brokerName", "queueId", "queueOffset")
    return _newest(in_queue, [KEY], names, order)


def _newest(
    rows: "DataFrame", by: Sequence[str], names: Sequence[str], order: "Column"
) -> "DataFrame":
    from pyspark.sql import functions as f

    found = rows.groupBy(*by).agg(f.max_by(f.struct(*names), order).alias("row"))
    return found.select(KEY, *(f.col("row")[name].alias(name) for name in names))


def without_tombstones(rows: "DataFrame", tag: str) -> "DataFrame":
    """Drop the rows of deleted keys."""
    from pyspark.sql import functions as f

    kept = f.length(f.coalesce("body", f.lit(b""))) > 0
    if tag:
        kept = kept & (f.coalesce("tags", f.lit("")) != tag)
    return rows.where(kept)
