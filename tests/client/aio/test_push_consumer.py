"""The push consumer against a real broker: groups, order, retry, broadcast."""

import asyncio
from pathlib import Path

import pytest
from tests.client.aio.collecting import Collector

from epochmq.base.errors import UsageError
from epochmq.client.aio import ConsumeResult, Producer, PullConsumer, PushConsumer, Sql
from epochmq.model.message import Message, StoredMessage
from epochmq.model.names import dlq_topic


async def send(namesrv: str, topic: str, count: int) -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    async with Producer(namesrv, "p") as producer:
        for number, body in enumerate(bodies):
            message = Message(topic, body, tags="AB"[number % 2], properties={"n": str(number)})
            await producer.send_ordered(message, str(number % 7))
    return bodies


async def test_a_group_gets_all_and_goes_on_where_it_was(namesrv: str, topic: str) -> None:
    bodies = await send(namesrv, topic, 30)
    first = Collector(30)
    async with PushConsumer(namesrv, f"g_{topic}", start="first") as consumer:
        consumer.on_message(first)
        await consumer.subscribe(topic)
        await consumer.start()
        await first.wait()
    assert sorted(first.bodies) == sorted(bodies)
    second = Collector(1)
    async with PushConsumer(namesrv, f"g_{topic}", start="first") as consumer:
        consumer.on_message(second)
        await consumer.subscribe(topic)
        await consumer.start()
        async with Producer(namesrv, "p") as producer:
            await producer.send(Message(topic, b"new"))
        await second.wait()
    assert second.bodies == [b"new"]


async def test_a_member_that_finishes_leaves_the_rest_to_the_next(namesrv: str, topic: str) -> None:
    bodies = await send(namesrv, topic, 20)
    enough = asyncio.Event()
    taken: list[bytes] = []
    async with PushConsumer(namesrv, f"g_{topic}", start="first", concurrency=1) as consumer:

        def take_seven(messages: list[StoredMessage]) -> ConsumeResult:
            if len(taken) == 7:
                consumer.finish()
                enough.set()
                return ConsumeResult.LATER
            taken.append(messages[0].body)
            return ConsumeResult.SUCCESS

        consumer.on_message(take_seven)
        await consumer.subscribe(topic)
        await consumer.start()
        await enough.wait()
    rest = Collector(13)
    async with PushConsumer(namesrv, f"g_{topic}", start="first") as consumer:
        consumer.on_message(rest)
        await consumer.subscribe(topic)
        await consumer.start()
        await rest.wait()
        assert consumer.is_settled
        assert sum(consumer.progress().values()) == 20
    assert sorted(taken + rest.bodies) == sorted(bodies)


async def test_closing_ends_though_the_members_change_just_then(namesrv: str, topic: str) -> None:
    await send(namesrv, topic, 1)
    consumer = PushConsumer(namesrv, f"g_{topic}")
    consumer.on_message(Collector(1))
    await consumer.subscribe(topic)
    await consumer.start()
    await owned(consumer, topic, 4)
    consumer.member._rebalance_now.set()
    async with asyncio.timeout(20):
        await consumer.instance.close(consumer=consumer.group)
    await consumer.close()


async def test_two_members_share_and_one_takes_over(namesrv: str, topic: str) -> None:
    await send(namesrv, topic, 1)
    one, two = Collector(1), Collector(1)
    async with PushConsumer(namesrv, f"g_{topic}", start="last", name="one") as first:
        first.on_message(one)
        await first.subscribe(topic)
        await first.start()
        async with PushConsumer(namesrv, f"g_{topic}", start="last", name="two") as second:
            second.on_message(two)
            await second.subscribe(topic)
            await second.start()
            await owned(first, topic, 2)
            await owned(second, topic, 2)
        await owned(first, topic, 4)


async def owned(consumer: PushConsumer, topic: str, count: int) -> None:
    """Wait until `consumer` owns `count` queues of `topic`."""

    def mine() -> int:
        return sum(queue.topic == topic for queue in consumer.member.owned)

    async with asyncio.timeout(20):
        while mine() != count:  # noqa: ASYNC110 - the member has no event to await from outside
            await asyncio.sleep(0.02)


async def test_ordered_consumption_repeats_in_place(namesrv: str, topic: str) -> None:
    bodies = await send(namesrv, topic, 14)
    failed: set[str] = set()

    def fail_once(message: StoredMessage) -> ConsumeResult:
        if message.queue_offset == 1 and message.msg_id not in failed:
            failed.add(message.msg_id)
            return ConsumeResult.LATER
        return ConsumeResult.SUCCESS

    collector = Collector(14, fail_once)
    async with PushConsumer(namesrv, f"g_{topic}", start="first", ordered=True) as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.start()
        await collector.wait()
    assert sorted(collector.bodies) == sorted(bodies)
    for queue_id in range(4):
        offsets = [m.queue_offset for m in collector.accepted if m.queue_id == queue_id]
        assert offsets == sorted(offsets)


async def test_a_failed_message_comes_again_and_then_goes_to_the_dead(
    namesrv: str, topic: str
) -> None:
    await send(namesrv, topic, 1)
    group = f"g_{topic}"
    tries: list[int] = []
    again = asyncio.Event()

    async def fail(messages: list[StoredMessage]) -> ConsumeResult:
        assert messages[0].topic == topic
        tries.append(messages[0].reconsume_times)
        if len(tries) == 2:
            again.set()
        raise RuntimeError("the listener fails on purpose")

    async with PushConsumer(namesrv, group, start="first", max_reconsume_times=1) as consumer:
        consumer.on_message(fail)
        await consumer.subscribe(topic)
        await consumer.start()
        await asyncio.wait_for(again.wait(), 60)
        dead = await first_dead(namesrv, group)
    assert tries == [0, 1]
    assert dead.body == b"0"


async def first_dead(namesrv: str, group: str) -> StoredMessage:
    async with PullConsumer(namesrv, "undertaker") as consumer, asyncio.timeout(20):
        while True:
            try:
                (queue,) = await consumer.queues(dlq_topic(group))
            except Exception:
                await asyncio.sleep(0.1)
                continue
            result = await consumer.pull(queue, 0, hold_ms=5_000)
            if result.messages:
                return result.messages[0]


async def test_broadcasting_members_each_get_all(namesrv: str, topic: str, tmp_path: Path) -> None:
    bodies = await send(namesrv, topic, 6)
    for member in ("one", "two"):
        collector = Collector(6)
        async with PushConsumer(
            namesrv,
            f"g_{topic}",
            model="BROADCASTING",
            start="first",
            offsets_dir=tmp_path / member,
        ) as consumer:
            consumer.on_message(collector)
            await consumer.subscribe(topic)
            await consumer.start()
            await collector.wait()
        assert sorted(collector.bodies) == sorted(bodies)
        assert (tmp_path / member).exists()


@pytest.mark.parametrize("expression", ["A", Sql("n IN ('0', '2', '4')")])
async def test_subscriptions_filter(namesrv: str, topic: str, expression: str | Sql) -> None:
    await send(namesrv, topic, 6)
    collector = Collector(3)
    async with PushConsumer(namesrv, f"g_{topic}", start="first") as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic, expression)
        await consumer.start()
        await collector.wait()
    assert sorted(collector.bodies) == [b"0", b"2", b"4"]


async def test_wrong_use_is_told_at_once(namesrv: str) -> None:
    with pytest.raises(UsageError, match="start"):
        PushConsumer(namesrv, "g", start="middle")
    with pytest.raises(UsageError, match="model"):
        PushConsumer(namesrv, "g", model="SHOUTING")
    async with PushConsumer(namesrv, "g") as consumer:
        with pytest.raises(UsageError, match="listener"):
            await consumer.start()
