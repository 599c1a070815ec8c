"""`format("rocketmq")` written by Spark itself, batch and streaming, with tasks that fail."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr, udf
from tests.compat.peers.epochmq import EpochCluster
from tests.spark.sinking import messages

pytestmark = pytest.mark.process


def rows(spark: SparkSession, count: int) -> DataFrame:
    """Messages 0 to `count` - 1 with all that they can carry, in two partitions."""
    return spark.range(0, count, 1, 2).selectExpr(
        "encode(format_string('%05d', id), 'utf-8') AS body",
        "concat('k', id) AS keys",
        "if(id % 2 = 0, 'even', 'odd') AS tags",
        "map('n', string(id), 'text', 'täxt') AS properties",
        "string(id % 7) AS orderingKey",
    )


def test_a_batch_arrives_whole(spark: SparkSession, cluster: EpochCluster, topic: str) -> None:
    given = {"nameServer": cluster.namesrv_addr}
    writer = rows(spark, 3_000).write.format("rocketmq").options(**given, topic=topic)
    writer.mode("append").save()
    found = messages(cluster.namesrv_addr, topic)
    assert sorted(m.body for m in found) == [b"%05d" % n for n in range(3_000)]
    for message in found:
        number = int(message.body)
        assert message.keys == (f"k{number}",)
        assert message.tags == ("odd" if number % 2 else "even")
        assert message.properties["n"] == str(number)
        assert message.properties["text"] == "täxt"
    for key in range(7):
        of_key = [m for m in found if int(m.body) % 7 == key]
        assert len({m.queue_id for m in of_key}) == 1

    copy = spark.read.format("rocketmq").options(**given, subscribe=topic).load()
    assert copy.count() == 3_000
    writer = copy.drop("topic").write.format("rocketmq").options(**given, topic=f"{topic}_2")
    writer.mode("append").save()
    again = messages(cluster.namesrv_addr, f"{topic}_2")
    assert {(m.body, m.keys, m.tags, m.properties["n"], m.queue_id) for m in again} == {
        (m.body, m.keys, m.tags, m.properties["n"], m.queue_id) for m in found
    }


def test_what_cannot_be_written_is_said(spark: SparkSession, cluster: EpochCluster) -> None:
    given = {"nameServer": cluster.namesrv_addr, "topic": "T"}

    def said(frame: DataFrame, mode: str = "append", **more: str) -> str:
        with pytest.raises(Exception) as caught:
            frame.write.format("rocketmq").options(**given, **more).mode(mode).save()
        return str(caught.value)

    frame = spark.range(1).selectExpr("string(id) AS body")
    assert "did you mean 'body'" in said(frame.withColumnRenamed("body", "bodi"))
    assert "cannot be overwritten" in said(frame, mode="overwrite")
    assert "did you mean 'batchSize'" in said(frame, batchSise="7")
    wide = spark.range(1).selectExpr("'abc' AS body")
    assert "has a body of 3 bytes, over maxMessageBytes = 2" in said(wide, maxMessageBytes="2")


def fail_once(at: int) -> Any:
    """A column that fails at row `at` of every task, the first time it is tried."""
    seen: dict[int, int] = {}

    def check(body: bytes) -> bytes:
        context = TaskContext.get()
        assert context is not None
        seen[context.taskAttemptId()] = number = seen.get(context.taskAttemptId(), 0) + 1
        if number == at and context.attemptNumber() == 0:
            raise RuntimeError("the first try fails here")
        return body

    return udf(check, "binary", useArrow=False)


def written(
    spark: SparkSession, source: str, topic: str, given: dict[str, str], files: int = 1
) -> str:
    """Stream the two files of `source`, each task failing once; the query's id."""
    schema = "body binary, keys string, tags string, orderingKey string"
    read = spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(source)
    frame = read.withColumn("body", fail_once(1_400)("body"))
    query = (
        frame.writeStream.format("rocketmq")
        .options(topic=topic, bufferBytes="250k", batchBytes="25k", **given)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return str(query.id)


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    """The sink gets 500 rows at a time."""
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(key)
    spark.conf.set(key, 500)
    yield
    spark.conf.set(key, before)


@pytest.mark.usefixtures("small_batches")
def test_streams_whose_tasks_fail(
    spark: SparkSession, cluster: EpochCluster, topic: str, tmp_path: Path
) -> None:
    """Rows are large enough that the sink must have sent some when the first try fails.

    It asks for the second batch of Arrow's when less than its buffer is left of the first.
    """
    source = str(tmp_path / "in")
    wanted = [b"%05d" % n for n in range(3_000)]
    frame = rows(spark, len(wanted)).drop("properties")
    frame.withColumn("body", expr("rpad(body, 1000, binary('.'))")).write.parquet(source)
    given = {"nameServer": cluster.namesrv_addr, "checkpointLocation": str(tmp_path / "1")}
    query = written(spark, source, topic, given)
    found = messages(cluster.namesrv_addr, topic)
    assert sorted(m.body[:5] for m in found) == wanted
    assert {m.properties["__SINK_ID"].partition("@")[0] for m in found} == {query}
    assert {m.properties["__SINK_BATCH"] for m in found} == {"0", "1"}

    given["checkpointLocation"] = str(tmp_path / "2")
    written(spark, source, f"{topic}_2", {**given, "guarantee": "at-least-once"}, files=2)
    found = messages(cluster.namesrv_addr, f"{topic}_2")
    assert {m.body[:5] for m in found} == set(wanted)
    assert len(found) > len(wanted)  # so the first tries did send
    assert len({m.uniq_key for m in found}) == len(wanted)
