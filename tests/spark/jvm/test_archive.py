"""The archive job on Spark: each format, with a driver killed on the way."""

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.process import wait_until

from epochmq.base.errors import EnvironmentFault
from epochmq.client.aio import Admin, Producer
from epochmq.model.message import Message
from epochmq.model.topic import TopicConfig
from epochmq.spark.jobs.archive import ArchiveOptions, run_archive
from epochmq.spark.jobs.archive_run import OnSpark, TaskSource
from epochmq.tables.opening import data_frame, open_table

pytestmark = [pytest.mark.spark]
COUNT = 6_000
TOPIC = "Flights"


async def _fill(namesrv: str) -> set[str]:
    async with Admin(namesrv) as admin:
        await admin.create_topic(TopicConfig(TOPIC, 4, 4))
    ids: set[str] = set()
    async with Producer(namesrv, "p") as producer:
        for start in range(0, COUNT, 100):
            batch = [Message(TOPIC, b'{"n": %d}' % n) for n in range(start, start + 100)]
            sent = await producer.send_batch(batch)
            ids.update(sent.msg_id.split(","))
    return ids


@pytest.fixture(scope="module")
def filled(cluster: EpochCluster) -> tuple[str, set[str]]:
    return cluster.namesrv_addr, asyncio.run(_fill(cluster.namesrv_addr))


def check_whole(spark: Any, table: str, ids: set[str]) -> None:
    """Every message once, by its id, as Spark reads the table."""
    rows = data_frame(spark, open_table(table)).select("msgId").collect()
    assert len(rows) == COUNT
    assert {row.msgId for row in rows} == ids


@pytest.mark.parametrize("format", ["iceberg", "parquet"])
def test_a_topic_is_in_the_table(
    spark: Any, filled: tuple[str, set[str]], tmp_path: Path, format: str
) -> None:
    namesrv, ids = filled
    options = ArchiveOptions(namesrv, (TOPIC,), str(tmp_path / "t"), format, max_rows=4_000)
    report = run_archive(options, spark=spark)
    assert (report.rows, report.details["missing"], report.details["batch"]) == (COUNT, 0, 2)
    check_whole(spark, options.table, ids)


def test_a_driver_killed_on_the_way(
    spark: Any, filled: tuple[str, set[str]], tmp_path: Path
) -> None:
    namesrv, ids = filled
    options = ArchiveOptions(namesrv, (TOPIC,), str(tmp_path / "t"), "delta", max_rows=150)
    argv = [
        sys.executable,
        "-m",
        "epochmq",
        "pipeline",
        "archive",
        TOPIC,
        "--table",
        options.table,
        "-n",
        namesrv,
        "--max-rows",
        "150",
        "--master",
        "local[2]",
    ]
    log = tmp_path / "driver.log"
    with log.open("wb") as out:
        driver = subprocess.Popen(argv, stdout=out, stderr=out, start_new_session=True)
    transactions = tmp_path / "t" / "_delta_log"
    try:
        # The table's making, the claim, and a few batches.
        wait_until(lambda: len(list(transactions.glob("*.json"))) > 5, 120, "driver at work")
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    found = open_table(options.table).last_batch(options.owner)
    assert found is not None, log.read_text()
    assert 0 < found[0] < COUNT // 150, "it was killed on the way"
    report = run_archive(replace(options, max_rows=4_000), spark=spark)
    assert 0 < report.rows < COUNT
    check_whole(spark, options.table, ids)


def test_an_error_of_a_task_is_one_line(spark: Any, tmp_path: Path) -> None:
    runner = OnSpark(TaskSource("127.0.0.1:1", 100), spark)
    assert runner.tasks == 2
    from epochmq.model.topic import MessageQueue
    from epochmq.spark.jobs.archive_plan import Range
    from epochmq.spark.jobs.archive_task import Work

    one = Range(MessageQueue(TOPIC, "broker-a", 0), 0, 9)
    with pytest.raises(EnvironmentFault) as raised:
        runner.run(Work(1, str(tmp_path), None), [[one]])
    assert "127.0.0.1:1" in str(raised.value)
    assert "\n" not in str(raised.value)
