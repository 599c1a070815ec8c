"""Reading a topic of a real broker without a group."""

import asyncio

import pytest

from epochmq.admin.messages.following import follow, read_to_end, spans_of
from epochmq.admin.messages.position import FIRST, LAST, PositionKind, StartPosition
from epochmq.base.errors import NotFound
from epochmq.client.aio import Producer, PullConsumer
from epochmq.model.message import Message, StoredMessage


class Taker:
    """Takes until it has `enough`."""

    def __init__(self, enough: int = 1_000) -> None:
        self.bodies: list[bytes] = []
        self._enough = enough

    def __call__(self, messages: list[StoredMessage]) -> bool:
        self.bodies += [message.body for message in messages]
        return len(self.bodies) < self._enough


async def send(namesrv: str, topic: str, *bodies: bytes) -> None:
    async with Producer(namesrv, "p") as producer:
        for body in bodies:
            await producer.send(Message(topic, body))


async def read(consumer: PullConsumer, topic: str, position: StartPosition) -> list[bytes]:
    taker = Taker()
    spans = await spans_of(consumer, topic, position)
    assert await read_to_end(consumer, spans, "*", taker)
    return taker.bodies


async def test_from_every_kind_of_position(namesrv: str, topic: str) -> None:
    bodies = [b"%d" % number for number in range(8)]  # two in each of four queues
    await send(namesrv, topic, *bodies)
    async with PullConsumer(namesrv, "reads") as consumer:
        assert await read(consumer, topic, FIRST) == bodies
        assert await read(consumer, topic, LAST) == []
        assert await read(consumer, topic, StartPosition(PositionKind.OFFSET, 1)) == bodies[4:]
        assert await read(consumer, topic, StartPosition(PositionKind.OFFSET, 99)) == []
        assert await read(consumer, topic, StartPosition(PositionKind.BACK, 1)) == bodies[4:]
        assert await read(consumer, topic, StartPosition(PositionKind.BACK, 99)) == bodies
        assert await read(consumer, topic, StartPosition(PositionKind.TIME, 1)) == bodies
        enough = Taker(3)
        spans = await spans_of(consumer, topic, FIRST)
        assert not await read_to_end(consumer, spans, "*", enough)
        assert enough.bodies == bodies[:3]


async def test_following_sees_what_comes(namesrv: str, topic: str) -> None:
    await send(namesrv, topic, b"old")
    async with PullConsumer(namesrv, "reads") as consumer:
        spans = await spans_of(consumer, topic, LAST)
        taker = Taker(3)
        following = asyncio.create_task(follow(consumer, spans, "*", taker))
        await send(namesrv, topic, b"a", b"b", b"c")
        await asyncio.wait_for(following, 20)
    assert sorted(taker.bodies) == [b"a", b"b", b"c"]


async def test_an_error_ends_following(namesrv: str, topic: str) -> None:
    await send(namesrv, topic, b"old")

    def fail(messages: list[StoredMessage]) -> bool:
        raise BrokenPipeError

    async with PullConsumer(namesrv, "reads") as consumer:
        spans = await spans_of(consumer, topic, LAST)
        following = asyncio.create_task(follow(consumer, spans, "*", fail))
        await send(namesrv, topic, b"a")
        with pytest.raises(BrokenPipeError):
            await asyncio.wait_for(following, 20)


async def test_no_topic_is_not_found(namesrv: str) -> None:
    async with PullConsumer(namesrv, "reads") as consumer:
        with pytest.raises(NotFound):
            await spans_of(consumer, "NoSuchTopic", FIRST)
