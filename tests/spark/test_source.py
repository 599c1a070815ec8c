"""The batch reader as Spark uses it, without a JVM."""

import pickle

import pytest
from pyspark.sql.datasource import DataSourceReader, EqualTo, InputPartition
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType
from tests.compat.peers.epochmq import EpochCluster
from tests.spark import topics

from epochmq.base.errors import UsageError
from epochmq.spark.options import parse_source
from epochmq.spark.plan import QueueRange
from epochmq.spark.retry import DataLost
from epochmq.spark.source import batch_reader, columns_of, schema

BASE = {"nameServer": "127.0.0.1:9876", "subscribe": "t"}
BODY = StructType([StructField("body", BinaryType())])


def spans(reader: DataSourceReader) -> list[tuple[int, int, int]]:
    found = [span for partition in reader.partitions() for span in partition.value]
    return [(span.queue.queue_id, span.start, span.stop) for span in found]


def test_the_schema_follows_the_options() -> None:
    assert schema({**BASE, "columns": "body,queueOffset"}) == "body binary, queueOffset bigint"
    assert "properties string" in schema({**BASE, "properties": "raw"})
    assert "properties" not in schema({**BASE, "properties": "none"})


def test_a_users_schema_is_checked() -> None:
    options = parse_source(BASE)
    assert columns_of(BODY, options) == ("body",)
    with pytest.raises(UsageError, match="there is no column 'boddy'"):
        columns_of(StructType([StructField("boddy", BinaryType())]), options)
    with pytest.raises(UsageError, match="queueId is int32, the schema says int64"):
        columns_of(StructType([StructField("queueId", LongType())]), options)
    with pytest.raises(UsageError, match="leave NOT NULL out"):
        columns_of(StructType([StructField("body", BinaryType(), False)]), options)
    none = parse_source({**BASE, "properties": "none"})
    with pytest.raises(UsageError, match="option properties is none"):
        columns_of(StructType([StructField("properties", StringType())]), none)


def test_filters_are_taken_unless_switched_off() -> None:
    filters = [EqualTo(("queueId",), 1), EqualTo(("keys",), "a")]
    reader = batch_reader(BASE, BODY)
    assert list(reader.pushFilters(filters)) == filters[1:]
    # What Spark looks at, to fail queries while the session's setting is off.
    assert reader.pushFilters.__func__ is DataSourceReader.pushFilters
    plain = batch_reader({**BASE, "pushdown": "false"}, BODY)
    assert list(plain.pushFilters(filters)) == filters


def test_sparks_empty_partition_has_no_rows() -> None:
    assert list(batch_reader(BASE, BODY).read(InputPartition(None))) == []


@pytest.mark.process
def test_positions_become_tasks(cluster: EpochCluster, topic: str) -> None:
    queues = topics.fill(cluster.namesrv_addr, topic, 20)

    def planned(**given: str) -> list[tuple[int, int, int]]:
        base = {"nameServer": cluster.namesrv_addr, "subscribe": topic}
        return spans(batch_reader({**base, "failoverTimeoutMs": "500", **given}, BODY))

    assert planned() == [(0, 0, 10), (1, 0, 10)]
    table = f'{{"{topic}": {{"0": 4, "1": -2}}}}'
    end = f'{{"{topic}": {{"0": 6, "1": -1}}}}'
    assert planned(startingOffsets=table, endingOffsets=end) == [(0, 4, 6), (1, 0, 10)]
    given = {"nameServer": cluster.namesrv_addr, "subscribe": topic}
    assert len(batch_reader(given, BODY).partitions()) == 1, "two small queues share a task"
    assert planned(minPartitions="4") == [(0, 0, 5), (0, 5, 10), (1, 0, 5), (1, 5, 10)]
    assert planned(endingTimestamp="1") == []
    with pytest.raises(UsageError, match="ends at queue offset 10, the read is to end at 11"):
        planned(endingOffsets=f'{{"{topic}": {{"0": 11}}}}')
    with pytest.raises(UsageError, match="from queue offset 4 back to 2"):
        planned(startingOffsets=table, endingOffsets=f'{{"{topic}": {{"0": 2}}}}')

    given = {"nameServer": cluster.namesrv_addr, "subscribe": topic}
    reader = batch_reader(given, BODY)
    assert list(reader.pushFilters([EqualTo(("queueId",), 1), EqualTo(("queueOffset",), 3)])) == []
    assert spans(reader) == [(1, 3, 4)]
    copy = pickle.loads(pickle.dumps(reader))
    rows = [row for batch in copy.read(reader.partitions()[0]) for row in batch.to_pylist()]
    assert rows == [{"body": b"7"}]

    topics.delete(cluster.namesrv_addr, topic)
    lost = InputPartition((QueueRange(queues[0], 0, 5),))
    with pytest.raises(DataLost, match="the topic is not there any more"):
        list(batch_reader(given, BODY).read(lost))
