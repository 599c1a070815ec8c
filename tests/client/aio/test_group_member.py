"""Membership of a group: subscriptions that change, offsets outside the queue, restored topics."""

import asyncio

from tests.client.aio.collecting import Collector
from tests.client.aio.test_push_consumer import owned, send
from tests.client.aio.test_subscribing import message

from epochmq.base.errors import Refused
from epochmq.client.aio import Producer, PullConsumer, PushConsumer
from epochmq.client.aio.group_member import restore_topic
from epochmq.model.message import Message
from epochmq.model.queue import MessageQueue


def test_only_the_groups_own_retry_topic_is_restored() -> None:
    retried = message("A")
    retried.topic, retried.properties["RETRY_TOPIC"] = "%RETRY%g", "origin"
    restore_topic(retried, "g")
    assert retried.topic == "origin"
    plain = message("A")
    plain.properties["RETRY_TOPIC"] = "origin"
    restore_topic(plain, "g")
    assert plain.topic == "t"


async def test_topics_come_and_go_while_running(namesrv: str, topic: str) -> None:
    await send(namesrv, topic, 3)
    collector = Collector(3)
    async with PushConsumer(namesrv, f"g_{topic}", start="first") as consumer:
        consumer.on_message(collector)
        await consumer.start()
        await consumer.subscribe(topic)
        await collector.wait()
        await consumer.unsubscribe(topic)
        await owned(consumer, topic, 0)


async def test_an_offset_behind_the_end_is_corrected(namesrv: str, topic: str) -> None:
    queue = MessageQueue(topic, "broker-a", 0)
    async with Producer(namesrv, "p") as producer:
        await producer.queues(topic)
        await producer.send(Message(topic, b"old"), queue=queue)
        async with PullConsumer(namesrv, f"g_{topic}") as reader:
            await reader.commit(queue, 1_000)
        collector = Collector(1)
        async with PushConsumer(namesrv, f"g_{topic}") as consumer:
            consumer.on_message(collector)
            await consumer.subscribe(topic)
            await consumer.start()
            await owned(consumer, topic, 4)
            await settled(consumer, queue)
            await producer.send(Message(topic, b"new"), queue=queue)
            await collector.wait()
    assert collector.bodies == [b"new"]


async def settled(consumer: PushConsumer, queue: MessageQueue) -> None:
    """Wait until the first answer corrected the cursor."""
    async with asyncio.timeout(20):
        while consumer.member.owned[queue].cursor.next_offset != 1:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_start_by_time_skips_what_is_older(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "p") as producer:
        await producer.send(Message(topic, b"old"))
        await asyncio.sleep(0.02)  # store times are milliseconds: let the clock move on
        now = producer.instance.clock.wall_ms()
        await asyncio.sleep(0.02)
        await producer.send(Message(topic, b"new"))
    collector = Collector(1)
    async with PushConsumer(namesrv, f"g_{topic}", start=now) as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.start()
        await collector.wait()
    assert collector.bodies == [b"new"]


async def test_who_was_forgotten_greets_before_it_gives_anything_up(
    namesrv: str, topic: str
) -> None:
    """A broker that was restarted, or stands in, knows nobody until the next heartbeat (30 s)."""
    await send(namesrv, topic, 3)
    collector = Collector(3)
    async with PushConsumer(namesrv, f"g_{topic}", start="first") as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.start()
        await owned(consumer, topic, 4)
        member, instance = consumer.member, consumer.member.instance
        before = dict(member.owned)
        for address in instance.routes.all_addresses():
            instance.peers.drop(address)
        async with asyncio.timeout(60):
            while instance.client_id in await listed(consumer, topic):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert await member.rebalance()
        assert member.owned == before
        assert instance.client_id in await listed(consumer, topic)
        await collector.wait()


async def listed(consumer: PushConsumer, topic: str) -> list[str]:
    """The group's members as the broker has them; nobody where it knows no such group any more."""
    try:
        return await consumer.member.calls.members(topic)
    except Refused:
        return []
