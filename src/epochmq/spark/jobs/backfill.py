"""Job `backfill`: one DataFrame over an archive and the live tail of its topics.

    with framework.spark_session("search") as spark:
        found = backfill(spark, "/lake/orders", "127.0.0.1:9876")
        found.frame.where("tags = 'paid'").show()

Each message is in it once: the archive's below the seam, the brokers' from there on
(`backfill.py`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from epochmq.base.errors import UsageError
from epochmq.model.topic import MessageQueue
from epochmq.runtime.tls import OutgoingTls
from epochmq.spark.columns import NAMES, chosen
from epochmq.spark.jobs.archive_plan import Bounds, Gap, Positions, check_alive, check_gaps, gaps
from epochmq.spark.jobs.body_checksum import with_checked_bodies
from epochmq.spark.jobs.tables.archive_table import Offsets, TransactionMark
from epochmq.spark.jobs.tables.opening import AnyTable, data_frame, open_table
from epochmq.spark.option_table import reach
from epochmq.spark.spark_cluster import Cluster
from epochmq.spark.spark_offsets import by_topic, from_topics, queue_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# Cut over ------------------------------------------------------------------------------------
# Where an archive ends and the live topic begins: one queue offset for each queue. No Spark here.
#
# The archive's last commit holds, with its files, the next queue offset of each queue. Rows
# below it come from the table, the others from the brokers. The end is fixed as well, so that a
# frame that is computed twice is the same twice.


@dataclass(frozen=True)
class CutOver:
    """Per queue: the archive has all below `at`, the brokers what is from there up to `end`."""

    at: Positions
    end: Positions
    lost: list[Gap] = field(default_factory=list)
    """Messages that no archive took before they were deleted."""

    @property
    def live_rows(self) -> int:
        return sum(end - self.at[queue] for queue, end in self.end.items())

    def starting(self) -> str:
        """As option startingOffsets."""
        return _json({queue: self.at[queue] for queue in self.end})

    def ending(self) -> str:
        """As option endingOffsets."""
        return _json(self.end)


def _json(offsets: Mapping[MessageQueue, int]) -> str:
    return json.dumps(by_topic(offsets), sort_keys=True, separators=(",", ":"))


def mark_of(table: AnyTable) -> TransactionMark:
    """The last commit's mark; `UsageError` for a table without any."""
    mark = table.mark
    if mark is None:
        raise UsageError(f"no archive has written to {table.root} yet: there is no seam to find")
    return mark


def chosen_topics(offsets: Offsets, topics: Sequence[str], where: str) -> list[str]:
    """`topics`, or all that the table holds; `UsageError` for one that it does not."""
    unknown = sorted(set(topics) - set(offsets))
    if unknown:
        raise UsageError(
            f"the table {where} has no topic {unknown[0]}; it has {', '.join(sorted(offsets))}"
        )
    return sorted(topics or offsets)


def find_cut_over(offsets: Offsets, bounds: Bounds, allow_loss: bool = False) -> CutOver:
    """The seam of what a table holds and brokers have.

    Queues that the table does not know begin at their first message. `UsageError` for a topic that
    was made anew, `EnvironmentFault` for messages that are in neither place.
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
    """`frame` has the columns asked for and `source`, which is archive or live."""

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
    """`topics` of the archive at `table`, all of them when none is named, up to now.

    Without `columns` those that the archive has. With `allow_loss` messages that are in neither
    place are left out, and named in the seam; else they are an error.
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
    """The table's rows below the seam: a commit after it was looked up adds none."""
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
    """What brokers hold from the seam on; None for nothing. `where`: see `reach`."""
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
    """For a report: topic -> queue -> [seam, end]."""
    found: dict[str, dict[str, list[int]]] = {}
    for queue, end in sorted(cut_over.end.items()):
        found.setdefault(queue.topic, {})[queue_text(queue)] = [cut_over.at[queue], end]
    return found
