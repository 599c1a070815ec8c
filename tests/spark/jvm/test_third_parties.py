"""Spark itself reads what unmodified clients of three makes sent: one query over all topics."""

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.compat import told
from tests.compat.clients import CPP, JAVA_5, NODE
from tests.compat.peers.cache import UnavailableError
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.records import read_topic

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]


def as_dict(row: Any) -> Mapping[str, Any]:
    return {**row.asDict(), "body": bytes(row.body)}


def test_one_query_over_the_messages_of_all(spark: SparkSession, cluster: EpochCluster) -> None:
    """Codecs, batches, ordered sends and long names side by side in the tasks of one read."""
    namesrv, sent = cluster.namesrv_addr, {}
    for client in (JAVA_5, CPP, NODE):
        try:
            driver = client.build()
        except UnavailableError as missing:
            pytest.skip(f"{client.name} cannot be had: {missing}")
        with driver:
            for sends in told.sends_of(client):
                topic = told.make_topic(cluster.broker_addr, sends.topic("third"))
                sent[topic] = (sends, sends.run(driver, namesrv, topic))
    given = {"nameServer": namesrv, "subscribe": ",".join(sent), "maxRecordsPerPartition": "5"}
    rows = [as_dict(row) for row in spark.read.format("rocketmq").options(**given).load().collect()]
    assert len(rows) == told.COUNT * len(sent)
    for topic, (sends, answers) in sent.items():
        mine = [row for row in rows if row["topic"] == topic]
        stored = read_topic(cluster.broker_addr, topic)
        told.check_rows(mine, sends, topic, answers, stored)
    read = spark.readStream.format("rocketmq").options(**given, startingOffsets="earliest").load()
    query = read.writeStream.format("memory").queryName("third").trigger(availableNow=True)
    with_all = query.start()
    assert with_all.awaitTermination(90)
    found = spark.sql("select topic, md5(body) as body from third").collect()
    expected = spark.createDataFrame([(r["topic"], r["body"]) for r in rows], "t string, b binary")
    digests = expected.selectExpr("t as topic", "md5(b) as body").collect()
    assert sorted(map(tuple, found)) == sorted(map(tuple, digests))
