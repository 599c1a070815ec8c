"""Reports of jobs: what is sent when, rates, and texts of strangers."""

import asyncio
import json
from collections.abc import Iterator

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compat.peers.epochmq import EpochCluster

from epochmq.admin.dashboard.cluster_client import ClusterClient
from epochmq.admin.dashboard.job_queries import SILENT_MS, job_list, job_row
from epochmq.admin.pipeline.options import job_name
from epochmq.base.errors import NotReachable
from epochmq.client.aio import Admin, Producer
from epochmq.model.message import Message
from epochmq.model.topic import TopicConfig
from epochmq.spark.jobs.job_status import (
    DONE,
    FAILED,
    RUNNING,
    TOPIC,
    JobReports,
    JobStatus,
    decode_status,
    job_reports,
    latest_by_job,
)


class Sent:
    """A clock, and what was sent."""

    def __init__(self) -> None:
        self.now = 1_000
        self.batches: list[list[JobStatus]] = []
        self.reports = JobReports(self.batches.append, lambda: self.now)

    def after(self, ms: int) -> list[JobStatus]:
        """Send, `ms` later; returns what was sent now."""
        self.now += ms
        count = len(self.batches)
        self.reports.send()
        return [each for batch in self.batches[count:] for each in batch]


def test_a_running_job_reports_with_its_rate() -> None:
    sent = Sent()
    sent.reports.note("a", text="begins", rows=0)
    (first,) = sent.after(1_000)
    assert (first.state, first.text, first.rows, first.rate) == (RUNNING, "begins", 0, 0.0)
    sent.reports.note("a", text="goes on", rows=500)
    (second,) = sent.after(5_000)
    assert (second.rate, second.began_ms, second.wall_ms) == (100.0, 1_000, 7_000)
    (third,) = sent.after(5_000)  # nothing new: it runs still
    assert (third.rate, third.rows, third.wall_ms) == (0.0, 500, 12_000)


def test_an_error_stays_until_another_one() -> None:
    sent = Sent()
    sent.reports.note("a", error="the disk is full")
    sent.now += 10
    sent.reports.note("a", rows=3)
    (only,) = sent.after(0)
    assert (only.state, only.error, only.error_ms, only.rows) == (
        RUNNING,
        "the disk is full",
        1_000,
        3,
    )


def test_a_job_that_ended_reports_that_once() -> None:
    sent = Sent()
    sent.reports.note("a", rows=3)
    sent.reports.note("b", text="half")
    sent.reports.end("a")
    sent.reports.end("b", "it broke")
    found = {each.job: each for each in sent.after(0)}
    assert (found["a"].state, found["a"].rows) == (DONE, 3)
    assert (found["b"].state, found["b"].error, found["b"].text) == (FAILED, "it broke", "half")
    assert sent.after(5_000) == []


def test_what_cannot_be_sent_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_reports: list[JobStatus]) -> None:
        raise NotReachable("nobody there")

    reports = JobReports(fail, lambda: 1)
    reports.note("a")
    reports.send()
    reports.send()
    assert caplog.text.count("nobody there") == 1


STATUS = JobStatus("j", "h:1", 1, 2, RUNNING, "t", 3, 1.5, "e", 4)


def test_a_report_there_and_back() -> None:
    assert decode_status(STATUS.encoded()) == STATUS
    assert decode_status(JobStatus("j", "h", 1, 2).encoded()) == JobStatus("j", "h", 1, 2)


@given(st.binary())
def test_bytes_of_strangers(body: bytes) -> None:
    decode_status(body)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_fields_of_strangers(value: object) -> None:
    plain = json.loads(STATUS.encoded())
    for name in plain:
        found = decode_status(json.dumps({**plain, name: value}).encode())
        assert found is None or len(found.text) <= 500
    assert decode_status(json.dumps(value).encode()) is None


def test_the_latest_of_each_job() -> None:
    old, new, other = (JobStatus(j, "h", 1, wall) for j, wall in (("a", 1), ("a", 3), ("b", 2)))
    assert latest_by_job([new, old, other]) == [new, other]


def test_a_job_that_is_silent() -> None:
    assert job_row(STATUS, STATUS.wall_ms + SILENT_MS - 1)["state"] == RUNNING
    assert job_row(STATUS, STATUS.wall_ms + SILENT_MS)["state"] == "silent"
    done = JobStatus("j", "h", 1, 2, DONE)
    assert job_row(done, 10**15)["state"] == DONE


def test_the_name_of_a_job() -> None:
    @click.command("archive")
    @click.argument("topics", nargs=-1)
    @click.option("--to")
    def command(topics: tuple[str, ...], to: str) -> None:
        """Nothing."""

    with command.make_context("archive", ["a", "b", "--to", "x"]) as context:
        assert job_name(context) == "archive:a b"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EpochCluster]:
    with EpochCluster(broker_config={"autoCreateTopicEnable": False}) as running:
        yield running


def jobs(namesrv: str) -> dict[str, object]:
    async def ask() -> dict[str, object]:
        client = ClusterClient("test", namesrv, None)
        try:
            return await job_list(client, 10**15)
        finally:
            await client.close()

    return asyncio.run(ask())


def test_jobs_report_if_the_topic_exists(cluster: EpochCluster) -> None:
    namesrv = cluster.namesrv_addr
    with job_reports(namesrv) as reports:
        reports.note("unheard", rows=1)
    assert jobs(namesrv) == {"topic": TOPIC, "is_there": False, "rows": []}

    async def create() -> None:
        async with Admin(namesrv) as admin:
            await admin.create_topic(TopicConfig(TOPIC, 2, 2))
        async with Producer(namesrv) as producer:
            await producer.send(Message(TOPIC, b"\xff no report"))

    asyncio.run(create())
    with job_reports(namesrv) as reports:
        reports.note("archive:orders", text="half", rows=10)
        reports.end("archive:orders", "it broke")
    (row,) = jobs(namesrv)["rows"]  # type: ignore[misc]
    assert (row["job"], row["state"], row["rows"]) == ("archive:orders", FAILED, 10)


def test_a_cluster_that_does_not_answer_is_no_error() -> None:
    with job_reports("127.0.0.1:1") as reports:
        reports.note("a")
