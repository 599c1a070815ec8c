"""Groups and their members, at our broker and at RocketMQ's."""

import pytest
from tests.client.aio.collecting import Collector
from tests.compat.peers.cluster import Cluster

from epochmq.base.errors import NotFound, Refused
from epochmq.client.aio import Admin, Producer, PushConsumer, SendResult
from epochmq.client.aio.admin_groups import is_offline
from epochmq.model.group import SubscriptionGroupConfig


async def test_a_group_is_created_changed_and_deleted(
    admin: Admin, any_cluster: Cluster, topic: str
) -> None:
    address, group = any_cluster.broker_addr, f"g-{topic}"
    await admin.put_group(address, SubscriptionGroupConfig(group, retry_max_times=3))
    assert (await admin.groups(address))[group].retry_max_times == 3
    await admin.put_group(address, SubscriptionGroupConfig(group, retry_max_times=5))
    assert (await admin.group_config(address, group)).retry_max_times == 5
    await admin.delete_group(address, group, clean_offsets=True)
    assert group not in await admin.groups(address)


async def test_members_and_what_they_do(
    admin: Admin, any_cluster: Cluster, topic: str, orders: list[SendResult]
) -> None:
    group, collector = f"g-{topic}", Collector(6)
    async with PushConsumer(any_cluster.namesrv_addr, group, start="first") as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic, "*")
        await consumer.start()
        await collector.wait()
        client_id = consumer.instance.client_id
        members = await admin.consumers(group)
        assert [c.client_id for c in members.connection_set] == [client_id]
        assert topic in members.subscription_table
        assert await admin.consumers(group, any_cluster.broker_addr) == members
        info = await admin.running_info(group, client_id)
        assert sum(1 for key in info.mq_table if f'"{topic}"' in key) == 2
        result = await admin.consume_directly(
            any_cluster.broker_addr, group, client_id, topic, orders[0].offset_msg_id
        )
        assert result.consume_result == "CR_SUCCESS"
    with pytest.raises(Refused) as refused:
        await admin.consumers(group)
    assert is_offline(refused.value)


async def test_producers(
    admin: Admin, any_cluster: Cluster, topic: str, orders: list[SendResult]
) -> None:
    group = f"pg-{topic}"
    async with Producer(any_cluster.namesrv_addr, group) as producer:
        await producer.queues(topic)
        found = await admin.producers(group, topic)
        assert [c.client_id for c in found.connection_set] == [producer.instance.client_id]


async def test_a_group_nobody_ever_joined(admin: Admin) -> None:
    with pytest.raises(NotFound, match="no-such-group"):
        await admin.consumers("no-such-group")
