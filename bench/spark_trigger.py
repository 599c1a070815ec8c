"""How long a micro-batch takes: `python -m bench.spark_trigger [--seconds N] [--set KEY=VALUE]`.

A topic of two queues gets 1,000 messages a second of 1 KiB; a query without a trigger time reads
it, so that one batch follows the other. Times are Spark's own (`durationMs.triggerExecution`) of
batches that had rows. The rows go into a sink written in Python, once that only looks at them and
once our own into another topic, and into Spark's `noop`; Spark's `rate` source into `noop` stands
for what Spark takes without any Python. `--defaults` leaves the settings of `epochmq.spark.tune`
out, `--set` adds one, `--ways` takes the first so many. Java compiles for a minute or two: the
first way is left to itself for `--warm` seconds before it is timed, each other one for a quarter of
that. With what starting takes the whole run has about 20 s more than these and `--seconds` a way.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType
from tests.compat.peers.epochmq import EpochCluster

from bench import peers
from epochmq.client.aio import Admin, Producer
from epochmq.model.message import Message
from epochmq.model.topic import TopicConfig
from epochmq.spark import tune

TOPIC, COPY = "Ticks", "Copied"
QUEUES = 2
RATE = 1_000
EVERY_S = 0.01
BATCHES_LEAST = 5
BODY_BYTES = 1024
HEAD = (
    "| way | batches | rows | trigger p50 ms | p95 | p99 | offsets | plan | log | work | commit |\n"
    + "|---" * 11
    + "|"
)


class Looking(DataSourceStreamArrowWriter):
    """Takes Arrow batches, looks at how many rows they have and how old the rows are."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from epochmq.spark.freeze import freeze_once

        freeze_once()
        for batch in iterator:
            batch.column("queueOffset").to_numpy()
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pass

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pass


class LookingSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "looking"

    def streamWriter(self, schema: StructType, overwrite: bool) -> Looking:
        from epochmq.spark.freeze import freeze_once

        freeze_once()
        return Looking()


@contextmanager
def ticking(namesrv: str) -> Iterator[None]:
    """Messages at a steady rate while the body runs."""
    stopped = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_tick(namesrv, stopped)), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


async def _tick(namesrv: str, stopped: threading.Event) -> None:
    body = b"x" * BODY_BYTES
    messages = [Message(TOPIC, body, keys=(f"k{n}",)) for n in range(int(RATE * EVERY_S))]
    async with Producer(namesrv, "bench") as producer:
        at = time.monotonic()
        while not stopped.is_set():
            await producer.send_batch(messages)
            at += EVERY_S
            await asyncio.sleep(max(0.0, at - time.monotonic()))


async def make_topics(namesrv: str) -> None:
    async with Admin(namesrv) as admin:
        for topic in (TOPIC, COPY):
            await admin.create_topic(TopicConfig(topic, QUEUES, QUEUES))


def session(tuned: bool, more: Sequence[str] = ()) -> SparkSession:
    builder = SparkSession.builder.appName("bench").master("local[2,4]")
    if tuned:
        builder = tune(builder, master="local[2,4]")
    builder = builder.config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.pyspark.python", sys.executable)
    # All batches of a run, not the last hundred.
    builder = builder.config("spark.sql.streaming.numRecentProgressUpdates", "10000")
    for setting in more:
        key, _, value = setting.partition("=")
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(LookingSource)
    return spark


def triggers(query: StreamingQuery, seconds: float, warm_s: float) -> str:
    """Cells of one row: batches, p50, p95 and p99 of the trigger, medians of its parts in ms."""
    _run(query, warm_s)
    warm = len(_full(query))
    _run(query, seconds)
    progress = _full(query)[warm:]
    query.stop()
    if failure := query.exception():
        raise failure
    if len(progress) < BATCHES_LEAST:
        return f"{len(progress)} | too few to say" + " | " * 8
    parts = ["triggerExecution", "latestOffset", "queryPlanning", "walCommit", "addBatch"]
    parts.append("commitOffsets")
    times = {part: [each.durationMs.get(part, 0) for each in progress] for part in parts}
    whole = times.pop("triggerExecution")
    by_hundredths = statistics.quantiles(whole, n=100)
    rows = statistics.median(each.numInputRows for each in progress)
    cells = [f"{len(whole)}", f"{rows:.0f}", f"**{statistics.median(whole):.0f}**"]
    cells += [f"{by_hundredths[at - 1]:.0f}" for at in (95, 99)]
    return " | ".join([*cells, *(f"{statistics.median(each):.0f}" for each in times.values())])


def _run(query: StreamingQuery, seconds: float) -> None:
    """Wait so long, or until it failed."""
    until = time.monotonic() + seconds
    while query.isActive and time.monotonic() < until:
        time.sleep(0.1)


def _full(query: StreamingQuery) -> list[Any]:
    """What Spark said of batches that had rows."""
    return [each for each in query.recentProgress if each.numInputRows]


def main() -> None:
    """Print a row of a table for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warm", type=float, default=40.0, metavar="SECONDS")
    parser.add_argument("--defaults", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--ways", type=int)
    args = parser.parse_args()
    spark = session(not args.defaults, args.set)
    config: dict[str, Any] = {"mappedFileSizeCommitLog": peers.GIB}
    print(f"settings: {'Spark' if args.defaults else 'epochmq.spark.tune'} {args.set or ''}\n")
    print(HEAD)
    with EpochCluster(broker_config=config) as cluster:
        namesrv = cluster.namesrv_addr
        asyncio.run(make_topics(namesrv))
        with ticking(namesrv):
            warm_s = args.warm
            for name, start in list(ways(spark, namesrv).items())[: args.ways]:
                with tempfile.TemporaryDirectory(prefix="bench-trigger-") as place:
                    cells = triggers(start(place), args.seconds, warm_s)
                warm_s = args.warm / 4
                print(f"| {name} | {cells} |", flush=True)
    spark.stop()


def ways(spark: SparkSession, namesrv: str) -> dict[str, Callable[[str], StreamingQuery]]:
    """What starts each query, given a directory for its checkpoint."""

    def ours() -> DataFrame:
        reader = spark.readStream.format("rocketmq").option("nameServer", namesrv)
        return reader.option("subscribe", TOPIC).load()

    def rate() -> DataFrame:
        return spark.readStream.format("rate").option("rowsPerSecond", RATE).load()

    def into(rows: Callable[[], DataFrame], sink: str) -> Callable[[str], StreamingQuery]:
        def start(place: str) -> StreamingQuery:
            writer = rows().writeStream.format(sink).option("checkpointLocation", place)
            if sink == "rocketmq":
                writer = writer.option("nameServer", namesrv).option("topic", COPY)
            return writer.start()

        return start

    return {
        "into a Python sink": into(ours, "looking"),
        "into our sink": into(lambda: ours().select("body", "keys"), "rocketmq"),
        "into noop": into(ours, "noop"),
        "rate into noop, no Python": into(rate, "noop"),
    }


if __name__ == "__main__":
    main()
