"""Spark's sink on RocketMQ's own broker, which remembers no sinks: at least once, with stable ids.

The writers that Spark calls are called directly; what arrived is read by the suite's own decoder.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, IntegerType, MapType, StringType, StructField, StructType

from epochmq.spark.spark_sink import BATCH_ID, QUERY_ID, stream_writer

from .conftest import QUICK_LEVELS, had
from .peers import admin
from .peers.cluster import Cluster
from .peers.java import JavaCluster
from .peers.process import wait_until
from .peers.records import Record, read_topic

COUNT, KEYS, DELAYED = 600, 7, 5
LARGE = b"large " * 20_000
SCHEMA = StructType(
    [
        StructField("body", BinaryType()),
        StructField("keys", StringType()),
        StructField("tags", StringType()),
        StructField("properties", MapType(StringType(), StringType())),
        StructField("orderingKey", StringType()),
        StructField("delayTimeLevel", IntegerType()),
    ]
)


@pytest.fixture(scope="module")
def java() -> Iterator[Cluster]:
    peer = had(lambda: JavaCluster(broker_config={"messageDelayLevel": QUICK_LEVELS}))
    with peer as running:
        yield running


@pytest.fixture
def task() -> Iterator[TaskContext]:
    """A task of batch 5 of query "q", partition 2, as a worker process has it."""
    TaskContext._setTaskContext(None)
    context = TaskContext._getOrCreate()
    context._partitionId = 2
    context._localProperties = {QUERY_ID: "q", BATCH_ID: "5"}
    yield context
    TaskContext._setTaskContext(None)


def rows() -> list[pa.RecordBatch]:
    """COUNT messages with all that they can carry, the last DELAYED of them for later."""
    numbers = range(COUNT)
    table = pa.table(
        {
            "body": [LARGE if n == 11 else b"%05d" % n for n in numbers],
            "keys": [f"k{n}" for n in numbers],
            "tags": ["odd" if n % 2 else "even" for n in numbers],
            "properties": pa.array(
                [[("n", str(n)), ("note", "snow 雪")] for n in numbers],
                pa.map_(pa.string(), pa.string()),
            ),
            "orderingKey": [f"o{n % KEYS}" for n in numbers],
            "delayTimeLevel": pa.array([int(n >= COUNT - DELAYED) for n in numbers], pa.int32()),
        }
    )
    batches: list[pa.RecordBatch] = table.to_batches(max_chunksize=50)
    return batches


def arrived(java: Cluster, topic: str, count: int) -> list[Record]:
    wait_until(lambda: len(read_topic(java.broker_addr, topic)) >= count, 30, "all rows")
    return read_topic(java.broker_addr, topic)


@pytest.mark.parametrize("guarantee", ["effectively-once", "at-least-once"])
def test_every_row_arrives_whole_and_a_repeat_has_its_id(
    java: Cluster, task: TaskContext, guarantee: str
) -> None:
    topic = admin.create_topic(java.broker_addr, f"Sunk_{guarantee}")
    given = {"nameServer": java.namesrv_addr, "topic": topic, "guarantee": guarantee}
    began = time.time()
    written = stream_writer(given, SCHEMA, False).write(iter(rows()))
    assert written.rows == COUNT
    stored = arrived(java, topic, COUNT)
    by_number = {int(record.properties["n"]): record for record in stored}
    assert by_number.keys() == set(range(COUNT))
    assert len(stored) == COUNT
    for n, record in by_number.items():
        assert record.body == (LARGE if n == 11 else b"%05d" % n)
        assert record.properties["KEYS"] == f"k{n}"
        assert record.properties["TAGS"] == ("odd" if n % 2 else "even")
        assert record.properties["note"] == "snow 雪"
    of_key = defaultdict(list)
    for record in stored:
        n = int(record.properties["n"])
        if n < COUNT - DELAYED:  # those come when they are due
            of_key[n % KEYS].append((record.queue, n))
    for places in of_key.values():
        assert len({queue for queue, _ in places}) == 1
        assert places == sorted(places)
    assert time.time() - began >= 1  # the delay of level 1

    stream_writer(given, SCHEMA, False).write(iter(rows()))  # the task failed and runs again
    again = arrived(java, topic, 2 * COUNT)
    assert Counter(record.properties["UNIQ_KEY"] for record in again) == Counter(
        {record.properties["UNIQ_KEY"]: 2 for record in stored}
    )
