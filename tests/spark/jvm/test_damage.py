"""Damage in a broker's log: one clear error of Spark's that names the range, and nothing passed on.

The broker refuses what does not fit its checksum until it is repaired; what a broker hands out all
the same, as RocketMQ's does, is in tests/spark/test_rows.py."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.process import wait_until
from tests.spark import topics

from epochmq.client.aio import Admin
from epochmq.model import record
from epochmq.model.message import Message
from epochmq.spark.jobs.archive import ArchiveOptions, run_archive
from epochmq.spark.jobs.framework import explain, translated
from epochmq.store.checksums import FOLDER
from epochmq.store.written_blocks import BLOCK_BYTES
from epochmq.tables.opening import arrow_dataset, open_table

ENTRY_BYTES = 12
"""Covered bytes, checksum, and a checksum of both and the place (store/checksums.py)."""

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]


@pytest.fixture
def cluster() -> Iterator[EpochCluster]:
    """A cluster of this module's own: its log is damaged for good, and short, so that the search
    for damage comes by soon (`scrubBytesPerSecond`)."""
    with EpochCluster() as running:
        yield running


def has_checksum(log: Path, offset: int) -> bool:
    """Whether the whole block of `offset` has an entry in the file of checksums."""
    entries = log.parent.parent / FOLDER / log.name
    data = entries.read_bytes() if entries.exists() else b""
    covered = data[(offset - int(log.name)) // BLOCK_BYTES * ENTRY_BYTES :][:4]
    return int.from_bytes(covered, "big") == BLOCK_BYTES


def finds_damage(cluster: EpochCluster) -> bool:
    """Whether the broker knows of damage in its log."""

    async def ask() -> dict[str, str]:
        async with Admin(cluster.namesrv_addr) as admin:
            return await admin.runtime_info(cluster.broker_addr)

    return asyncio.run(ask())["epochmqDamageWaiting"] != "0"


def test_queries_and_archives_say_where_and_pass_nothing_on(
    spark: SparkSession, cluster: EpochCluster, topic: str, tmp_path: Path
) -> None:
    namesrv = cluster.namesrv_addr
    queue, _ = topics.fill(namesrv, topic, 40)
    padding = [{"pad": Random(n).randbytes(4_000).hex()} for n in range(20)]
    later = [Message(topic, b"%d" % n, properties=pad) for n, pad in enumerate(padding, 100)]
    topics.send(namesrv, [(queue, message) for message in later])
    given = {"nameServer": namesrv, "subscribe": topic, "startingOffsets": "earliest"}
    found = spark.read.format("rocketmq").options(**given).load()
    places = {int(row.body): row.commitLogOffset for row in found.collect()}
    at = places[14]
    log = max(file for file in (cluster.store / "commitlog").iterdir() if int(file.name) <= at)
    # Damage before the block has a checksum would be covered by it, and never found.
    wait_until(lambda: has_checksum(log, at), 60, "the broker gives the block a checksum")
    with log.open("r+b") as file:
        file.seek(at - int(log.name) + record.MAGIC_AT)
        file.write(bytes(4))
    # What a broker wrote itself it believes until its search for damage comes by.
    wait_until(lambda: finds_damage(cluster), 60, "the broker's search finds the damage")

    def stream(name: str, **more: str) -> DataFrame:
        read = spark.readStream.format("rocketmq").options(**given, **more).load()
        writer = read.selectExpr("int(string(body)) AS n").writeStream.format("memory")
        writer = writer.queryName(name).option("checkpointLocation", str(tmp_path / name))
        assert writer.trigger(availableNow=True).start().awaitTermination(90)
        return spark.table(name)

    with pytest.raises(Exception, match="is damaged") as raised:
        stream("strict")
    said = str(explain(raised.value))
    assert said.startswith("the log is damaged from offset "), said
    assert "\n" not in said
    low = at - at % BLOCK_BYTES
    outside = {n for n, place in places.items() if not low <= place < low + BLOCK_BYTES}
    reaches_in = max(outside, key=lambda n: (places[n] < low, places[n]))
    rows = [
        row.n
        for row in stream("forgiving", failOnDataLoss="false", failoverTimeoutMs="4s").collect()
    ]
    assert len(rows) == len(set(rows)) >= 10
    assert outside - {reaches_in} <= set(rows) <= outside

    table = str(tmp_path / "table")
    options = ArchiveOptions(namesrv, (topic,), table, "delta")
    with pytest.raises(Exception, match="the log is damaged from offset") as raised, translated():
        run_archive(options, spark=spark)
    assert "\n" not in str(raised.value)
    assert arrow_dataset(open_table(table)).count_rows() == 0
