"""What becomes of a message whose listener fails, where the push consumer's tests do not reach."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.client.aio.collecting import Collector
from tests.client.aio.test_push_consumer import first_dead
from tests.client.aio.test_subscribing import message as failing

from epochmq.client.aio import Admin, ConsumeResult, Producer, PushConsumer
from epochmq.client.aio.consuming import Ordered
from epochmq.model.group import consumer_limit
from epochmq.model.message import Message, StoredMessage
from epochmq.model.topic import MessageQueue, TopicConfig


async def test_an_ordered_message_is_given_up_after_its_tries(namesrv: str, topic: str) -> None:
    group = f"g_{topic}"
    async with Producer(namesrv, "p") as producer:
        for body in (b"bad", b"good"):
            await producer.send_ordered(Message(topic, body), "key")

    def judge(message: StoredMessage) -> ConsumeResult:
        return ConsumeResult.LATER if message.body == b"bad" else ConsumeResult.SUCCESS

    collector = Collector(1, judge)
    async with PushConsumer(
        namesrv, group, start="first", ordered=True, max_reconsume_times=1
    ) as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.start()
        await collector.wait()
    assert [m.body for m in collector.seen] == [b"bad", b"bad", b"good"]
    assert (await first_dead(namesrv, group)).body == b"bad"


@pytest.mark.parametrize(
    ("wanted", "retries", "dead"),
    [
        (-1, 1_000, False),
        (0, 0, True),
        (1, 0, False), (1, 1, True), (1, 2, True),
        (16, 15, False), (16, 16, True), (16, 17, True),
        (None, 1_000, False),
    ],
)  # fmt: skip
async def test_in_order_below_at_and_above_the_limit(
    wanted: int | None, retries: int, dead: bool
) -> None:
    sent: list[int] = []

    async def send_back(message: StoredMessage, name: str, level: int, limit: int) -> None:
        sent.append(level)

    options = SimpleNamespace(max_reconsume_times=consumer_limit(wanted, ordered=True))
    member = SimpleNamespace(options=options, calls=SimpleNamespace(send_back=send_back))
    handling = Ordered(cast(Any, member), cast(Any, None))
    failed = failing("A")
    failed.reconsume_times = retries
    owned = SimpleNamespace(queue=MessageQueue("T", "a", 0))
    assert await handling._gave_up(cast(Any, owned), failed) is dead
    assert sent == ([-1] if dead else [])


async def test_a_broadcast_failure_is_not_repeated(namesrv: str, topic: str, tmp_path) -> None:
    async with Producer(namesrv, "p") as producer:
        for number in range(3):
            await producer.send(Message(topic, b"%d" % number))
    seen: list[bytes] = []
    enough = asyncio.Event()

    async def fail(messages: list[StoredMessage]) -> ConsumeResult:
        seen.extend(m.body for m in messages)
        if len(seen) == 3:
            enough.set()
        return ConsumeResult.LATER

    async with PushConsumer(
        namesrv, f"g_{topic}", model="BROADCASTING", start="first", offsets_dir=tmp_path
    ) as consumer:
        consumer.on_message(fail)
        await consumer.subscribe(topic)
        await consumer.start()
        await asyncio.wait_for(enough.wait(), 20)
    assert sorted(seen) == [b"0", b"1", b"2"]


async def inner_batch(namesrv: str, topic: str) -> None:
    """Three messages in one record of a topic with batch queues."""
    async with Admin(namesrv) as admin:
        batched = {"+queue.type": "BatchCQ"}
        await admin.create_topic(TopicConfig(topic, 1, 1), attributes=batched)
    async with Producer(namesrv, "p") as producer:
        await producer.send_batch([Message(topic, b"%d" % n) for n in range(3)])


async def test_a_message_inside_a_batch_that_fails_comes_again_alone(
    namesrv: str, topic: str
) -> None:
    await inner_batch(namesrv, topic)
    failed: list[bytes] = []

    def fail_one(message: StoredMessage) -> ConsumeResult:
        if message.body == b"1" and not failed:
            failed.append(message.body)
            return ConsumeResult.LATER
        return ConsumeResult.SUCCESS

    collector = Collector(3, fail_one)
    async with PushConsumer(namesrv, f"g_{topic}", start="first") as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.start()
        await collector.wait()
    assert sorted(collector.bodies) == [b"0", b"1", b"2"]
    assert {(m.body, m.reconsume_times, m.topic) for m in collector.accepted} == {
        (b"0", 0, topic), (b"1", 1, topic), (b"2", 0, topic),
    }  # fmt: skip


async def test_an_ordered_consumer_gives_a_message_inside_a_batch_up(
    namesrv: str, topic: str
) -> None:
    await inner_batch(namesrv, topic)
    group = f"g_{topic}"

    def fail_one(message: StoredMessage) -> ConsumeResult:
        return ConsumeResult.LATER if message.body == b"1" else ConsumeResult.SUCCESS

    collector = Collector(2, fail_one)
    async with PushConsumer(
        namesrv, group, start="first", ordered=True, max_reconsume_times=0
    ) as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.start()
        await collector.wait()
        dead = await first_dead(namesrv, group)
    assert collector.bodies == [b"0", b"2"]
    assert (dead.body, dead.properties["RETRY_TOPIC"]) == (b"1", topic)
