"""What a transport of kombu asks brokers for."""

import asyncio
from collections.abc import Iterator

import pytest

from epochmq.client.aio import Admin
from epochmq.kombu.broker_link import BrokerLink
from epochmq.model.topic import TopicConfig
from epochmq.testing import MiniCluster


@pytest.fixture
def cluster() -> Iterator[MiniCluster]:
    with MiniCluster() as made:
        yield made


@pytest.fixture
def link(cluster: MiniCluster) -> Iterator[BrokerLink]:
    made = BrokerLink(cluster.namesrv, queues_per_topic=3, credentials=None)
    made.run(made.open())
    yield made
    made.run(made.close())


def config_of(cluster: MiniCluster, topic: str) -> TopicConfig:
    async def ask() -> TopicConfig:
        async with Admin(cluster.namesrv) as admin:
            (address,) = (await admin.masters()).values()
            return await admin.topic_config(address, topic)

    return asyncio.run(ask())


def queues_of(cluster: MiniCluster, topic: str) -> tuple[int, int]:
    config = config_of(cluster, topic)
    return config.read_queue_nums, config.write_queue_nums


def test_a_topic_has_as_many_queues_as_its_priorities_need(
    cluster: MiniCluster, link: BrokerLink
) -> None:
    link.run(link.ensure("plain"))
    link.run(link.ensure("urgent", 10))
    assert queues_of(cluster, "plain") == (3, 3)
    assert queues_of(cluster, "urgent") == (10, 10)


def test_a_topic_that_exists_gets_more_queues_and_keeps_the_rest(
    cluster: MiniCluster, link: BrokerLink
) -> None:
    async def create() -> None:
        async with Admin(cluster.namesrv) as admin:
            await admin.create_topic(TopicConfig("old", 12, 4, perm=4))

    asyncio.run(create())
    link.run(link.ensure("old", 10))
    config = config_of(cluster, "old")
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (12, 10, 4)


def test_a_message_goes_to_the_queue_of_its_priority(
    cluster: MiniCluster, link: BrokerLink
) -> None:
    for priority in (7, 0, 7):
        link.run(link.send_with_priority("urgent", b"%d" % priority, priority, 10))
    assert [(m.queue_id, m.body) for m in cluster.messages("urgent")] == [
        (0, b"0"), (7, b"7"), (7, b"7"),
    ]  # fmt: skip


def test_a_topic_that_another_process_deleted_is_created_again(
    cluster: MiniCluster, link: BrokerLink
) -> None:
    link.run(link.send_with_priority("gone", b"a", 9, 10))

    async def delete() -> None:
        async with Admin(cluster.namesrv) as admin:
            await admin.delete_topic("gone")

    asyncio.run(delete())
    link.run(link.send_with_priority("gone", b"b", 9, 10))
    assert [(m.queue_id, m.body) for m in cluster.messages("gone")] == [(9, b"b")]
