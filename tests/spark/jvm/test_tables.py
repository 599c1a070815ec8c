"""Topics in SQL: as temporary views, which Spark reads, and as tables, which it cannot."""

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.compat.peers.epochmq import EpochCluster
from tests.spark import topics

pytestmark = pytest.mark.process


def test_a_topic_in_sql(spark: SparkSession, cluster: EpochCluster, topic: str) -> None:
    topics.fill(cluster.namesrv_addr, topic, 20)
    using = (
        f"{topic} USING rocketmq OPTIONS (nameServer '{cluster.namesrv_addr}',"
        f" subscribe '{topic}', columns 'body,queueId')"
    )
    # Spark hands the options of a table to CREATE TABLE, and none of them to the reader (4.1).
    with pytest.raises(AnalysisException, match="use CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE {using}")
    spark.sql(f"CREATE TEMPORARY VIEW {using}")
    try:
        rows = spark.sql(f"SELECT CAST(body AS string) AS text FROM {topic} WHERE queueId = 1")
        assert sorted(int(row.text) for row in rows.collect()) == list(range(1, 20, 2))
    finally:
        spark.catalog.dropTempView(topic)
