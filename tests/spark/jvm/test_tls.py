"""Spark on a cluster that takes TLS only: what the command line was told comes to every process."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.runtime.test_tls import CERT
from tests.spark import topics
from tests.spark.tls_cluster import TLS, TlsCluster, speaking_tls

from epochmq.spark.jobs.archive import ArchiveOptions, run_archive
from epochmq.spark.jobs.backfill import backfill
from epochmq.spark.jobs.compact import Compact, compact
from epochmq.spark.jobs.reconcile import Reconcile, reconcile
from epochmq.spark.jobs.replay import Replay, replay
from epochmq.spark.option_table import reach

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]
FROM, TO = "SecretFrom", "SecretTo"


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    with TlsCluster() as cluster:
        with speaking_tls():
            topics.fill(cluster.namesrv_addr, FROM, 30)
            topics.create(cluster.namesrv_addr, TO)
        yield cluster.namesrv_addr


def test_streams_and_jobs_reach_it(
    spark: SparkSession, remote: str, namesrv: str, tmp_path: Path
) -> None:
    given = {**reach(namesrv, TLS), "subscribe": FROM, "startingOffsets": "earliest"}
    rows = spark.readStream.format("rocketmq").options(**given).load()
    writer = rows.select("body", "keys").writeStream.format("rocketmq")
    writer = writer.options(**reach(namesrv, TLS), topic=TO)
    query = writer.option("checkpointLocation", str(tmp_path / "at")).trigger(availableNow=True)
    assert query.start().awaitTermination(90)

    table = str(tmp_path / "table")
    run_archive(ArchiveOptions(namesrv, (FROM,), table, "parquet", tls=TLS), spark=spark)
    with speaking_tls():
        queues = topics.create(namesrv, FROM)
        topics.send(namesrv, [(queues[0], topics.numbered(FROM, n)) for n in range(30, 40)])
    found = backfill(spark, table, namesrv, columns=("body",), tls=TLS)
    assert sorted(int(row.body) for row in found.frame.collect()) == list(range(40))

    assert replay(spark, Replay(table, TO, namesrv, tmp_path / "state", tls=TLS)).rows == 30
    assert compact(spark, Compact(str(tmp_path / "c"), TO, "", namesrv, tls=TLS)).rows == 30
    sent = tmp_path / "sent"
    ids = [row.msgId for row in spark.read.format("rocketmq").options(**given).load().collect()]
    lines = (json.dumps({"msgId": each, "at": 1, "ok": True}) for each in ids)
    sent.write_text("\n".join(lines))
    verdict, _ = reconcile(spark, Reconcile(namesrv, FROM, str(sent), tls=TLS))
    assert (verdict.topic["stored"], verdict.topic["lost"]) == (40, 0)

    parts = [("archive", 30), ("live", 10)]
    rows = backfill_by_command(remote, namesrv, table)
    assert [(row["source"], row["messages"]) for row in rows] == parts


def backfill_by_command(master: str, namesrv: str, table: str) -> list[dict[str, Any]]:
    """What the job prints when a user starts it."""
    words = ["--tls-ca", CERT, "pipeline", "backfill", table, "-n", namesrv, "-o", "json"]
    command = [sys.executable, "-m", "epochmq", *words, "--master", master]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
