"""Rows a second that Spark writes to one broker: `python -m bench.spark_sink [--rows N]`.

Rows of 1 KiB that lie in memory, two tasks, name server and broker on the same machine.
"""

import argparse
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from tests.compat.peers.epochmq import EpochCluster

from epochmq.spark import tune

_WAYS: dict[str, dict[str, str]] = {
    "batches": {},
    "batches, at least once": {"guarantee": "at-least-once"},
    "batches, by key": {"key": "true"},
    "singly": {"batchSize": "1"},
}


def main() -> None:
    """Print a row of a table for each way of writing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    args = parser.parse_args()
    builder = tune(SparkSession.builder.appName("bench"), master="local[2]")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    config: dict[str, Any] = {"defaultTopicQueueNums": 8, "mappedFileSizeCommitLog": 1 << 30}
    print("| way | rows/s | MB/s | broker CPU us a row |\n|---|---|---|---|")
    with EpochCluster(broker_config=config) as cluster:
        write(cluster, frame(spark, 2_000), "Warm", {})
        for number, (way, options) in enumerate(_WAYS.items()):
            rows = args.rows // 5 if way == "singly" else args.rows
            data = frame(spark, rows).cache()
            data.count()
            if options.pop("key", None):
                data = data.withColumn("orderingKey", data.id % 1_000)
            cpu_s, began = cluster.broker.cpu_seconds(), time.perf_counter()
            write(cluster, data.drop("id"), f"Way{number}", options)
            took_s, cpu_s = time.perf_counter() - began, cluster.broker.cpu_seconds() - cpu_s
            rate = rows / took_s
            print(f"| {way} | {rate:,.0f} | {rate * 1_024 / 1e6:.0f} | {cpu_s / rows * 1e6:.1f} |")
    spark.stop()


def frame(spark: SparkSession, rows: int) -> DataFrame:
    """Rows of 1 KiB that do not compress to nothing."""
    body = "encode(rpad(string(id), 1024, sha2(string(id), 512)), 'utf-8') AS body"
    return spark.range(0, rows, 1, 2).selectExpr("id", body)


def write(cluster: EpochCluster, data: DataFrame, topic: str, options: dict[str, str]) -> None:
    writer = data.select(*(name for name in data.columns if name != "id")).write
    writer = writer.format("rocketmq").options(nameServer=cluster.namesrv_addr, topic=topic)
    writer.options(**options).mode("append").save()


if __name__ == "__main__":
    main()
