"""Pauses, seeks and readiness of a push consumer."""

import asyncio

import pytest
from tests.client.aio.collecting import Collector

from epochmq.base.errors import NotReachable, UsageError
from epochmq.client.aio import Producer, PushConsumer
from epochmq.client.aio.pauses import Pauses
from epochmq.model.message import Message, StoredMessage
from epochmq.model.topic import MessageQueue

ONE, OTHER = MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)


async def test_a_queue_is_paused_by_name_or_with_all_others() -> None:
    pauses = Pauses()
    await pauses.wait(ONE)
    pauses.pause([ONE])
    assert (pauses.holds(ONE), pauses.holds(OTHER)) == (True, False)
    pauses.pause(None)
    assert pauses.holds(OTHER)
    waiting = asyncio.create_task(pauses.wait(OTHER))
    await asyncio.sleep(0)
    pauses.resume([ONE])
    assert pauses.holds(ONE), "all are paused still"
    pauses.resume(None)
    await waiting
    assert not pauses.holds(ONE)
    pauses.resume([ONE])


async def test_a_resume_of_one_queue_wakes_it_alone() -> None:
    pauses = Pauses()
    pauses.pause([ONE, OTHER])
    waits = [asyncio.create_task(pauses.wait(queue)) for queue in (ONE, OTHER)]
    await asyncio.sleep(0)
    pauses.resume([ONE])
    await waits[0]
    await asyncio.sleep(0)
    assert not waits[1].done()
    pauses.resume(None)
    await waits[1]


async def send(namesrv: str, topic: str, *bodies: bytes) -> None:
    async with Producer(namesrv, "p") as producer:
        for body in bodies:
            await producer.send(Message(topic, body))


async def test_a_ready_consumer_owns_its_queues(namesrv: str, topic: str) -> None:
    await send(namesrv, topic, b"x")
    async with PushConsumer(namesrv, f"g_{topic}") as consumer:
        consumer.on_message(lambda messages: None)
        await consumer.subscribe(topic)
        with pytest.raises(NotReachable, match=r"no share of the queues after 0\.05 s"):
            await consumer.ready(timeout=0.05)
        await consumer.start()
        await consumer.ready(timeout=20)
        queues = consumer.assignment()
        assert [queue.queue_id for queue in queues] == [0, 1, 2, 3]
        assert {queue.topic for queue in queues} == {topic}


async def test_a_paused_consumer_handles_nothing_new(namesrv: str, topic: str) -> None:
    await send(namesrv, topic, b"first")
    got = Collector(1)
    async with PushConsumer(namesrv, f"g_{topic}", start="first") as consumer:
        consumer.on_message(got)
        await consumer.subscribe(topic)
        consumer.pause()
        await consumer.start()
        await consumer.ready(timeout=20)
        await asyncio.sleep(0.3)
        assert got.bodies == []
        consumer.resume()
        await got.wait()
        assert got.bodies == [b"first"]


async def test_a_seek_reads_again_or_skips(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "p") as producer:
        results = [await producer.send_ordered(Message(topic, b"%d" % n), "k") for n in range(6)]
    queue = results[0].queue
    seen: list[bytes] = []
    more = asyncio.Event()

    def listen(messages: list[StoredMessage]) -> None:
        seen.extend(message.plain_body() for message in messages)
        more.set()

    async def until(count: int) -> None:
        async with asyncio.timeout(30):
            while len(seen) < count:
                more.clear()
                await more.wait()

    async with PushConsumer(namesrv, f"g_{topic}", start="first", ordered=True) as consumer:
        consumer.on_message(listen)
        await consumer.subscribe(topic)
        await consumer.start()
        await until(6)
        await consumer.seek(queue, 4)
        await until(8)
        assert seen == [b"%d" % n for n in (0, 1, 2, 3, 4, 5, 4, 5)]
        with pytest.raises(UsageError, match="does not own"):
            await consumer.seek(MessageQueue(topic, queue.broker_name, 99), 0)


async def test_a_listener_in_a_thread_may_block(namesrv: str, topic: str) -> None:
    import threading

    await send(namesrv, topic, b"x")
    names: list[str] = []
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def listen(messages: list[StoredMessage]) -> None:
        names.append(threading.current_thread().name)
        loop.call_soon_threadsafe(done.set)

    async with PushConsumer(namesrv, f"g_{topic}", start="first") as consumer:
        consumer.on_message(listen, in_thread=True)
        await consumer.subscribe(topic)
        await consumer.start()
        async with asyncio.timeout(30):
            await done.wait()
    assert names[0].startswith("asyncio_")


async def test_few_messages_are_buffered(namesrv: str, topic: str) -> None:
    await send(namesrv, topic, *[b"%d" % n for n in range(40)])
    gate = asyncio.Event()
    async with PushConsumer(
        namesrv, f"g_{topic}", start="first", max_buffered_messages=2, concurrency=1
    ) as consumer:
        got = Collector(40)

        async def listen(messages: list[StoredMessage]) -> object:
            await gate.wait()
            return await got(messages)

        consumer.on_message(listen)  # type: ignore[arg-type]
        await consumer.subscribe(topic)
        await consumer.start()
        await consumer.ready(timeout=20)
        await asyncio.sleep(0.3)
        held = [len(owned.window._undone) for owned in consumer.member.owned.values()]
        assert max(held) <= 2
        gate.set()
        await got.wait()
