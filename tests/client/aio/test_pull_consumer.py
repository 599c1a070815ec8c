"""Reading by hand against a real broker."""

import asyncio

import pytest

from epochmq.base.errors import NotFound
from epochmq.client.aio import Producer, PullConsumer, Sql
from epochmq.client.core.consumer_state import PullStatus
from epochmq.model.message import Message
from epochmq.model.topic import MessageQueue


@pytest.fixture
async def queue(namesrv: str, topic: str) -> MessageQueue:
    """A queue with ten messages, tags A and B in turn, a property that counts."""
    queue = MessageQueue(topic, "broker-a", 1)
    async with Producer(namesrv, "p") as producer:
        await producer.queues(topic)
        for n in range(10):
            message = Message(topic, b"%d" % n, tags="AB"[n % 2], properties={"n": str(n)})
            await producer.send(message, queue=queue)
    return queue


async def test_filters_by_tag_and_by_sql(namesrv: str, queue: MessageQueue) -> None:
    async with PullConsumer(namesrv, "filters") as consumer:
        tagged = await consumer.pull(queue, 0, expression="B || C")
        assert [message.body for message in tagged.messages] == [b"1", b"3", b"5", b"7", b"9"]
        chosen = await consumer.pull(queue, 0, expression=Sql("n BETWEEN 3 AND 4"))
        assert [message.body for message in chosen.messages] == [b"3", b"4"]


async def test_the_edges_of_a_queue(namesrv: str, queue: MessageQueue) -> None:
    async with PullConsumer(namesrv, "edges") as consumer:
        assert (await consumer.min_offset(queue), await consumer.max_offset(queue)) == (0, 10)
        end = await consumer.pull(queue, 10)
        assert (end.status, end.next_offset, end.max_offset) == (PullStatus.NO_NEW_MSG, 10, 10)
        beyond = await consumer.pull(queue, 50)
        assert (beyond.status, beyond.next_offset) == (PullStatus.OFFSET_ILLEGAL, 10)
        assert await consumer.offset_at(queue, 0) == 0


async def test_a_pull_waits_for_a_message(namesrv: str, queue: MessageQueue) -> None:
    async with PullConsumer(namesrv, "waits") as consumer, Producer(namesrv, "p") as producer:
        waiting = asyncio.create_task(consumer.pull(queue, 10, hold_ms=10_000))
        await producer.send(Message(queue.topic, b"new"), queue=queue)
        result = await waiting
    assert [message.body for message in result.messages] == [b"new"]


async def test_offsets_are_kept_by_the_broker(namesrv: str, queue: MessageQueue) -> None:
    async with PullConsumer(namesrv, "keeps") as consumer:
        assert await consumer.committed(queue) is None
        await consumer.commit(queue, 4)
    async with PullConsumer(namesrv, "keeps") as consumer:
        assert await consumer.committed(queue) == 4


async def test_an_unknown_topic_is_not_found(namesrv: str) -> None:
    async with PullConsumer(namesrv, "nobody") as consumer:
        with pytest.raises(NotFound, match="NoSuchTopic"):
            await consumer.queues("NoSuchTopic")
