"""Membership of a group: subscriptions that change, offsets outside the queue, restored topics."""

import asyncio

import pytest
from tests.client.aio.collecting import Collector
from tests.client.aio.test_push_consumer import owned, send
from tests.client.aio.test_subscribing import message

from epochmq.base.errors import Refused, UsageError
from epochmq.client.aio import ConsumeResult, Producer, PullConsumer, PushConsumer
from epochmq.client.aio.group_member import restore_topic
from epochmq.model.message import Message, StoredMessage
from epochmq.model.topic import MessageQueue


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


async def test_a_topic_that_is_created_later_is_consumed_soon(namesrv: str, topic: str) -> None:
    # Another topic keeps the consumer from looking at once; a rebalance comes every 20 s else.
    later, collector = f"{topic}_later", Collector(1)
    await send(namesrv, topic, 1)
    async with PushConsumer(namesrv, f"g_{topic}") as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.subscribe(later)
        await consumer.start()
        await consumer.ready()
        await send(namesrv, later, 1)
        async with asyncio.timeout(8):
            await collector.wait()


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


async def test_a_forgotten_member_sends_a_heartbeat_before_it_releases_queues(
    namesrv: str, topic: str
) -> None:
    """A restarted broker or acting master knows no member until the next heartbeat (30 s)."""
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


async def test_nothing_is_skipped_that_was_sent_after_start(namesrv: str, topic: str) -> None:
    """Queues are taken after `start` returned; "last" is where they ended when it was called."""
    await send(namesrv, topic, 10)
    new = f"{topic}_new"
    collector = Collector(30)
    async with (
        PushConsumer(namesrv, f"g_{topic}") as consumer,
        Producer(namesrv, "p") as producer,
    ):
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.subscribe(new)  # is not there yet
        rebalance, may_begin = consumer.member.rebalance, asyncio.Event()

        async def rebalance_late() -> bool:
            await may_begin.wait()
            return await rebalance()

        consumer.member.rebalance = rebalance_late  # type: ignore[method-assign]
        await consumer.start()
        sent = []
        for number in range(30):
            body = b"after %d" % number
            sent.append(body)
            await producer.send(Message(new if number % 3 == 0 else topic, body))
        may_begin.set()
        await collector.wait()
    assert sorted(collector.bodies) == sorted(sent)


async def test_no_more_is_buffered_than_wanted(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "p", compress_over_bytes=1 << 30) as producer:
        queue = MessageQueue(topic, "broker-a", 0)
        for _ in range(20):
            await producer.send(Message(topic, bytes(4_000)), queue=queue)
    collector, go_on = Collector(20), asyncio.Event()

    async def slow(messages: list[StoredMessage]) -> ConsumeResult:
        await go_on.wait()
        return await collector(messages)

    async with PushConsumer(
        namesrv, f"g_{topic}", start="first", pull_count=2, max_buffered_bytes=10_000
    ) as consumer:
        consumer.on_message(slow)
        await consumer.subscribe(topic)
        await consumer.start()
        await owned(consumer, topic, 4)
        window = consumer.member.owned[queue].window
        async with asyncio.timeout(20):
            while not window.is_full():  # noqa: ASYNC110 - the window has no event
                await asyncio.sleep(0.02)
        assert window.statistics()["cachedMsgCount"] == 4
        go_on.set()
        await collector.wait()


def test_a_senseless_bound_is_refused() -> None:
    with pytest.raises(UsageError, match="max_buffered_bytes"):
        PushConsumer("127.0.0.1:1", "g", max_buffered_bytes=0)
