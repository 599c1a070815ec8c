"""Topics on brokers, ours and RocketMQ's."""

import pytest
from tests.compat.peers.cluster import Cluster

from epochmq.base.errors import NotFound, Refused
from epochmq.client.aio import Admin, SendResult
from epochmq.client.aio.admin_namesrv import ORDER_TOPICS
from epochmq.model.topic import MessageQueue, TopicConfig


async def test_a_topic_is_created_changed_and_deleted(
    admin: Admin, any_cluster: Cluster, topic: str
) -> None:
    address = any_cluster.broker_addr
    config = TopicConfig(topic, read_queue_nums=3, write_queue_nums=2, perm=4)
    assert await admin.create_topic(config, cluster="DefaultCluster") == [address]
    found = await admin.topic_config(address, topic)
    assert (found.read_queue_nums, found.write_queue_nums, found.perm) == (3, 2, 4)
    await admin.put_topic(address, TopicConfig(topic, 5, 5))
    assert (await admin.topic_configs(address))[topic].read_queue_nums == 5
    assert await admin.delete_topic(topic) == [address]
    with pytest.raises(NotFound):
        await admin.route(topic)
    with pytest.raises(Refused) as refused:
        await admin.topic_stats_of(address, topic)
    assert refused.value.code == 17


async def test_attributes_are_set(admin: Admin, any_cluster: Cluster, topic: str) -> None:
    changes = {"+message.type": "FIFO"}
    await admin.create_topic(TopicConfig(topic, 1, 1), attributes=changes)
    found = await admin.topic_config(any_cluster.broker_addr, topic)
    assert found.attributes == {"message.type": "FIFO"}


async def test_an_ordered_topic_is_in_the_order_configuration(admin: Admin, topic: str) -> None:
    config = TopicConfig(topic, 4, 4, order=True)
    await admin.create_topic(config)
    assert await admin.get_kv(ORDER_TOPICS, topic) == "broker-a:4"
    assert await admin.merge_order(config, "broker-b") == "broker-b:4"
    assert await admin.get_kv(ORDER_TOPICS, topic) == "broker-a:4;broker-b:4"
    await admin.delete_topic(topic)
    assert await admin.get_kv(ORDER_TOPICS, topic) is None


async def test_bad_names_are_refused_before_they_travel(admin: Admin) -> None:
    with pytest.raises(Refused, match="forbidden character"):
        await admin.create_topic(TopicConfig("a b"))


async def test_bounds_of_queues(admin: Admin, topic: str, orders: list[SendResult]) -> None:
    bounds, tps = await admin.topic_stats(topic)
    assert list(bounds) == [MessageQueue(topic, "broker-a", n) for n in (0, 1)]
    assert [(at.min_offset, at.max_offset) for at in bounds.values()] == [(0, 3), (0, 3)]
    assert all(at.last_update_timestamp > 0 for at in bounds.values())
    assert tps >= 0


async def test_groups_of_a_topic(
    admin: Admin, any_cluster: Cluster, topic: str, orders: list[SendResult]
) -> None:
    await admin.commit_at(any_cluster.broker_addr, "TOOLS_CONSUMER", orders[0].queue, 1)
    assert "TOOLS_CONSUMER" in await admin.groups_of(topic)
