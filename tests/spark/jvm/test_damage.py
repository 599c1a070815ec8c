"""A damaged record in a broker's log: one clear error of Spark's, or passed where that is asked."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.compat.peers.epochmq import EpochCluster
from tests.spark import topics

from epochmq.model import record
from epochmq.spark.jobs.archive import ArchiveOptions, run_archive
from epochmq.spark.jobs.framework import explain, translated
from epochmq.spark.jobs.tables.opening import arrow_dataset, open_table

pytestmark = pytest.mark.process


def test_the_query_says_where_and_goes_on_when_told_to(
    spark: SparkSession, cluster: EpochCluster, topic: str, tmp_path: Path
) -> None:
    namesrv = cluster.namesrv_addr
    topics.fill(namesrv, topic, 40)
    given = {"nameServer": namesrv, "subscribe": topic, "startingOffsets": "earliest"}
    places = spark.read.format("rocketmq").options(**given).load().where("body = '14'")
    (at,) = [row.commitLogOffset for row in places.collect()]
    log = max(file for file in (cluster.store / "commitlog").iterdir() if int(file.name) <= at)
    with log.open("r+b") as file:
        file.seek(at - int(log.name) + record.MAGIC_AT)
        file.write(bytes(4))

    def stream(name: str, **more: str) -> DataFrame:
        read = spark.readStream.format("rocketmq").options(**given, **more).load()
        writer = read.selectExpr("int(string(body)) AS n").writeStream.format("memory")
        writer = writer.queryName(name).option("checkpointLocation", str(tmp_path / name))
        assert writer.trigger(availableNow=True).start().awaitTermination(90)
        return spark.table(name)

    with pytest.raises(Exception, match="is damaged") as raised:
        stream("strict")
    said = str(explain(raised.value))
    assert f"{topic}@broker-a:0: the message at queue offset 7 is damaged" in said
    assert "\n" not in said
    forgiving = stream("forgiving", failOnDataLoss="false").collect()
    assert sorted(row.n for row in forgiving) == [n for n in range(40) if n != 14]

    table = str(tmp_path / "table")
    options = ArchiveOptions(namesrv, (topic,), table, "delta")
    with pytest.raises(Exception, match="queue offset 7 is damaged") as raised, translated():
        run_archive(options, spark=spark)
    assert "\n" not in str(raised.value)
    assert arrow_dataset(open_table(table)).count_rows() == 0
