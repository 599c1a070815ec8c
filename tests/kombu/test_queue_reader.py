"""A queue read by POP: what is not acknowledged stays hidden, what is given back is not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.client.aio.test_stale_routes import NOBODY, mislead

from epochmq import Message, Producer
from epochmq.base.errors import NotReachable, Refused
from epochmq.client.aio.instance import Instance
from epochmq.client.aio.pop_calls import PopCalls
from epochmq.client.core.consumer_state import StartPoint
from epochmq.kombu.queue_reader import QueueReader, UnackedMessage
from epochmq.testing import MiniCluster

TOPIC = "celery"
INVISIBLE_MS = 5_000  # the least that the broker's revive service works with


class Queue:
    """A queue with one reader, and what it offered."""

    def __init__(self, reader: QueueReader, offered: "asyncio.Queue[UnackedMessage]") -> None:
        self.reader = reader
        self._offered = offered

    async def next(self, timeout: float = 20) -> UnackedMessage:
        return await asyncio.wait_for(self._offered.get(), timeout)

    @property
    def is_empty(self) -> bool:
        return self._offered.empty()


@asynccontextmanager
async def reading(*bodies: bytes, room: int = 32, priorities: int = 1) -> AsyncIterator[Queue]:
    """A topic with these messages, and a reader that has room for `room` in all."""
    with MiniCluster() as cluster:
        async with Producer(cluster.namesrv, "P") as producer:
            for body in bodies:
                await producer.send(Message(TOPIC, body), timeout_ms=10_000)
        instance = Instance(cluster.namesrv)
        await instance.start()
        offered: asyncio.Queue[UnackedMessage] = asyncio.Queue()
        given = 0

        def offer(taken: UnackedMessage) -> None:
            nonlocal given
            given += 1
            offered.put_nowait(taken)

        reader = QueueReader(
            instance,
            TOPIC,
            TOPIC,
            start=StartPoint.FIRST,
            invisible_ms=INVISIBLE_MS,
            room=lambda: room - given,
            offer=offer,
            priorities=priorities,
        )
        try:
            yield Queue(reader, offered)
        finally:
            await reader.stop()
            await instance.close()


async def test_only_as_many_as_there_is_room_for_are_popped() -> None:
    async with reading(*[b"%d" % n for n in range(10)], room=3) as queue:
        queue.reader.start()
        for _ in range(3):
            await queue.reader.ack(await queue.next())
        await queue.reader.stop()
        assert queue.is_empty
        left = {taken.message.body async for taken in remaining(queue.reader)}
        assert len(left) == 7


async def remaining(reader: QueueReader) -> AsyncIterator[UnackedMessage]:
    while (taken := await reader.get()) is not None:
        yield taken


async def test_an_unacknowledged_message_stays_hidden_longer_than_its_invisible_time() -> None:
    async with reading(b"long") as queue:
        taken = await queue.reader.get()
        assert taken is not None
        await asyncio.sleep(1.6 * INVISIBLE_MS / 1000)  # time itself is what is tested
        assert await queue.reader.get() is None
        await queue.reader.ack(taken)
        assert await queue.reader.purge() == 0


async def test_what_is_given_back_is_delivered_again() -> None:
    async with reading(b"again", room=2) as queue:
        queue.reader.start()
        await queue.reader.give_back(await queue.next())
        again = await queue.next()
        assert again.message.body == b"again"
        assert again.message.reconsume_times == 1
        await queue.reader.ack(again)


async def test_a_stopped_reader_can_be_started_again() -> None:
    async with reading(b"a") as queue:
        queue.reader.start()
        await queue.reader.stop()
        if not queue.is_empty:
            await queue.reader.give_back(await queue.next())
        queue.reader.start()
        assert (await queue.next()).message.body == b"a"


async def test_purge_acknowledges_all() -> None:
    async with reading(*[b"%d" % n for n in range(100)]) as queue:
        assert await queue.reader.purge() == 100
        assert await queue.reader.get() is None


async def test_a_topic_with_fewer_queues_than_priorities_is_read_all_the_same() -> None:
    """A broker that was added later, or whose topic somebody made smaller."""
    async with reading(*[b"%d" % n for n in range(8)], priorities=10) as queue:
        one = await queue.reader.get()
        assert one is not None
        queue.reader.start()
        bodies = {one.message.body} | {(await queue.next()).message.body for _ in range(7)}
        assert bodies == {b"%d" % n for n in range(8)}


async def test_a_broker_that_refuses_is_not_an_empty_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that was the master until now does; the reader asks for a new route then."""
    async with reading(b"1", priorities=10) as queue:

        async def refused(*_: object, **__: object) -> None:
            raise Refused(1, "this broker is not the master")

        monkeypatch.setattr(PopCalls, "pop", refused)
        with pytest.raises(Refused, match="not the master"):
            await queue.reader.get()
        monkeypatch.undo()
        assert await queue.reader.get() is not None


@pytest.mark.parametrize("call", ["get", "purge"])
async def test_a_reader_asks_the_new_master_next(call: str) -> None:
    """The route names a broker that was killed, and is fresh; the next poll of it is far away."""
    async with reading(b"1") as queue:
        instance, reader = queue.reader._instance, queue.reader
        await instance.ensure_route(TOPIC)
        mislead(instance, TOPIC, NOBODY)
        with pytest.raises(NotReachable):
            await getattr(reader, call)()
        assert await getattr(reader, call)()
