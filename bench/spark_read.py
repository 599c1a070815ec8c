"""Rows a second that Spark reads: from a broker, and the same rows as uncompressed Parquet.

`python -m bench.spark_read [--rows N]`. One session of two tasks, name server and broker on the
same machine and cores; all columns go to Spark's `noop` sink, so that nothing is pruned. Each
choice of columns is its own Parquet; the two take turns, and the ratio is that of medians. CPU is
that of everything: Spark, its workers and the broker; it says more than the rates where the machine
has other work. What a query takes before its first row is in it, so few rows say little; and Java
compiles for a while.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from tests.compat.peers.epochmq import EpochCluster

from bench import peers
from epochmq.client.aio import Admin, Producer
from epochmq.model.message import Message
from epochmq.model.topic import TopicConfig
from epochmq.spark import tune

TOPIC = "Read"
QUEUES = 4
BODY_BYTES = 1_000
BATCH = 500

CHOICES: dict[str, dict[str, str]] = {
    "all columns, properties as a map": {},
    "all columns, properties as text": {"properties": "raw"},
    "all but the map": {"properties": "none"},
    "topic, queueId, queueOffset, storeTimestamp, body": {
        "columns": "topic,queueId,queueOffset,storeTimestamp,body"
    },
}


async def fill(namesrv: str, rows: int) -> None:
    """Messages of random bytes with a tag and a key each."""
    async with Admin(namesrv) as admin:
        await admin.create_topic(TopicConfig(TOPIC, QUEUES, QUEUES))
    async with Producer(namesrv, "bench") as producer:
        for first in range(0, rows, BATCH):
            noise = os.urandom(BODY_BYTES * BATCH)
            await producer.send_batch(
                [
                    Message(
                        TOPIC,
                        noise[n * BODY_BYTES : (n + 1) * BODY_BYTES],
                        tags=f"tag{n % 8}",
                        keys=(f"order-{first + n}",),
                    )
                    for n in range(BATCH)
                ]
            )


def source(spark: SparkSession, namesrv: str, options: dict[str, str]) -> DataFrame:
    reader = spark.read.format("rocketmq").option("nameServer", namesrv)
    return reader.option("subscribe", TOPIC).options(**options).load()


def drain(rows: DataFrame) -> tuple[float, float]:
    """Seconds to read all rows and columns, and of CPU."""
    return timed(rows.write.format("noop").mode("overwrite").save)


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds that `work` takes, and of CPU; a process that ended is left out."""
    before, began = cpu_of_all(), time.perf_counter()
    work()
    seconds, after = time.perf_counter() - began, cpu_of_all()
    return seconds, sum(cpu - before.get(pid, 0.0) for pid, cpu in after.items())


def cpu_of_all() -> dict[int, float]:
    """CPU seconds of this process and all that it started, by process."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            pid = int(stat.parent.name)
            parents[pid], ticks[pid] = int(fields[1]), int(fields[11]) + int(fields[12])
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return {pid: ticks[pid] / os.sysconf("SC_CLK_TCK") for pid in ours}


def main() -> None:
    """Print a row of a table for each choice of columns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", type=int, default=8, metavar="ROUNDS")
    parser.add_argument("--choices", type=int, default=len(CHOICES), help="only the first ones")
    args = parser.parse_args()
    builder = tune(SparkSession.builder.appName("bench"), master="local[2,4]")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    config: dict[str, Any] = {"mappedFileSizeCommitLog": peers.GIB}
    print(f"{args.rows:,} rows of {BODY_BYTES:,} B and more, {os.cpu_count()} cores\n")
    print("| columns | rows/s: broker | Parquet | ratio | CPU us a row: broker | Parquet | ratio |")
    print("|---|---|---|---|---|---|---|")
    with EpochCluster(broker_config=config) as cluster, tempfile.TemporaryDirectory() as place:
        asyncio.run(fill(cluster.namesrv_addr, args.rows))
        for number, (name, options) in enumerate(list(CHOICES.items())[: args.choices]):
            ours = source(spark, cluster.namesrv_addr, options)
            files = Path(place) / str(number)
            ours.write.option("compression", "uncompressed").parquet(str(files))
            theirs = spark.read.parquet(str(files))
            assert theirs.count() == args.rows
            print(compared(name, ours, theirs, args), flush=True)
    spark.stop()


def compared(name: str, ours: DataFrame, theirs: DataFrame, args: argparse.Namespace) -> str:
    """One row: both ways in turns, after some rounds of each to warm up."""
    rounds = [(drain(ours), drain(theirs)) for _ in range(args.warm + args.rounds)][args.warm :]
    cells = []
    for at, scale in ((0, args.rows), (1, 1e6 / args.rows)):
        broker, parquet = (statistics.median(each[n][at] for each in rounds) for n in (0, 1))
        if at == 0:
            cells += [f"{scale / broker:,.0f}", f"{scale / parquet:,.0f}"]
        else:
            cells += [f"{scale * broker:.2f}", f"{scale * parquet:.2f}"]
        cells.append(f"{parquet / broker:.2f}")
    return f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
