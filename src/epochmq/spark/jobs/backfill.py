"""Job `backfill`: one DataFrame over an archive and the live tail of its topics.

    with framework.spark_session("search") as spark:
        found = backfill(spark, "/lake/orders", "127.0.0.1:9876")
        found.frame.where("tags = 'paid'").show()

Each message is in it once: from the archive below the cut-over offset, from the brokers after it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from epochmq.base.errors import UsageError
from epochmq.model.queue_offsets import by_topic, from_topics, queue_text
from epochmq.model.topic import MessageQueue
from epochmq.runtime.tls import OutgoingTls
from epochmq.spark.columns import NAMES, chosen
from epochmq.spark.jobs.archive_plan import Bounds, Gap, Positions, check_alive, check_gaps, gaps
from epochmq.spark.jobs.body_checksum import with_checked_bodies
from epochmq.spark.option_table import reach
from epochmq.spark.spark_cluster import Cluster
from epochmq.tables.archive_table import Offsets, TransactionMark
from epochmq.tables.opening import AnyTable, data_frame, open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# Cut over ------------------------------------------------------------------------------------
# Finds where an archive ends and the live topic begins: one queue offset per queue. No Spark here.
# The archive's last commit contains, with its files, the next queue offset of each queue. Rows
# below it come from the table, the others from the brokers. The end is fixed as well, so that a
# frame gives the same rows when it is computed twice.


@dataclass(frozen=True)
class CutOver:
    """By queue: the archive has all rows below `at`, the brokers those from `at` up to `end`."""

    at: Positions
    end: Positions
    lost: list[Gap] = field(default_factory=list)
    """Messages that were deleted before they were archived."""

    @property
    def live_rows(self) -> int:
        return sum(end - self.at[queue] for queue, end in self.end.items())

    def starting(self) -> str:
        """Return the begins as option startingOffsets."""
        return _json({queue: self.at[queue] for queue in self.end})

    def ending(self) -> str:
        """Return the ends as option endingOffsets."""
        return _json(self.end)


def _json(offsets: Mapping[MessageQueue, int]) -> str:
    return json.dumps(by_topic(offsets), sort_keys=True, separators=(",", ":"))


def mark_of(table: AnyTable) -> TransactionMark:
    """Return the mark of the last commit; raises `UsageError` for a table without one."""
    mark = table.mark
    if mark is None:
        raise UsageError(f"no archive has written to {table.root} yet: there is no seam to find")
    return mark


def chosen_topics(offsets: Offsets, topics: Sequence[str], where: str) -> list[str]:
    """Return `topics`, or all in the table; raises `UsageError` for one that is not in it."""
    unknown = sorted(set(topics) - set(offsets))
    if unknown:
        raise UsageError(
            f"the table {where} has no topic {unknown[0]}; it has {', '.join(sorted(offsets))}"
        )
    return sorted(topics or offsets)


def find_cut_over(offsets: Offsets, bounds: Bounds, allow_loss: bool = False) -> CutOver:
    """Compute the cut-over between a table and brokers.

    Queues that are not in the table begin at their first message. Raises `UsageError` for a topic
    that was recreated, and `EnvironmentFault` for messages that are in neither place.
    """
    positions = from_topics(offsets)
    check_alive(bounds, positions)
    lost = gaps(bounds, positions)
    check_gaps(lost, allow_loss)
    at, end = dict(positions), {}
    for queue, (low, high) in bounds.items():
        at[queue] = max(positions.get(queue, low), low)
        end[queue] = max(high, at[queue])
    return CutOver(at, end, lost)


# Backfill ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Backfill:
    """The result: `frame` has the selected columns and `source`, which is archive or live."""

    frame: "DataFrame"
    cut_over: CutOver
    topics: list[str]


def backfill(
    spark: "SparkSession",
    table: str | AnyTable,
    name_server: str,
    *,
    topics: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    allow_loss: bool = False,
    tls: OutgoingTls | None = None,
) -> Backfill:
    """Return the rows of `topics`, by default of all in the archive at `table`, up to now.

    Without `columns`, the frame has those of the archive. With `allow_loss`, messages that are in
    neither place are left out and listed in the cut-over; else they raise an error.
    """
    opened = open_table(table) if isinstance(table, str) else table
    offsets = mark_of(opened).offsets
    names = chosen_topics(offsets, topics, opened.root)
    with Cluster(name_server, tls=tls) as cluster:
        bounds = cluster.bounds_of(names)
    cut_over = find_cut_over({name: offsets[name] for name in names}, bounds, allow_loss)
    held = set(opened.schema().names)
    wanted = chosen(columns if columns is not None else [n for n in NAMES if n in held])
    old = archived(spark, opened, names, cut_over).select(*wanted)
    new = live(spark, reach(name_server, tls), names, cut_over, wanted)
    from pyspark.sql import functions as f

    frame = old.withColumn("source", f.lit("archive"))
    if new is not None:
        frame = frame.unionByName(new.withColumn("source", f.lit("live")))
    return Backfill(frame, cut_over, names)


def archived(
    spark: "SparkSession", table: AnyTable, topics: Sequence[str], cut_over: CutOver
) -> "DataFrame":
    """Return the table's rows below the cut-over; later commits add none."""
    from pyspark.sql import functions as f

    rows = with_checked_bodies(data_frame(spark, table), table.root)
    rows = rows.where(f.col("topic").isin(list(topics)))
    ends = [(q.topic, q.broker_name, q.queue_id, at) for q, at in cut_over.at.items()]
    bounds = spark.createDataFrame(
        ends, "topic string, brokerName string, queueId int, seamOffset bigint"
    )
    joined = rows.join(f.broadcast(bounds), ["topic", "brokerName", "queueId"])
    below: DataFrame = joined.where("queueOffset < seamOffset").drop("seamOffset")
    return below


def live(
    spark: "SparkSession",
    where: Mapping[str, str],
    topics: Sequence[str],
    cut_over: CutOver,
    columns: Sequence[str],
) -> "DataFrame | None":
    """Return the brokers' rows from the cut-over on; None without any. `where`: see `reach`."""
    if not cut_over.live_rows:
        return None
    return (
        spark.read.format("rocketmq")
        .options(**where)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", cut_over.starting())
        .option("endingOffsets", cut_over.ending())
        .option("columns", ",".join(columns))
        .load()
    )


def ranges_of(cut_over: CutOver) -> dict[str, dict[str, list[int]]]:
    """Return topic -> queue -> [cut-over, end] for a report."""
    found: dict[str, dict[str, list[int]]] = {}
    for queue, end in sorted(cut_over.end.items()):
        found.setdefault(queue.topic, {})[queue_text(queue)] = [cut_over.at[queue], end]
    return found
