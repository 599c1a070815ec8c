"""Rows a second of an archive, by format: `python -m bench.spark_archive [--rows N]`.

Beside it the same job as Spark's users write it: `readStream` of the same topic, `writeStream` to
Spark's own Parquet sink, until now. One session of two tasks, name server and broker on the same
machine; each way once to warm up and then `--times` times in turns. Best and median are printed.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tests.compat.peers.epochmq import EpochCluster

from epochmq.client.aio import Admin, Producer
from epochmq.model.message import Message
from epochmq.model.topic import TopicConfig
from epochmq.spark import tune
from epochmq.spark.jobs.archive import ArchiveOptions, run_archive

TOPIC = "Archived"
QUEUES = 4
BODY_BYTES = 1_000
COMPRESSION = "snappy"
"""Of all ways: the default of Spark's sink."""


async def fill(namesrv: str, rows: int) -> None:
    """Messages of random bytes, so that no compressor gains anything."""
    async with Admin(namesrv) as admin:
        await admin.create_topic(TopicConfig(TOPIC, QUEUES, QUEUES))
    async with Producer(namesrv, "bench") as producer:
        for _ in range(0, rows, 500):
            noise = os.urandom(BODY_BYTES * 500)
            bodies = (noise[at : at + BODY_BYTES] for at in range(0, len(noise), BODY_BYTES))
            await producer.send_batch([Message(TOPIC, body) for body in bodies])


def archive(spark: SparkSession, namesrv: str, format: str, place: Path) -> int:
    options = ArchiveOptions(
        namesrv, (TOPIC,), str(place / "table"), format, compression=COMPRESSION
    )
    return run_archive(options, spark=spark).rows


def plain(spark: SparkSession, namesrv: str, place: Path) -> int:
    """What is in the manual of Spark."""
    source = spark.readStream.format("rocketmq").option("nameServer", namesrv)
    rows = source.option("subscribe", TOPIC).option("startingOffsets", "earliest").load()
    days = rows.selectExpr("*", "to_date(storeTimestamp) AS storeDate")
    query = (
        days.writeStream.format("parquet")
        .option("path", str(place / "table"))
        .option("checkpointLocation", str(place / "checkpoint"))
        .partitionBy("topic", "storeDate")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sum(int(each.numInputRows) for each in query.recentProgress)


def main() -> None:
    """Print a row of a table for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--times", type=int, default=3)
    args = parser.parse_args()
    builder = tune(SparkSession.builder.appName("bench"), master="local[2,4]")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    config: dict[str, Any] = {"mappedFileSizeCommitLog": 1 << 30}
    with EpochCluster(broker_config=config) as cluster:
        asyncio.run(fill(cluster.namesrv_addr, args.rows))
        namesrv = cluster.namesrv_addr
        ways: dict[str, Callable[[Path], int]] = {
            "archive to Delta": lambda place: archive(spark, namesrv, "delta", place),
            "writeStream to Parquet": lambda place: plain(spark, namesrv, place),
            "archive to Iceberg": lambda place: archive(spark, namesrv, "iceberg", place),
            "archive to Parquet": lambda place: archive(spark, namesrv, "parquet", place),
        }
        took: dict[str, list[float]] = {way: [] for way in ways}
        for time_number in range(args.times + 1):
            for way, work in ways.items():
                seconds = timed(work, args.rows)
                if time_number:
                    took[way].append(seconds)
    spark.stop()
    print(f"{args.rows:,} rows of {BODY_BYTES:,} B, {COMPRESSION}, {os.cpu_count()} cores\n")
    print("| way | best rows/s | median rows/s |\n|---|---|---|")
    for way, seconds_each in took.items():
        best, median = min(seconds_each), statistics.median(seconds_each)
        print(f"| {way} | {args.rows / best:,.0f} | {args.rows / median:,.0f} |")


def timed(work: Callable[[Path], int], rows: int) -> float:
    """Seconds that one way takes, into an empty place."""
    with tempfile.TemporaryDirectory(prefix="archive-bench-") as place:
        began = time.perf_counter()
        done = work(Path(place))
        seconds = time.perf_counter() - began
        assert done == rows, f"{done} rows of {rows}"
    return seconds


if __name__ == "__main__":
    main()
