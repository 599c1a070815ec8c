"""Spark on our broker and on Apache Kafka, side by side: `python -m bench.spark_kafka`.

One session with Spark's own Kafka source beside ours, one Kafka node and one of our brokers, all
on the same machine and cores. The rows of our topic are copied into Kafka's by Spark, keys, bodies,
properties (as headers) and queues (as partitions), so that both hold the same. Batches: everything
into Spark's `noop` sink, in turns, medians, as `bench.spark_read` does it. Streams: 1,000 messages
of 1 KiB a second into two queues, triggers as `bench.spark_trigger` takes them, in turns. Without
Kafka's jars (Maven Central) there is nothing to compare and it says so.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.compat.peers import kafka
from tests.compat.peers.cache import UnavailableError
from tests.compat.peers.epochmq import EpochCluster

from bench import peers, spark_read, spark_trigger

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


class Beside:
    """Both, with the topics of batches (`spark_read.TOPIC`) and streams (`spark_trigger.TOPIC`)."""

    def __init__(self, spark: SparkSession, ours: EpochCluster, theirs: kafka.Kafka) -> None:
        self._spark = spark
        self._namesrv = ours.namesrv_addr
        self._kafka = theirs

    def fill(self, rows: int) -> None:
        """The same rows on both sides."""
        asyncio.run(spark_read.fill(self._namesrv, rows))
        asyncio.run(spark_trigger.make_topics(self._namesrv))
        self._kafka.create_topic(spark_read.TOPIC, spark_read.QUEUES)
        self._kafka.create_topic(spark_trigger.TOPIC, spark_trigger.QUEUES)
        copy = spark_read.source(self._spark, self._namesrv, {}).selectExpr(
            "keys AS key", "body AS value", "queueId AS partition", f"{HEADERS} AS headers"
        )
        writer = copy.write.format("kafka").option("topic", spark_read.TOPIC)
        writer.option("kafka.bootstrap.servers", self._kafka.address).save()

    def batches(self, ours: dict[str, str], theirs: dict[str, str]) -> tuple[DataFrame, DataFrame]:
        """One choice of columns, here and there."""
        reader = self._spark.read.format("kafka").options(**theirs)
        reader = reader.option("kafka.bootstrap.servers", self._kafka.address)
        mine = spark_read.source(self._spark, self._namesrv, ours)
        return mine, reader.option("subscribe", spark_read.TOPIC).load()

    def _rows(self, theirs: bool) -> DataFrame:
        reader = self._spark.readStream.option("subscribe", spark_trigger.TOPIC)
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
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", type=int, default=6, metavar="ROUNDS")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--warm-s", type=float, default=20.0, help="of each stream")
    parser.add_argument("--turns", type=int, default=2, help="of each stream")
    args = parser.parse_args()
    try:
        jars, theirs = kafka.spark_jars(), kafka.Kafka()
    except UnavailableError as missing:
        sys.exit(f"SKIPPED: Kafka cannot be had: {missing}")
    spark = spark_trigger.session(True, [f"spark.jars={','.join(map(str, jars))}"])
    config: dict[str, Any] = {"mappedFileSizeCommitLog": peers.GIB}
    with EpochCluster(broker_config=config) as ours, theirs:
        print(f"Kafka {kafka.VERSION}, PySpark {spark.version}, its source {kafka.SPARK_VERSION}\n")
        beside = Beside(spark, ours, theirs)
        beside.fill(args.rows)
        read(beside, args)
        trigger(beside, args)
    spark.stop()


if __name__ == "__main__":
    main()
