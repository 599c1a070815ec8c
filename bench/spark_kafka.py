"""Spark on our broker and on Apache Kafka, side by side: `python -m bench.spark_kafka`.

One session with Spark's own Kafka source beside ours, one Kafka node and one of our brokers, all
on the same machine and cores. The rows of our topic are copied into Kafka's by Spark, keys, bodies,
properties (as headers) and queues (as partitions), so that both hold the same. Batches: everything
into Spark's `noop` sink, in turns, medians, as `bench.spark_read` does it; filters; 200 topics of 8
queues with 20 messages each; rows of 1 KiB that are written. Streams: 1,000 messages of 1 KiB a
second into two queues, triggers as `bench.spark_trigger` takes them, in turns. Without Kafka's jars
(Maven Central) there is nothing to compare and it says so.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.compat.peers import kafka
from tests.compat.peers.cache import UnavailableError
from tests.compat.peers.epochmq import EpochCluster

from bench import peers, spark_read, spark_sink, spark_trigger
from epochmq.client.aio import Admin
from epochmq.model.topic import TopicConfig

COLUMNS = "keys,body,topic,brokerName,queueId,queueOffset,storeTimestamp"
"""What stands for Kafka's columns, which has no more."""
HEADERS = (
    "transform(map_entries(properties),"
    " each -> named_struct('key', each.key, 'value', encode(each.value, 'utf-8')))"
)
CHOICES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "all, with properties / headers": ({}, {"includeHeaders": "true"}),
    "Kafka's columns, without them": ({"columns": COLUMNS}, {}),
}
TAG_HEADER = "exists(headers, each -> each.key = 'TAGS' and each.value = encode('tag3', 'utf-8'))"
FILTERS = {
    "one tag of eight": ("tags = 'tag3'", TAG_HEADER),
    "one key of all": ("keys = 'order-77777'", "key = encode('order-77777', 'utf-8')"),
}
SMALL_TOPICS = 200
SMALL_QUEUES = 8
SMALL_ROWS = 32_000
WRITTEN_ROWS = 200_000


class Beside:
    """Both, with the topics of batches (`spark_read.TOPIC`) and streams (`spark_trigger.TOPIC`)."""

    def __init__(self, spark: SparkSession, ours: EpochCluster, theirs: kafka.Kafka) -> None:
        self.spark = spark
        self._namesrv = ours.namesrv_addr
        self._kafka = theirs

    def fill(self, rows: int) -> None:
        """The same rows on both sides."""
        asyncio.run(spark_read.fill(self._namesrv, rows))
        asyncio.run(spark_trigger.make_topics(self._namesrv))
        self._kafka.create_topic(spark_read.TOPIC, spark_read.QUEUES)
        self._kafka.create_topic(spark_trigger.TOPIC, spark_trigger.QUEUES)
        copy = spark_read.source(self.spark, self._namesrv, {}).selectExpr(
            "keys AS key", "body AS value", "queueId AS partition", f"{HEADERS} AS headers"
        )
        writer = copy.write.format("kafka").option("topic", spark_read.TOPIC)
        writer.option("kafka.bootstrap.servers", self._kafka.address).save()

    def batches(self, ours: dict[str, str], theirs: dict[str, str]) -> tuple[DataFrame, DataFrame]:
        """One choice of columns, here and there."""
        reader = self.spark.read.format("kafka").options(**theirs)
        reader = reader.option("kafka.bootstrap.servers", self._kafka.address)
        mine = spark_read.source(self.spark, self._namesrv, ours)
        return mine, reader.option("subscribe", spark_read.TOPIC).load()

    def fill_small(self) -> None:
        """Topics with few messages in many queues; Kafka creates its topics itself."""
        asyncio.run(make_small(self._namesrv))
        rows = self.spark.range(SMALL_ROWS)
        topic = f"concat('small-', id % {SMALL_TOPICS}) AS topic"
        value = "encode(rpad(string(id), 100, '-'), 'utf-8')"
        ours = rows.selectExpr(topic, f"{value} AS body").write.format("rocketmq")
        ours.option("nameServer", self._namesrv).mode("append").save()
        key = "encode(string(id), 'utf-8') AS key"
        theirs = rows.selectExpr(topic, key, f"{value} AS value").write.format("kafka")
        theirs.option("kafka.bootstrap.servers", self._kafka.address).save()

    def small(self, theirs: bool) -> DataFrame:
        """All rows of the topics that `fill_small` made."""
        reader = self.spark.read.option("subscribePattern", "small-.*")
        if theirs:
            return (
                reader.format("kafka").option("kafka.bootstrap.servers", self._kafka.address).load()
            )
        return reader.format("rocketmq").option("nameServer", self._namesrv).load()

    def write(self, theirs: bool, rows: DataFrame, guarantee: str) -> None:
        """Write rows of one column, `body`; Kafka's sink knows only at-least-once."""
        if theirs:
            writer = rows.withColumnRenamed("body", "value").write.format("kafka")
            writer = writer.option("kafka.bootstrap.servers", self._kafka.address)
        else:
            writer = rows.write.format("rocketmq").option("guarantee", guarantee)
            writer = writer.option("nameServer", self._namesrv)
        writer.option("topic", "Written").mode("append").save()

    def _rows(self, theirs: bool) -> DataFrame:
        reader = self.spark.readStream.option("subscribe", spark_trigger.TOPIC)
        if not theirs:
            return reader.format("rocketmq").option("nameServer", self._namesrv).load()
        reader = reader.format("kafka").option("kafka.bootstrap.servers", self._kafka.address)
        return reader.load().withColumnRenamed("offset", "queueOffset")

    def ticking(self, theirs: bool) -> AbstractContextManager[None]:
        """Messages at the same rate, by each side's own producer."""
        if not theirs:
            return spark_trigger.ticking(self._namesrv)
        rate, size = spark_trigger.RATE, spark_trigger.BODY_BYTES
        return self._kafka.ticking(spark_trigger.TOPIC, rate, size)

    def stream(self, theirs: bool, sink: str) -> Callable[[str], StreamingQuery]:
        """What starts a query, given a directory for its checkpoint."""

        def start(place: str) -> StreamingQuery:
            writer = self._rows(theirs).writeStream.format(sink)
            return writer.option("checkpointLocation", place).start()

        return start


def read(beside: Beside, args: argparse.Namespace) -> None:
    """Print the table of batches."""
    print(f"{args.rows:,} rows of {spark_read.BODY_BYTES:,} B and more, {os.cpu_count()} cores\n")
    print("| columns | rows/s: ours | Kafka | ratio | CPU us a row: ours | Kafka | ratio |")
    print("|---|---|---|---|---|---|---|")
    for name, (mine, yours) in CHOICES.items():
        ours, theirs = beside.batches(mine, yours)
        assert ours.count() == theirs.count() == args.rows
        print(spark_read.compared(name, ours, theirs, args), flush=True)


async def make_small(namesrv: str) -> None:
    """Create the small topics at our broker."""
    async with Admin(namesrv) as admin:
        for number in range(SMALL_TOPICS):
            await admin.create_topic(TopicConfig(f"small-{number}", SMALL_QUEUES, SMALL_QUEUES))


def queries(beside: Beside, args: argparse.Namespace) -> None:
    """Print the table of queries that read little of what there is."""
    print("\n| query | rows | ms: ours | Kafka | ratio | CPU ms: ours | Kafka | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for name, (mine, yours) in FILTERS.items():
        ours, theirs = beside.batches({}, {"includeHeaders": "true"})
        print(query_row(name, ours.where(mine), theirs.where(yours), args), flush=True)
    if args.small:
        beside.fill_small()
        spark_read.drain(beside.small(False))
        once = [(spark_read.drain(beside.small(False)), spark_read.drain(beside.small(True)))]
        name = f"{SMALL_TOPICS * SMALL_QUEUES:,} small queues, once"
        print(f"| {name} | {SMALL_ROWS:,} | {_compared(once, 1e3, ',.0f')} |", flush=True)


def query_row(name: str, ours: DataFrame, theirs: DataFrame, args: argparse.Namespace) -> str:
    """One row: both ways in turns, medians, after some rounds of each to warm up."""
    rows = ours.count()
    assert rows == theirs.count(), name
    rounds = [
        (spark_read.drain(ours), spark_read.drain(theirs)) for _ in range(args.warm + args.rounds)
    ]
    return f"| {name} | {rows:,} | {_compared(rounds[args.warm :], 1e3, ',.0f')} |"


def _compared(
    rounds: Sequence[tuple[tuple[float, float], tuple[float, float]]], scale: float, shape: str
) -> str:
    """Cells of seconds and CPU seconds times `scale`: ours, theirs, ratio (above 1: ours less)."""
    cells = []
    for at in (0, 1):
        mine, yours = (median(each[n][at] for each in rounds) for n in (0, 1))
        cells += [format(mine * scale, shape), format(yours * scale, shape), f"{yours / mine:.2f}"]
    return " | ".join(cells)


def write(beside: Beside, args: argparse.Namespace) -> None:
    """Print the table of the sinks."""
    print("\n| sink | us a row: ours | Kafka | ratio | CPU us a row: ours | Kafka | ratio |")
    print("|---|---|---|---|---|---|---|")
    data = spark_sink.frame(beside.spark, WRITTEN_ROWS).select("body").cache()
    data.count()

    def timed(theirs: bool, guarantee: str) -> tuple[float, float]:
        return spark_read.timed(partial(beside.write, theirs, data, guarantee))

    for guarantee in ("effectively-once", "at-least-once"):
        count = args.warm + args.rounds
        rounds = [(timed(False, guarantee), timed(True, guarantee)) for _ in range(count)]
        cells = _compared(rounds[args.warm :], 1e6 / WRITTEN_ROWS, ".2f")
        print(f"| ours {guarantee}, Kafka at-least-once | {cells} |", flush=True)


def trigger(beside: Beside, args: argparse.Namespace) -> None:
    """Print the table of streams."""
    print("\n" + spark_trigger.HEAD)
    for sink, where in (("looking", "a Python sink"), ("noop", "noop")):
        for theirs in (False, True) * args.turns:
            with (
                beside.ticking(theirs),
                tempfile.TemporaryDirectory(prefix="bench-kafka-") as place,
            ):
                query = beside.stream(theirs, sink)(place)
                cells = spark_trigger.triggers(query, args.seconds, args.warm_s)
            print(f"| {'Kafka' if theirs else 'ours'} into {where} | {cells} |", flush=True)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", type=int, default=6, metavar="ROUNDS")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--warm-s", type=float, default=20.0, help="of each stream")
    parser.add_argument(
        "--small", action="store_true", help="also many small queues: minutes with Kafka"
    )
    parser.add_argument("--turns", type=int, default=2, help="of each stream")
    args = parser.parse_args()
    try:
        jars, theirs = kafka.spark_jars(), kafka.Kafka(num_partitions=SMALL_QUEUES)
    except UnavailableError as missing:
        sys.exit(f"SKIPPED: Kafka cannot be had: {missing}")
    spark = spark_trigger.session(True, [f"spark.jars={','.join(map(str, jars))}"])
    config: dict[str, Any] = {"mappedFileSizeCommitLog": peers.GIB, "defaultTopicQueueNums": 8}
    with EpochCluster(broker_config=config) as ours, theirs:
        print(f"Kafka {kafka.VERSION}, PySpark {spark.version}, its source {kafka.SPARK_VERSION}\n")
        beside = Beside(spark, ours, theirs)
        beside.fill(args.rows)
        read(beside, args)
        queries(beside, args)
        write(beside, args)
        trigger(beside, args)
    spark.stop()


if __name__ == "__main__":
    main()
