"""Membership of a group: subscriptions that change, offsets outside the queue, restored topics."""

import asyncio

from tests.client.aio.collecting import Collector
from tests.client.aio.test_push_consumer import owned, send
from tests.client.aio.test_subscribing import message

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
