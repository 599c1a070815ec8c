"""Lag and resets of groups, at our broker and at RocketMQ's."""

from typing import NamedTuple

import pytest
from tests.compat.peers.cluster import Cluster

from epochmq.base.errors import NotFound
from epochmq.client.aio import Admin, SendResult
from epochmq.client.aio.admin_progress import TO_END
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.topic import MessageQueue


class Place(NamedTuple):
    address: str
    group: str
    queues: list[MessageQueue]


@pytest.fixture
async def place(admin: Admin, any_cluster: Cluster, topic: str, orders: list[SendResult]) -> Place:
    """A group that nobody is in, at offset 1 of both queues."""
    group, address = f"g-{topic}", any_cluster.broker_addr
    await admin.put_group(address, SubscriptionGroupConfig(group))
    queues = sorted({sent.queue for sent in orders})
    for queue in queues:
        await admin.commit_at(address, group, queue, 1)
    return Place(address, group, queues)


async def test_progress(admin: Admin, topic: str, place: Place) -> None:
    table, tps = await admin.progress(place.group, topic)
    assert list(table) == place.queues
    assert [(at.broker_offset, at.consumer_offset) for at in table.values()] == [(3, 1), (3, 1)]
    assert tps >= 0
    assert await admin.committed_at(place.address, place.group, place.queues[0]) == 1
    assert await admin.committed_at(place.address, "never", place.queues[0]) is None


async def test_progress_of_nobody(admin: Admin) -> None:
    with pytest.raises(NotFound, match="no-such-group"):
        await admin.progress("no-such-group")


async def test_brokers_reset_a_group_nobody_is_in(admin: Admin, topic: str, place: Place) -> None:
    moved = await admin.reset_offsets(place.group, topic, TO_END)
    assert moved == dict.fromkeys(place.queues, 3)
    moved = await admin.reset_offsets(place.group, topic, 0)
    assert moved == dict.fromkeys(place.queues, 0)


async def test_offsets_are_moved_without_the_brokers_help(
    admin: Admin, topic: str, place: Place
) -> None:
    moved = await admin.reset_offline(place.group, topic, TO_END, force=False)
    assert [(m.broker_offset, m.consumer_offset) for m in moved] == [(3, 1), (3, 1)]
    assert [(m.found_offset, m.reset_offset) for m in moved] == [(3, 1), (3, 1)]
    moved = await admin.reset_offline(place.group, topic, 0)
    assert [m.reset_offset for m in moved] == [0, 0]
    assert await admin.committed_at(place.address, place.group, place.queues[1]) == 0


async def test_a_fresh_group_is_moved_in_all_queues(admin: Admin, topic: str, place: Place) -> None:
    moved = await admin.reset_offline("TOOLS_CONSUMER", topic, TO_END)
    assert [m.queue for m in moved] == place.queues
    assert [m.reset_offset for m in moved] == [3, 3]


async def test_one_queue_is_reset(admin: Admin, topic: str, place: Place) -> None:
    await admin.reset_queue(place.address, place.group, topic, 1, 2)
    committed = [await admin.committed_at(place.address, place.group, q) for q in place.queues]
    assert committed == [1, 2]


async def test_offsets_are_cloned(admin: Admin, topic: str, place: Place) -> None:
    clone = f"{place.group}-clone"
    await admin.put_group(place.address, SubscriptionGroupConfig(clone))
    await admin.clone_offsets(place.group, clone, topic)
    assert await admin.committed_at(place.address, clone, place.queues[0]) == 1
