"""Typed columns of `format("rocketmq")` in Spark itself: SQL, streams, schemas of a registry."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.compat.peers.epochmq import EpochCluster
from tests.spark import topics
from tests.spark.registry_server import registry_server
from tests.spark.typed_bodies import NEW, OLD, avro, send

from epochmq.model.message import Message

pytestmark = pytest.mark.process


def test_json_in_sql_and_as_a_stream(
    spark: SparkSession, cluster: EpochCluster, topic: str, checkpoint: str, tmp_path: Path
) -> None:
    first, second = topics.create(cluster.namesrv_addr, topic)
    flights = [(first if n % 2 else second, {"carrier": "UA", "delay": n / 2}) for n in range(20)]
    flights[7:8] = [(first, {"carrier": "größe"})]
    messages = [
        (queue, Message(topic, json.dumps(body, ensure_ascii=False).encode()))
        for queue, body in flights
    ]
    topics.send(cluster.namesrv_addr, messages)
    options = {
        "nameServer": cluster.namesrv_addr,
        "subscribe": topic,
        "typed": "json",
        "typed.schema": "carrier string, delay double",
    }
    rows = spark.read.format("rocketmq").options(**options).load()
    assert rows.columns[-2:] == ["carrier", "delay"]
    rows.createOrReplaceTempView(topic)
    found = spark.sql(f"SELECT carrier, count(*), sum(delay) FROM {topic} GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in found.collect()] == [("UA", 19, 91.5), ("größe", 1, None)]
    narrow = rows.where("delay >= 9").select("queueOffset", "delay").orderBy("delay")
    assert [tuple(row) for row in narrow.collect()] == [(9, 9.0), (9, 9.5)]

    table = str(tmp_path / "table")
    stream = spark.readStream.format("rocketmq").schema("delay double, queueId int")
    stream = stream.options(**options, startingOffsets="earliest").load()
    writer = stream.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query = writer.format("parquet").start(table)
    assert query.awaitTermination(60)
    assert spark.read.parquet(table).where("delay IS NOT NULL").count() == 19

    topics.send(cluster.namesrv_addr, [(first, Message(topic, b"{"))])
    with pytest.raises(Exception, match="queue offset 10 does not fit the schema: no JSON"):
        spark.read.format("rocketmq").options(**options).load().count()
    options |= {"typed.errors": "column", "columns": "typedError,delay"}
    rows = spark.read.format("rocketmq").options(**options).load()
    assert [row.delay for row in rows.where("typedError IS NOT NULL").collect()] == [None]


def test_avro_by_the_schemas_of_a_registry(
    spark: SparkSession, cluster: EpochCluster, topic: str
) -> None:
    with registry_server() as server:
        server.add(f"{topic}-value", json.dumps(OLD), 501)
        server.add(f"{topic}-value", json.dumps(NEW), 502)
        bodies = [avro(OLD, 501, 4, n=1), avro(NEW, 502, 4, n=2**40, s="two")]
        send(cluster.namesrv_addr, topic, bodies)
        rows = spark.read.format("rocketmq").options(
            **{
                "nameServer": cluster.namesrv_addr,
                "subscribe": topic,
                "typed": "avro",
                "typed.registry": server.url,
                "typed.prefix": "f_",
                "columns": "f_s,f_n",
            }
        )
        found = rows.load()
        assert found.dtypes == [("f_s", "string"), ("f_n", "bigint")]
        assert sorted(tuple(row) for row in found.collect() if row.f_s) == [("two", 2**40)]
        assert found.where("f_n = 1").count() == 1
    with pytest.raises(Exception, match="the schema registry did not answer"):
        rows.load()
