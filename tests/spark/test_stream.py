"""The streaming reader as Spark's runner uses it, without a JVM."""

import inspect
import pickle

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from pyspark.sql.types import BinaryType, StructField, StructType
from tests.compat.peers.epochmq import EpochCluster
from tests.spark import topics

from epochmq.base.errors import UsageError
from epochmq.spark.options import parse_source
from epochmq.spark.stream import StreamReader, limits_of, stream_reader
from epochmq.spark.stream_plan import Limits

BODY = StructType([StructField("body", BinaryType())])
BASE = {"nameServer": "127.0.0.1:9876", "subscribe": "t"}


def reader(**given: str) -> StreamReader:
    made = stream_reader({**BASE, **given}, BODY)
    assert isinstance(made, StreamReader)
    return made


def test_spark_sees_that_limits_are_heeded() -> None:
    """It looks at the signature."""
    assert len(inspect.signature(reader().latestOffset).parameters) == 2


def test_the_limit_that_spark_is_told() -> None:
    assert reader().getDefaultReadLimit() == ReadAllAvailable()
    assert reader(maxBytesPerTrigger="1m").getDefaultReadLimit() == ReadMaxBytes(1 << 20)
    both = reader(maxBytesPerTrigger="1m", maxOffsetsPerTrigger="5")
    assert both.getDefaultReadLimit() == ReadMaxRows(5)
    options = parse_source({**BASE, "maxBytesPerTrigger": "7"})
    assert limits_of(ReadMaxRows(5), options) == Limits(5, 7)
    assert limits_of(ReadMaxBytes(7), options) == Limits(None, 7)
    assert limits_of(ReadAllAvailable(), options) == Limits(), "trigger(once=True) reads all"


def test_a_stream_takes_no_end() -> None:
    with pytest.raises(UsageError, match="is for batch reads"):
        reader(endingOffsets="latest")


def test_nothing_is_connected_before_it_is_used() -> None:
    made = reader()
    made.stop()
    assert pickle.loads(pickle.dumps(made)).names == ("body",)
    assert list(made.read(InputPartition(None))) == []


@pytest.mark.process
def test_a_stream_from_begin_to_end(cluster: EpochCluster, topic: str) -> None:
    topics.fill(cluster.namesrv_addr, topic, 10)
    made = reader(nameServer=cluster.namesrv_addr, subscribe=topic, startingOffsets="earliest")
    made.prepareForTriggerAvailableNow()
    start = made.initialOffset()
    end = made.latestOffset(start, made.getDefaultReadLimit())
    copy = pickle.loads(pickle.dumps(reader(nameServer=cluster.namesrv_addr, subscribe=topic)))
    partitions = made.partitions(start, end)
    found = [row["body"] for p in partitions for b in copy.read(p) for row in b.to_pylist()]
    assert sorted(map(int, found)) == list(range(10))
    made.commit(end)
    assert made.reportLatestOffset() is not None
    made.stop()
