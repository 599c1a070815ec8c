"""Messages that a producer sends in batches by itself."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from epochmq.base.errors import NotReachable, Outcome, UsageError
from epochmq.client.aio import Admin, Producer, PullConsumer, SendResult
from epochmq.client.aio.batching import BYTES_MAX, COUNT_MAX, Batching, parts
from epochmq.client.core.send_policy import SendStatus
from epochmq.model.message import Message
from epochmq.model.topic import MessageQueue, TopicConfig

QUEUE = MessageQueue("T", "b", 0)


def result(count: int) -> SendResult:
    ids, places = (",".join(f"{kind}{n}" for n in range(count)) for kind in ("id", "at"))
    return SendResult(SendStatus.SEND_OK, ids, places, QUEUE, 100)


class Sent:
    """Remembers batches; `gate` holds them back."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.batches: list[list[bytes]] = []
        self.error = error

    async def send(self, messages: Sequence[Message]) -> SendResult:
        self.batches.append([message.body for message in messages])
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return result(len(messages))


def batching(sent: Sent, linger_ms: float = 0) -> Batching:
    def spawn(work: Any, name: str) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work, name=name)

    return Batching(sent.send, spawn, linger_ms, 4_096)


async def test_what_is_sent_at_one_time_is_one_batch_for_each_topic() -> None:
    sent = Sent()
    maker = batching(sent)
    messages = [Message("AB"[n % 2], b"%d" % n) for n in range(6)]
    results = await asyncio.gather(*map(maker.send, messages))
    assert sent.batches == [[b"0", b"2", b"4"], [b"1", b"3", b"5"]]
    assert [each.msg_id for each in results] == ["id0", "id0", "id1", "id1", "id2", "id2"]
    assert [each.queue_offset for each in results] == [100, 100, 101, 101, 102, 102]


async def test_the_first_message_waits_for_others() -> None:
    sent = Sent()
    maker = batching(sent, linger_ms=50)
    first = asyncio.create_task(maker.send(Message("T", b"1")))
    await asyncio.sleep(0.01)
    second = asyncio.create_task(maker.send(Message("T", b"2")))
    assert sent.batches == []
    await asyncio.gather(first, second)
    assert sent.batches == [[b"1", b"2"]]


@pytest.mark.parametrize(("size", "count"), [(1, COUNT_MAX), (BYTES_MAX // 4, 4)])
async def test_a_full_batch_waits_for_nothing(size: int, count: int) -> None:
    sent = Sent()
    maker = batching(sent, linger_ms=10_000)
    async with asyncio.timeout(5):
        await asyncio.gather(*(maker.send(Message("T", b"x" * size)) for _ in range(2 * count)))
    assert [len(batch) for batch in sent.batches] == [count, count]


async def test_an_error_reaches_every_sender_as_its_own_object() -> None:
    maker = batching(Sent(NotReachable("lost", Outcome.UNKNOWN)))
    results = await asyncio.gather(
        *(maker.send(Message("T", b"x")) for _ in range(3)), return_exceptions=True
    )
    errors = [each for each in results if isinstance(each, NotReachable)]
    assert len({id(error) for error in errors}) == 3
    assert {(str(error), error.outcome) for error in errors} == {("lost", Outcome.UNKNOWN)}


async def test_a_sender_that_is_cancelled_disturbs_no_other() -> None:
    sent = Sent()
    maker = batching(sent, linger_ms=20)
    tasks = [asyncio.create_task(maker.send(Message("T", b"%d" % n))) for n in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in done] == [SendResult, asyncio.CancelledError, SendResult]
    assert [each.queue_offset for each in done if isinstance(each, SendResult)] == [100, 102]


def test_which_messages_can_be_in_a_batch() -> None:
    maker = batching(Sent())
    assert maker.accepts(Message("T", b"x" * 4_095))
    assert not maker.accepts(Message("T", b"x" * 4_096)), "it would be compressed"
    assert not maker.accepts(Message("T", b"x", delay_level=3))
    assert not maker.accepts(Message("%RETRY%g", b"x"))


def test_the_result_of_a_batch_that_is_one_record() -> None:
    one_place = SendResult(SendStatus.SEND_OK, "a,b", "place", QUEUE, 7)
    assert [(p.msg_id, p.offset_msg_id, p.queue_offset) for p in parts(one_place, 2)] == [
        ("a", "place", 7), ("b", "place", 8)
    ]  # fmt: skip
    assert parts(one_place, 1) == [one_place]


async def test_each_message_is_where_its_result_says(namesrv: str, topic: str) -> None:
    async with Admin(namesrv) as admin:
        await admin.create_topic(TopicConfig(topic, 4, 4))
    messages = [Message(topic, b"%d" % n, keys=(f"k{n}",)) for n in range(2_000)]
    async with Producer(namesrv, "p", linger_ms=1) as producer:
        results = await asyncio.gather(*map(producer.send, messages))
    assert len({each.msg_id for each in results}) == 2_000
    assert not any("UNIQ_KEY" in message.properties for message in messages)
    places = {(each.queue.queue_id, each.queue_offset): each.msg_id for each in results}
    assert len(places) == 2_000
    bodies = {each.msg_id: message.body for each, message in zip(results, messages, strict=True)}
    async with PullConsumer(namesrv, "g") as consumer:
        for queue in await consumer.queues(topic):
            offset, end = 0, await consumer.max_offset(queue)
            while offset < end:
                pulled = await consumer.pull(queue, offset)
                for found in pulled.messages:
                    assert places[queue.queue_id, found.queue_offset] == found.msg_id
                    assert bodies[found.msg_id] == found.body
                offset = pulled.next_offset


async def test_what_cannot_wait_goes_alone(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "p", linger_ms=10_000) as producer, asyncio.timeout(20):
        await producer.send_ordered(Message(topic, b"1"), "k")
        await producer.send(Message(topic, b"2"), timeout_ms=3_000)
        await producer.send(Message(topic, b"3" * 5_000))
        first = (await producer.queues(topic))[0]
        await producer.send(Message(topic, b"4"), queue=first)


async def test_mistakes(namesrv: str, topic: str) -> None:
    for wrong in (-1, 60_001):
        with pytest.raises(UsageError, match="linger_ms is"):
            Producer(namesrv, linger_ms=wrong)
    async with Producer(namesrv, "p", linger_ms=0) as producer:
        with pytest.raises(UsageError, match="control character"):
            await producer.send(Message(topic, b"x", properties={"a": "\x01"}))
        assert await producer.send(Message(topic, b"x"))
