"""Classifies each message for `reconcile`: lost, duplicated, late, unknown or fine.

It joins DataFrames and returns a few rows. Ids are the producers' (UNIQ_KEY). Columns, with times
in wall ms:

- sent: msgId, at, ok - from producers; ok is false for a send that was not acknowledged.
- stored: msgId, storeAt, bornAt, place - from the topic, a row per record.
- consumed: clientGroup, msgId, at, ok, tries - from consumers, a row per attempt.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from epochmq.base.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

SENT_DDL = "msgId string, at bigint, ok boolean"
STORED_DDL = "msgId string, storeAt bigint, bornAt bigint, place string"
CONSUMED_DDL = "clientGroup string, msgId string, at bigint, ok boolean, tries int"

SHARES = (0.5, 0.9, 0.99, 0.999)
_ACCURACY = 10_000


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits of the classification, in ms.

    Messages younger than `watermark` (wall ms) may still arrive. Consumption of messages stored
    before `since` is unknown. `late_ms` is the limit from storing to consumption.
    """

    watermark: int
    late_ms: int = 60_000
    since: int = 0
    samples: int = 10

    def __post_init__(self) -> None:
        if self.late_ms < 0 or self.samples < 0:
            raise UsageError("late and samples must not be negative")


@dataclass(slots=True)
class ReconcileVerdict:
    """Counts of distinct messages; latency percentiles in ms; `samples` are ids of each problem."""

    topic: dict[str, int]
    groups: dict[str, dict[str, int]]
    latencies: dict[str, dict[str, list[int]]]
    samples: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        bad = ("lost", "duplicated", "failed")
        return not any(
            table.get(name) for table in (self.topic, *self.groups.values()) for name in bad
        )


def judge(
    sent: "DataFrame | None",
    stored: "DataFrame",
    consumed: "DataFrame | None",
    rules: Rules,
    groups: Sequence[str] = (),
) -> ReconcileVerdict:
    """Join the three frames; without `sent` or `consumed` that part is left out.

    `groups` are judged even if they consumed nothing; without `groups`, all groups with records.
    """
    from pyspark.sql import functions as f

    kept = _by_id(stored).cache()
    try:
        produced = _produced(sent, kept, rules)
        topic = _row(produced.agg(*_counts(_TOPIC)).collect()[0])
        latencies = {"topic": _shares(produced.agg(_latency("storeAt", "sentAt", "sendToStore")))}
        samples = _samples(produced, topic, rules, "")
        tables: dict[str, dict[str, int]] = {}
        if consumed is not None:
            named = consumed.where(f.col("clientGroup").isin(list(groups))) if groups else consumed
            delivered = _delivered(kept, named, rules, groups).cache()
            for row in delivered.groupBy("clientGroup").agg(*_counts(_GROUP)).collect():
                tables[row["clientGroup"]] = _row(row)
            spent = delivered.groupBy("clientGroup").agg(
                _latency("firstOk", "storeAt", "storeToConsume"),
                _latency("firstOk", "bornAt", "sendToConsume"),
            )
            latencies |= {row["clientGroup"]: _times(row) for row in spent.collect()}
            for name in tables:
                one = delivered.where(f.col("clientGroup") == name)
                samples |= _samples(one, tables[name], rules, f"{name}: ")
            delivered.unpersist()
    finally:
        kept.unpersist()
    return ReconcileVerdict(topic, tables, latencies, samples)


_TOPIC = ("sent", "stored", "lost", "pending", "duplicated", "unacknowledged", "unannounced")
_GROUP = ("stored", "consumed", "lost", "failed", "pending", "unknown", "duplicated", "late")
_SAMPLED = frozenset(("lost", "duplicated", "failed", "late"))


def _by_id(stored: "DataFrame") -> "DataFrame":
    """Return a row for each id in the topic, with the number of its records."""
    from pyspark.sql import functions as f

    return stored.groupBy("msgId").agg(
        f.min("storeAt").alias("storeAt"),
        f.min("bornAt").alias("bornAt"),
        f.countDistinct("place").alias("copies"),
    )


def _produced(sent: "DataFrame | None", kept: "DataFrame", rules: Rules) -> "DataFrame":
    from pyspark.sql import functions as f

    held, told = f.col("copies").isNotNull(), f.col("sentAt").isNotNull()
    if sent is None:
        both = kept.withColumn("sentAt", f.col("bornAt")).withColumn("acked", f.lit(True))
        unannounced: Column = f.lit(False)
    else:
        words = sent.groupBy("msgId").agg(
            f.min("at").alias("sentAt"), f.max(f.coalesce("ok", f.lit(True))).alias("acked")
        )
        both = words.join(kept, "msgId", "full_outer")
        unannounced = held & ~told
    absent = told & ~held & f.col("acked")
    old = f.col("sentAt") < rules.watermark
    return both.select(
        "*",
        told.alias("sent"),
        held.alias("stored"),
        (absent & old).alias("lost"),
        (absent & ~old).alias("pending"),
        (held & (f.col("copies") > 1)).alias("duplicated"),
        (told & held & ~f.col("acked")).alias("unacknowledged"),
        unannounced.alias("unannounced"),
    )


def _delivered(
    kept: "DataFrame", consumed: "DataFrame", rules: Rules, groups: Sequence[str]
) -> "DataFrame":
    """Return a row for each stored message and group."""
    from pyspark.sql import functions as f

    ok = f.coalesce("ok", f.lit(False))
    heard = consumed.groupBy("clientGroup", "msgId").agg(
        f.sum(ok.cast("int")).alias("successes"),
        f.min(f.when(ok, f.col("at"))).alias("firstOk"),
        f.count("*").alias("tries"),
    )
    if groups:
        spark = kept.sparkSession
        names = spark.createDataFrame([(name,) for name in groups], "clientGroup string")
    else:
        names = consumed.select("clientGroup").where("clientGroup is not null").distinct()
    every = kept.crossJoin(f.broadcast(names)).join(heard, ["clientGroup", "msgId"], "left")
    done = f.coalesce("successes", f.lit(0)) > 0
    tried = f.coalesce("tries", f.lit(0)) > 0
    unknown = ~tried & (f.col("storeAt") < rules.since)
    old = f.col("storeAt") < rules.watermark
    open_ = ~done & ~unknown
    return every.select(
        "*",
        f.lit(True).alias("stored"),
        done.alias("consumed"),
        (open_ & old & ~tried).alias("lost"),
        (open_ & old & tried).alias("failed"),
        (open_ & ~old).alias("pending"),
        unknown.alias("unknown"),
        (f.col("successes") > 1).alias("duplicated"),
        (done & (f.col("firstOk") - f.col("storeAt") > rules.late_ms)).alias("late"),
    )


def _counts(names: Sequence[str]) -> "list[Column]":
    from pyspark.sql import functions as f

    return [
        f.coalesce(f.sum(f.coalesce(name, f.lit(False)).cast("long")), f.lit(0)).alias(name)
        for name in names
    ]


def _latency(later: str, earlier: str, name: str) -> "Column":
    from pyspark.sql import functions as f

    apart = f.col(later) - f.col(earlier)
    # Clocks of two machines may differ: a negative time counts as 0. A message that never arrived
    # has no time (`greatest` ignores null).
    spent = f.when(apart.isNotNull(), f.greatest(apart, f.lit(0)))
    return f.percentile_approx(spent, list(SHARES), _ACCURACY).alias(name)


def _samples(
    frame: "DataFrame", counts: dict[str, int], rules: Rules, prefix: str
) -> dict[str, list[str]]:
    """Return the smallest ids of each problem, so that two runs report the same."""
    from pyspark.sql import functions as f

    found = {}
    for kind, count in counts.items():
        if kind in _SAMPLED and count and rules.samples:
            rows = frame.where(f.col(kind)).orderBy("msgId").limit(rules.samples)
            found[prefix + kind] = [row["msgId"] for row in rows.select("msgId").collect()]
    return found


def _row(row: "Row") -> dict[str, int]:
    return {key: value for key, value in row.asDict().items() if key != "clientGroup"}


def _shares(frame: "DataFrame") -> dict[str, list[int]]:
    return _times(frame.collect()[0])


def _times(row: "Row") -> dict[str, list[int]]:
    table: dict[str, Any] = row.asDict()
    return {key: list(value) for key, value in table.items() if key != "clientGroup" and value}
