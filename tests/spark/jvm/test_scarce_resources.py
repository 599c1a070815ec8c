"""Skewed queues and full checkpoint disks: errors that say what to do, and nothing lost."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.small_disk import mounted
from tests.spark import topics
from tests.spark.jvm.streams import EVERY, copying

from epochmq.client.sync import Producer
from epochmq.model.message import Message

SKEWED = 4_000


def bodies(spark: SparkSession, namesrv: str, topic: str) -> Counter[bytes]:
    """How often each body is in a topic."""
    reader = spark.read.format("rocketmq").options(nameServer=namesrv, subscribe=topic)
    return Counter(bytes(row.body) for row in reader.load().select("body").collect())


def test_one_queue_with_everything_is_shared_by_the_tasks(
    spark: SparkSession, cluster: EpochCluster, topic: str
) -> None:
    """Seven of eight queues are empty; the tasks of a batch still have equal parts."""
    namesrv = cluster.namesrv_addr
    queues = topics.create(namesrv, topic, 8)
    with Producer(namesrv, "skewed") as producer:
        for first in range(0, SKEWED, 200):
            batch = [Message(topic, b"%d" % n) for n in range(first, first + 200)]
            producer.send_batch(batch, queue=queues[3])
    reader = spark.read.format("rocketmq").options(nameServer=namesrv, subscribe=topic)
    rows = reader.option("minPartitions", "5").load()
    shares = rows.selectExpr("spark_partition_id() AS task", "body").groupBy("task").count()
    assert [row["count"] for row in shares.collect()] == [SKEWED // 5] * 5
    limited = reader.option("maxRecordsPerPartition", "300").load()
    assert limited.rdd.getNumPartitions() == -(-SKEWED // 300)
    assert bodies(spark, namesrv, topic) == Counter(b"%d" % n for n in range(SKEWED))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB, for checkpoints."""
    with mounted(tmp_path / "disk", 8) as mount:
        yield mount


def fill(place: Path) -> None:
    """Write until nothing fits."""
    with (place / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(os.urandom(4096))
        except OSError:
            return


def test_a_stream_goes_on_after_its_checkpoint_disk_was_full(
    spark: SparkSession, cluster: EpochCluster, topic: str, small_disk: Path
) -> None:
    namesrv, target = cluster.namesrv_addr, f"{topic}Copy"
    topics.fill(namesrv, topic, 20)
    topics.create(namesrv, target)
    stream = copying(spark, namesrv, topic, target, str(small_disk / "checkpoint"))
    query = stream.trigger(processingTime=EVERY).start()
    try:
        query.processAllAvailable()
        assert len(bodies(spark, namesrv, target)) == 20
        fill(small_disk)
        queues = topics.create(namesrv, topic)
        topics.send(namesrv, [(queues[n % 2], topics.numbered(topic, n)) for n in range(20, 40)])
        with pytest.raises(StreamingQueryException, match="No space left on device"):
            query.awaitTermination(120)
    finally:
        query.stop()
    (small_disk / "ballast").unlink()
    stream = copying(spark, namesrv, topic, target, str(small_disk / "checkpoint"))
    stream.trigger(availableNow=True).start().awaitTermination(120)
    assert bodies(spark, namesrv, target) == Counter(b"%d" % n for n in range(40))
