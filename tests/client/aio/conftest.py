"""A real name server and broker for the client's tests: started once for each test process."""

import zlib
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.compat.peers.cache import UnavailableError
from tests.compat.peers.cluster import Cluster
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.java import JavaCluster

from epochmq.client.aio import Admin, Producer, SendResult
from epochmq.client.aio.instance import Instance
from epochmq.model.message import Message
from epochmq.model.topic import TopicConfig


@pytest.fixture(scope="session")
def cluster() -> Iterator[EpochCluster]:
    config = {"messageDelayLevel": "1s 1s 1s 1s 1s 1s", "defaultTopicQueueNums": 4}
    with EpochCluster(broker_config=config) as running:
        yield running


@pytest.fixture
def namesrv(cluster: EpochCluster) -> str:
    return cluster.namesrv_addr


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of the test's own; the first send creates it."""
    return f"Test_{zlib.crc32(request.node.nodeid.encode())}"


@pytest.fixture
async def instance(namesrv: str) -> AsyncIterator[Instance]:
    made = Instance(namesrv)
    yield made
    await made.close()


@pytest.fixture
async def another_instance(namesrv: str) -> AsyncIterator[Instance]:
    """As a second process would be."""
    made = Instance(namesrv)
    yield made
    await made.close()


@pytest.fixture(scope="package")
def java_cluster() -> Iterator[Cluster]:
    """RocketMQ's own. One process plays all files that want it (tests/conftest.py), and stops it
    when it leaves this folder: a Java broker that does nothing takes a third of a core.

    Without `__init__.py` the folder is not a package, and the broker runs until the session ends.
    """
    try:
        peer = JavaCluster()
    except UnavailableError as missing:
        pytest.skip(f"RocketMQ's broker cannot be had: {missing}")
    with peer as running:
        yield running


def ours_or_javas(request: pytest.FixtureRequest) -> Cluster:
    """A fixture that started one itself would stop it whenever a test wants the other."""
    found: Cluster = request.getfixturevalue(
        "cluster" if request.param == "epochmq" else "java_cluster"
    )
    return found


@pytest.fixture(scope="package", params=["epochmq", "java"])
def any_cluster(request: pytest.FixtureRequest) -> Cluster:
    """Ours, then RocketMQ's own: administration must work on both."""
    return ours_or_javas(request)


@pytest.fixture(scope="package", params=["epochmq", "java"])
def pop_cluster(request: pytest.FixtureRequest) -> Cluster:
    """Ours, then RocketMQ's own: each revives what was popped in a time of its own."""
    return ours_or_javas(request)


@pytest.fixture
async def admin(any_cluster: Cluster) -> AsyncIterator[Admin]:
    async with Admin(any_cluster.namesrv_addr) as connected:
        yield connected


@pytest.fixture
async def orders(admin: Admin, any_cluster: Cluster, topic: str) -> list[SendResult]:
    """Six messages in the two queues of `topic`, with keys k0 to k5 and all, odd ones tagged."""
    await admin.create_topic(TopicConfig(topic, read_queue_nums=2, write_queue_nums=2))
    async with Producer(any_cluster.namesrv_addr, f"p-{topic}") as producer:
        queues = await producer.queues(topic)
        return [
            await producer.send(
                Message(topic, b"%d" % n, "odd" if n % 2 else None, (f"k{n}", "all")),
                queue=queues[n % 2],
            )
            for n in range(6)
        ]
