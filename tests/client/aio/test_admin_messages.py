"""Finding messages, at our broker and at RocketMQ's."""

import pytest
from tests.client.aio.collecting import Collector
from tests.client.aio.eventually import eventually
from tests.compat.peers.cluster import Cluster

from epochmq.base.errors import NotFound
from epochmq.client.aio import Admin, PushConsumer, SendResult
from epochmq.client.aio.admin_client import Track
from epochmq.model.message import StoredMessage


async def by_key(admin: Admin, topic: str, key: str, count: int) -> list[StoredMessage]:
    """RocketMQ's broker builds its index a moment after it answered the send."""
    return await eventually(
        lambda: admin.messages_by_key(topic, key), lambda found: len(found) >= count
    )


async def test_by_either_id(admin: Admin, topic: str, orders: list[SendResult]) -> None:
    await by_key(admin, topic, "all", 6)
    for sent in orders[:2]:
        for msg_id in (sent.offset_msg_id, sent.msg_id, sent.offset_msg_id.lower()):
            assert (await admin.message(topic, msg_id)).msg_id == sent.msg_id


@pytest.mark.parametrize("msg_id", ["0" * 32, "nonsense", "7F000001" + "00002A9F" + "7" * 16])
async def test_an_id_of_nothing(
    admin: Admin, topic: str, orders: list[SendResult], msg_id: str
) -> None:
    with pytest.raises(NotFound, match=topic):
        await admin.message(topic, msg_id)


async def test_an_id_into_the_middle_of_a_log(
    admin: Admin, topic: str, orders: list[SendResult]
) -> None:
    at = int(orders[1].offset_msg_id[-16:], 16) + 7
    with pytest.raises(NotFound):
        await admin.message(topic, f"{orders[1].offset_msg_id[:-16]}{at:016X}")


async def test_by_key(admin: Admin, topic: str, orders: list[SendResult]) -> None:
    found = await by_key(admin, topic, "all", 6)
    assert [message.body for message in found] == [b"%d" % n for n in range(6)]
    (one,) = await admin.messages_by_key(topic, "k3", cluster="DefaultCluster")
    assert (one.body, one.tags) == (b"3", "odd")
    assert await admin.messages_by_key(topic, "k3", cluster="Nope") == []
    assert await admin.messages_by_key(topic, "nothing") == []
    assert await admin.messages_by_key(topic, "k3", begin_ms=1, end_ms=2) == []
    (same,) = await admin.messages_by_uniq_key(topic, orders[3].msg_id)
    assert same.offset == one.offset


async def test_by_place(admin: Admin, topic: str, orders: list[SendResult]) -> None:
    found = await admin.message_in(orders[4].queue, orders[4].queue_offset)
    assert found.msg_id == orders[4].msg_id
    with pytest.raises(NotFound, match="it has 0 up to, not including, 3"):
        await admin.message_in(orders[4].queue, 3)


async def test_what_became_of_a_message(
    admin: Admin, any_cluster: Cluster, topic: str, orders: list[SendResult]
) -> None:
    group, collector = f"g-{topic}", Collector(3)
    even = await admin.message_in(orders[0].queue, 0)
    assert group not in {track.group for track in await admin.tracks(even)}
    async with PushConsumer(any_cluster.namesrv_addr, group, start="first") as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic, "odd")
        await consumer.start()
        await collector.wait()
    odd = await admin.message_in(orders[1].queue, 0)
    kinds = {track.group: track.kind for track in await admin.tracks(odd)}
    assert kinds[group] == "NOT_ONLINE"
    async with PushConsumer(any_cluster.namesrv_addr, group) as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic, "odd")
        await consumer.start()
        # RocketMQ's broker takes a leaving member's one-way commit up when it comes to it.
        await eventually(lambda: admin.tracks(odd), lambda found: Track(group, "CONSUMED") in found)
