"""The writers that Spark calls, called directly: whose rows they write, and that they do."""

import pickle
from collections.abc import Iterator

import pytest
from pyspark import TaskContext
from pyspark.sql.types import (
    BinaryType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)
from tests.compat.peers.epochmq import EpochCluster
from tests.spark.sinking import batches, bodies, messages

from epochmq.base.errors import UsageError
from epochmq.spark.sink_options import parse_sink
from epochmq.spark.sink_queues import PartitionId
from epochmq.spark.spark_sink import (
    BATCH_ID,
    QUERY_ID,
    BatchWriter,
    SinkCommit,
    StreamWriter,
    batch_writer,
    stream_identity,
    stream_writer,
)

SCHEMA = StructType([StructField("body", BinaryType())])
DELAYED = StructType([*SCHEMA, StructField("deliverTime", TimestampType())])
GIVEN = {"nameServer": "127.0.0.1:9876", "topic": "T"}


@pytest.fixture
def task() -> Iterator[TaskContext]:
    """A task of batch 5 of query "q", partition 2, as a worker process has it."""
    TaskContext._setTaskContext(None)
    context = TaskContext._getOrCreate()
    context._partitionId = 2
    context._localProperties = {QUERY_ID: "q", BATCH_ID: "5"}
    yield context
    TaskContext._setTaskContext(None)


def test_a_stream_has_the_ids_of_its_query(task: TaskContext) -> None:
    assert stream_identity(parse_sink(GIVEN), task) == PartitionId("q", 5, 2)
    assert stream_identity(parse_sink({**GIVEN, "sinkId": "s"}), task) == PartitionId("s.q", 5, 2)


def test_without_a_query_both_ids_must_be_given() -> None:
    with pytest.raises(UsageError, match="'sinkId' and 'batchId'"):
        stream_identity(parse_sink({**GIVEN, "sinkId": "s"}), None)
    options = parse_sink({**GIVEN, "sinkId": "s", "batchId": "3"})
    assert stream_identity(options, None) == PartitionId("s", 3, 0)


def test_a_batch_write_is_a_sink_of_its_own() -> None:
    first, second = (batch_writer(GIVEN, SCHEMA, False) for _ in range(2))
    assert isinstance(first, BatchWriter)
    assert first.options.sink_id.startswith("batch-")
    assert first.options.sink_id != second.options.sink_id
    assert pickle.loads(pickle.dumps(first)).options == first.options


@pytest.mark.parametrize(
    ("more", "schema", "overwrite", "why"),
    [
        ({}, SCHEMA, True, r"cannot be overwritten; write with mode\('append'\)"),
        ({"sinkId": "s"}, SCHEMA, False, "'sinkId' of a batch write needs a 'batchId'"),
        ({}, StructType([StructField("bodi", StringType())]), False, "did you mean 'body'"),
        ({"topik": "x"}, SCHEMA, False, "did you mean 'topic'"),
    ],
)
def test_what_cannot_be_written_is_said_at_once(
    more: dict[str, str], schema: StructType, overwrite: bool, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        batch_writer({**GIVEN, **more}, schema, overwrite)


def test_a_stream_needs_no_batch_id() -> None:
    assert isinstance(stream_writer({**GIVEN, "sinkId": "s"}, DELAYED, False), StreamWriter)


def test_a_batch_is_written(cluster: EpochCluster, topic: str, task: TaskContext) -> None:
    given = {"nameServer": cluster.namesrv_addr, "topic": topic}
    writer = batch_writer(given, SCHEMA, False)
    written = writer.write(iter(batches({"body": [b"1", b"2", b"3"]})))
    assert written == SinkCommit(2, 3, 3, 1)
    writer.commit([pickle.loads(pickle.dumps(written)), None])
    writer.abort([written, None])
    assert bodies(cluster.namesrv_addr, topic) == [b"1", b"2", b"3"]


def test_a_stream_is_written(cluster: EpochCluster, topic: str, task: TaskContext) -> None:
    given = {"nameServer": cluster.namesrv_addr, "topic": topic}
    writer = stream_writer(given, SCHEMA, False)
    for batch in ("5", "6"):
        task._localProperties = {QUERY_ID: "q", BATCH_ID: batch}
        written = writer.write(iter(batches({"body": [b"a", b"b"]})))
        writer.commit([written], int(batch))
    writer.abort([None], 7)
    assert bodies(cluster.namesrv_addr, topic) == [b"a", b"a", b"b", b"b"]
    found = {
        (m.properties["__SINK_BATCH"], m.properties["__SINK_SEQ"])
        for m in messages(cluster.namesrv_addr, topic)
    }
    assert sorted(batch for batch, _ in found) == ["5", "5", "6", "6"]
