"""Tasks with a real broker, in this process; Spark's own is tests/spark/jvm/test_archive.py."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.group import OURS, Group
from tests.spark.jobs.lake import content

from epochmq.base.errors import UsageError
from epochmq.client.aio import Admin, Producer
from epochmq.model.message import Message
from epochmq.model.topic import TopicConfig
from epochmq.spark.jobs.archive import ArchiveOptions, run_archive
from epochmq.spark.jobs.archive_run import TaskResult, TaskSource, joined
from epochmq.spark.jobs.job_report import JobReport

pytestmark = pytest.mark.process
COUNT = 1_000


async def _fill(namesrv: str) -> None:
    async with Admin(namesrv) as admin:
        await admin.create_topic(TopicConfig("Flights", 4, 4))
    async with Producer(namesrv, "p") as producer:
        for start in range(0, COUNT, 100):
            await producer.send_batch(
                [Message("Flights", b"%d" % n) for n in range(start, start + 100)]
            )


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    with EpochCluster() as cluster:
        asyncio.run(_fill(cluster.namesrv_addr))
        yield cluster.namesrv_addr


def test_a_real_topic(namesrv: str, tmp_path: object) -> None:
    options = ArchiveOptions(namesrv, ("Flights",), f"{tmp_path}/table", max_rows=300)
    steps: list[str] = []
    planned = run_archive(options, master="none", dry_run=True)
    report = run_archive(options, master="none", on_step=steps.append)
    assert (planned.status, planned.ranges) == ("dry-run", report.ranges)
    assert planned.rows == report.rows == COUNT
    assert steps.count("committed") == planned.details["batches"] == 4
    assert set(content(options.table, "body").values()) == {1}
    assert len(content(options.table, "body")) == COUNT
    assert "rows         1,000" in report.as_text()


async def _served(group: Group) -> list[int]:
    """The number of messages that the master and its follower have returned to readers."""
    master = group.master()
    async with Admin(group.namesrv_addr) as admin:
        servers = sorted(group.brokers, key=lambda each: each is not master)
        figures = [await admin.runtime_info(each.address) for each in servers]
    return [int(each["msgGetTotalTodayNow"]) for each in figures]


@pytest.mark.parametrize("allowed", [True, False], ids=["slaveReadEnable", "without"])
def test_a_follower_serves_where_it_may(tmp_path: Path, *, allowed: bool) -> None:
    with Group(OURS, OURS, replicas=2, broker_config={"slaveReadEnable": allowed}) as group:
        asyncio.run(_fill(group.namesrv_addr))
        options = ArchiveOptions(
            group.namesrv_addr, ("Flights",), f"{tmp_path}/a", read_from="follower"
        )
        assert run_archive(options, master="none").rows == COUNT
        by_master, by_follower = asyncio.run(_served(group))
        assert by_master + by_follower == COUNT
        # What the follower does not have yet comes from the master.
        assert (by_follower > 0) == allowed
        run_archive(replace(options, table=f"{tmp_path}/b", read_from="auto"), master="none")
        assert asyncio.run(_served(group)) == [by_master + COUNT, by_follower]


def test_replicas_that_do_not_exist_are_refused() -> None:
    with pytest.raises(UsageError, match="from 'folower': use auto, master, follower"):
        TaskSource("127.0.0.1:1", 100, read_from="folower")


def test_joined() -> None:
    whole = joined([TaskResult(rows=1, bytes=2), TaskResult(rows=3, missing=4)])
    assert (whole.rows, whole.bytes, whole.missing) == (4, 2, 4)
    assert isinstance(JobReport("x").as_json(), dict)
