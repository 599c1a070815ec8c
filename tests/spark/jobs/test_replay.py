"""Settings of a replay; what it sends is compared in tests/spark/jvm/test_jobs.py."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.peers.epochmq import EpochCluster

from epochmq.base.errors import NotFound, UsageError
from epochmq.client.aio import Admin
from epochmq.model.topic import TopicConfig
from epochmq.runtime.main import run
from epochmq.spark.jobs.replay import Replay, target_queues
from epochmq.spark.jobs.replay_plan import ReplayFilters


def test_settings_are_the_same_when_they_come_back_from_the_file() -> None:
    filters = ReplayFilters("t", 1, 2, ("k",), ("a", "b"), {"b:0": (1, 2)})
    what = Replay("/lake", "again", "n:1", Path("s"), filters).what
    assert json.loads(json.dumps(what)) == what
    assert what["filters"]["offsets"] == {"b:0": [1, 2]}


def test_a_rate_below_zero() -> None:
    with pytest.raises(UsageError, match="must not be negative"):
        Replay("/lake", "again", "n:1", Path("s"), rate=-1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[EpochCluster]:
    with EpochCluster() as running:
        yield running


def test_the_target_must_be_there(cluster: EpochCluster) -> None:
    async def make() -> None:
        async with Admin(cluster.namesrv_addr) as admin:
            await admin.create_topic(TopicConfig("again", 3, 3))

    run(make())
    job = Replay("/lake", "again", cluster.namesrv_addr, Path("s"))
    assert target_queues(job) == 3
    with pytest.raises(NotFound, match="nowhere"):
        target_queues(Replay("/lake", "nowhere", cluster.namesrv_addr, Path("s")))
