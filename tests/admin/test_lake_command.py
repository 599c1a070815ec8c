"""`epochmq lake` as a process: tables follow topics through kills, and equal them."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.process import wait_until
from tests.spark.jobs.lake import content

from epochmq.admin.cli import cli
from epochmq.client.aio import Producer
from epochmq.model.message import Message

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]
TOPICS = {"lake_delta": "delta", "lake_iceberg": "iceberg", "lake_parquet": "parquet"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EpochCluster]:
    with EpochCluster() as running:
        yield running


def run(cluster: EpochCluster, *arguments: str) -> str:
    """A command's output; it ends with 0."""
    found = CliRunner().invoke(cli, [*arguments, "-n", cluster.namesrv_addr])
    assert found.exit_code == 0, found.output
    return found.output


def send(cluster: EpochCluster, topic: str, count: int) -> set[str]:
    """Ids of the messages sent."""

    async def work() -> set[str]:
        async with Producer(cluster.namesrv_addr) as producer:
            sent = await asyncio.gather(
                *(producer.send(Message(topic, b"%d" % n)) for n in range(count))
            )
            return {each.msg_id for each in sent}

    return asyncio.run(work())


@contextmanager
def lake(cluster: EpochCluster, warehouse: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The service as a user starts it."""
    argv = [sys.executable, "-m", "epochmq", "lake", "--warehouse", str(warehouse)]
    argv += ["--interval", "0.2", "--compact-every", "3", "-n", cluster.namesrv_addr]
    with (warehouse / "lake.log").open("ab") as out:
        process = subprocess.Popen(argv, stderr=out)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for_rows(place: Path, count: int) -> None:
    """Wait until a table has so many rows."""

    def has_rows() -> bool:
        try:
            return content(str(place)).total() >= count
        except Exception:  # it is being created
            return False

    wait_until(has_rows, 30, f"{count} rows in {place.name}")


def test_tables_follow_their_topics_through_kills(cluster: EpochCluster, tmp_path: Path) -> None:
    sent: dict[str, set[str]] = {}
    for topic, format in TOPICS.items():
        run(cluster, "topic", "create", topic, "--queues", "2", "--table", format)
        sent[topic] = set()
    for attempt in range(3):
        with lake(cluster, tmp_path) as process:
            for topic in TOPICS:
                sent[topic] |= send(cluster, topic, 40)
            if attempt < 2:
                wait_for_rows(tmp_path / "lake_delta", 40 * attempt + 1)
                os.kill(process.pid, signal.SIGKILL)
                continue
            for topic in TOPICS:
                wait_for_rows(tmp_path / topic, 120)
            process.terminate()
            assert process.wait(30) == 0
    for topic, ids in sent.items():
        found = content(str(tmp_path / topic))
        assert set(found) == ids
        assert max(found.values()) == 1
        run(cluster, "pipeline", "verify", str(tmp_path / topic))
    shown = run(cluster, "group", "lag", "EPOCHMQ_LAKE")
    assert all(topic in shown for topic in TOPICS)


def test_once_and_a_topic_that_is_no_longer_a_table(cluster: EpochCluster, tmp_path: Path) -> None:
    run(cluster, "topic", "create", "lake_once", "--table", "parquet")
    run(cluster, "topic", "update", "lake_once", "--table", "none")
    run(cluster, "topic", "update", "lake_once", "--table", "delta")
    ids = send(cluster, "lake_once", 10)
    said = run(cluster, "lake", "--warehouse", str(tmp_path), "--once")
    assert "rows in" in said
    assert set(content(str(tmp_path / "lake_once"))) == ids
    refused = CliRunner().invoke(cli, ["topic", "create", "x", "--table", "orc"])
    assert refused.exit_code == 2


def test_a_learner_of_a_broker_without_controllers_reads_its_queues(
    cluster: EpochCluster, tmp_path: Path
) -> None:
    topic = "lake_learner"
    run(cluster, "topic", "create", topic, "--table", "parquet")
    sent = send(cluster, topic, 20)
    argv = [sys.executable, "-m", "epochmq", "lake", "--warehouse", str(tmp_path), "--learner"]
    argv += ["--once", "-n", cluster.namesrv_addr]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert content(str(tmp_path / topic)) == Counter(dict.fromkeys(sent, 1))
    assert done.stderr.count("is not followed, its brokers are asked for each queue") == 1
    assert "cannot be read as a learner" in done.stderr
