"""Job `reconcile`: compares what producers sent, what a topic has, and what groups consumed.

Producers' records are a file of JSON lines or the message trace, and so are consumers' records.
Messages older than the trace, whose retention is no longer than any topic's, count as unknown.
"""

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epochmq.base.errors import NotFound, UsageError
from epochmq.client.core.trace_text import AFTER, BEFORE, PUB, rows_of
from epochmq.runtime.tls import OutgoingTls
from epochmq.spark.jobs.job_report import JobReport
from epochmq.spark.jobs.reconcile_judge import (
    CONSUMED_DDL,
    SENT_DDL,
    SHARES,
    ReconcileVerdict,
    Rules,
    judge,
)
from epochmq.spark.option_table import reach

ROWS_DDL = (
    "array<struct<kind: string, at: bigint, clientGroup: string, topic: string, msgId: string,"
    " requestId: string, tries: int, cost: bigint, ok: boolean>>"
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SKEW_MS = 60_000
"""The most that clocks of producers and brokers may differ, in ms."""


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Options of the job; `trace` is the trace topic, empty for none.

    Files are JSON lines: {"msgId": ..., "at": wall ms, "ok": true}, for consumers with
    "clientGroup".
    """

    name_server: str
    topic: str
    sent: str = ""
    consumed: str = ""
    trace: str = ""
    groups: tuple[str, ...] = ()
    since: int = 0
    until: int = 0
    """Sends before this time (wall ms) count; 0 for now."""
    grace_ms: int = 30_000
    late_ms: int = 60_000
    samples: int = 10
    tls: OutgoingTls | None = None

    def __post_init__(self) -> None:
        if not (self.sent or self.consumed or self.trace):
            raise UsageError(
                "there is nothing to compare the topic with: give a file of what was sent or"
                " consumed, or the trace topic"
            )
        if self.until and self.until <= self.since:
            raise UsageError("the time to end at is not behind the one to begin at")
        if self.grace_ms < 0:
            raise UsageError("the time that messages are given to arrive must not be negative")
        for path in (self.sent, self.consumed):
            if path and "://" not in path and not os.path.exists(path):
                raise NotFound(f"there is no file {path}")


def reconcile(spark: "SparkSession", job: Reconcile) -> tuple[ReconcileVerdict, JobReport]:
    """Return the verdict and the run report."""
    report = JobReport("reconcile")
    now = int(time.time() * 1000)
    until = min(job.until or now, now)
    traced = trace_rows(spark, job).cache() if job.trace else None
    try:
        stored = stored_rows(spark, job, until)
        sent = _sent(spark, job, traced)
        if sent is not None:
            sent = sent.where(f"at >= {job.since} and at < {until}")
        consumed = _consumed(spark, job, traced)
        watermark = min(until, now - job.grace_ms)
        rules = Rules(watermark, job.late_ms, _since(traced, job), job.samples)
        verdict = judge(sent, stored, consumed, rules, job.groups)
    finally:
        if traced is not None:
            traced.unpersist()
    report.rows = verdict.topic["stored"]
    report.details = details_of(verdict)
    return verdict, report.finish()


def details_of(verdict: ReconcileVerdict) -> dict[str, object]:
    """Return the report's details: counts by group, latency percentiles in ms, ids of problems."""
    shares = [f"p{share * 100:g}" for share in SHARES]
    return {
        "verdict": "clean" if verdict.is_clean else "messages are missing or came twice",
        "topic": verdict.topic,
        "groups": verdict.groups,
        "latencyMs": {
            name: {stage: dict(zip(shares, times, strict=False)) for stage, times in table.items()}
            for name, table in verdict.latencies.items()
        },
        "samples": verdict.samples,
    }


def stored_rows(spark: "SparkSession", job: Reconcile, until: int) -> "DataFrame":
    """Return rows in STORED_DDL of the messages that the topic has now for the time range."""
    from pyspark.sql import functions as f

    reader = (
        spark.read.format("rocketmq")
        .options(**reach(job.name_server, job.tls))
        .option("subscribe", job.topic)
        .option("columns", "brokerName,queueId,queueOffset,bornTimestamp,storeTimestamp,msgId")
    )
    if job.since > _SKEW_MS:
        reader = reader.option("startingTimestamp", str(job.since - _SKEW_MS))
    rows = reader.load().select(
        "msgId",
        f.unix_millis("storeTimestamp").alias("storeAt"),
        f.unix_millis("bornTimestamp").alias("bornAt"),
        f.concat_ws(":", "brokerName", "queueId", "queueOffset").alias("place"),
    )
    # A message that arrived late was sent in time: the time of sending counts.
    return rows.where((f.col("bornAt") >= job.since) & (f.col("bornAt") < until))


def trace_rows(spark: "SparkSession", job: Reconcile) -> "DataFrame":
    """Return the trace contexts of all messages that the trace topic still has."""
    from pyspark.sql import functions as f

    bodies = (
        spark.read.format("rocketmq")
        .options(**reach(job.name_server, job.tls))
        .option("subscribe", job.trace)
        .option("columns", "body")
        .load()
    )
    contexts = f.udf(rows_of, ROWS_DDL, useArrow=False)
    return bodies.select(f.explode(contexts("body")).alias("row")).select("row.*")


def sent_of_trace(traced: "DataFrame", topic: str) -> "DataFrame":
    """Return the sent messages of the trace in SENT_DDL."""
    from pyspark.sql import functions as f

    mine = traced.where((f.col("kind") == PUB) & (f.col("topic") == topic))
    return mine.select("msgId", "at", "ok")


def consumed_of_trace(traced: "DataFrame") -> "DataFrame":
    """Return the consumption attempts in the trace in CONSUMED_DDL.

    An attempt begins with SubBefore; without a SubAfter it has not ended.
    """
    from pyspark.sql import functions as f

    began = traced.where(f.col("kind") == BEFORE).select(
        "requestId", "msgId", "clientGroup", "tries", f.col("at").alias("beganAt")
    )
    ended = traced.where(f.col("kind") == AFTER).select(
        "requestId", "msgId", "ok", f.greatest("cost", f.lit(0)).alias("cost")
    )
    both = began.join(ended.distinct(), ["requestId", "msgId"], "left")
    at = f.col("beganAt") + f.coalesce("cost", f.lit(0))
    return both.select("clientGroup", "msgId", at.alias("at"), "ok", "tries")


def _sent(spark: "SparkSession", job: Reconcile, traced: "DataFrame | None") -> "DataFrame | None":
    if job.sent:
        return read_lines(spark, job.sent, SENT_DDL, ("msgId", "at"))
    return sent_of_trace(traced, job.topic) if traced is not None else None


def _consumed(
    spark: "SparkSession", job: Reconcile, traced: "DataFrame | None"
) -> "DataFrame | None":
    if job.consumed:
        needed = ("clientGroup", "msgId", "at", "ok")
        return read_lines(spark, job.consumed, CONSUMED_DDL, needed)
    return consumed_of_trace(traced) if traced is not None else None


def _since(traced: "DataFrame | None", job: Reconcile) -> int:
    """Return since when (wall ms) consumption is known: 0 for a file, else the trace's begin."""
    from pyspark.sql import functions as f

    if traced is None or job.consumed:
        return 0
    first = traced.where(f.col("kind") == BEFORE).agg(f.min("at")).collect()[0][0]
    return int(first or 0)


def read_lines(spark: "SparkSession", path: str, ddl: str, needed: tuple[str, ...]) -> "DataFrame":
    """Read JSON lines as `ddl`; raises `UsageError` when a line lacks a column of `needed`."""
    from pyspark.sql import functions as f

    lines = spark.read.text(path).where("length(trim(value)) > 0")
    rows = lines.select("value", f.from_json("value", ddl).alias("row"))
    wrong = f.lit(False)
    for name in needed:
        wrong = wrong | f.col("row")[name].isNull()
    bad = rows.where(wrong)
    count = bad.count()
    if count:
        raise UsageError(
            f"{path}: {count} lines lack {', '.join(needed)} or are not JSON objects, as"
            f" {bad.limit(1).collect()[0]['value'][:120]!r}"
        )
    return rows.select("row.*")
