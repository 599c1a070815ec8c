"""What is asked of running replicas; whole groups are audited in tests/admin/pipeline."""

from collections.abc import Iterator

import pytest
from tests.compat.peers.epochmq import EpochCluster

from epochmq.base.errors import NotFound, NotReachable
from epochmq.client.aio.admin_client import Admin
from epochmq.client.aio.producer import Producer
from epochmq.model.message import Message
from epochmq.spark.jobs.audit_sources import LiveReplica, live_replicas, wait_for_confirmed
from epochmq.spark.spark_loop_thread import LoopThread


@pytest.fixture(scope="module")
def cluster() -> Iterator[EpochCluster]:
    with EpochCluster() as running:
        yield running


@pytest.fixture(scope="module")
def replica(cluster: EpochCluster) -> Iterator[LiveReplica]:
    loop = LoopThread("test")
    admin = Admin(cluster.namesrv_addr)

    async def fill() -> None:
        async with Producer(cluster.namesrv_addr) as producer:
            for number in range(30):
                await producer.send(Message("live", b"%d" % number * 500))

    loop.run(fill())
    yield LiveReplica("a", cluster.broker_addr, admin, loop)
    loop.run(admin.close())
    loop.close()


def test_a_broker_says_what_it_holds(replica: LiveReplica, cluster: EpochCluster) -> None:
    log = (cluster.store / "commitlog" / ("0" * 20)).read_bytes()
    assert replica.shape.start == 0
    assert replica.shape.end == replica.shape.confirmed == len(log.rstrip(b"\0"))
    assert replica.read(0, 1 << 40) == log[: replica.shape.end]


def test_digests_from_anywhere_fit_those_of_the_bytes(replica: LiveReplica) -> None:
    whole = replica.digests(0, replica.shape.end, 4096)
    assert sum(block.size for block in whole) == replica.shape.end
    part = replica.digests(5000, replica.shape.end, 4096)
    assert [block[:2] for block in part] == [(5000, 3192)]
    assert replica.digests(8192, 12288, 4096) == whole[2:3]


def test_nobody_waits_for_a_replica_that_knows_all(replica: LiveReplica) -> None:
    before = replica.shape
    wait_for_confirmed([replica, replica])
    assert replica.shape == before


def test_groups_that_cannot_be_audited(cluster: EpochCluster) -> None:
    with (
        pytest.raises(NotFound, match="known are: broker-a"),
        live_replicas(cluster.namesrv_addr, "broker-x"),
    ):
        pass
    with (
        pytest.raises(NotReachable, match="two replicas or more"),
        live_replicas(cluster.namesrv_addr, "broker-a"),
    ):
        pass
