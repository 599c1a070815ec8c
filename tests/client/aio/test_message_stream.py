"""Iterating a push consumer, in the loop of an application."""

import asyncio

import pytest
from tests.client.stored import stored

from epochmq import Message, Producer, PushConsumer
from epochmq.base.errors import UsageError
from epochmq.client.aio import ConsumeResult
from epochmq.client.aio.message_stream import MessageSource, MessageStream


async def offered(source: MessageSource, *numbers: int) -> "asyncio.Task[ConsumeResult]":
    task = asyncio.create_task(
        source.listen([stored(b"%d" % number, number) for number in numbers])
    )
    await asyncio.sleep(0)
    return task


async def test_a_message_is_handled_when_the_next_one_is_asked_for() -> None:
    source = MessageSource()
    stream = MessageStream(source)
    first, second = await offered(source, 1), await offered(source, 2)
    assert (await anext(stream)).body == b"1"
    await asyncio.sleep(0)
    assert not first.done()
    assert (await anext(stream)).body == b"2"
    assert await first is ConsumeResult.SUCCESS
    assert not second.done()
    stream.close()
    assert await second is ConsumeResult.LATER


async def test_a_batch_is_handled_with_its_last_message_whoever_has_it() -> None:
    source = MessageSource()
    one, other = MessageStream(source), MessageStream(source)
    batch = await offered(source, 1, 2, 3)
    assert [(await anext(s)).body for s in (one, other, one)] == [b"1", b"2", b"3"]
    next_one = asyncio.create_task(anext(one))
    await asyncio.sleep(0)
    assert not batch.done()
    next_other = asyncio.create_task(anext(other))
    assert await batch is ConsumeResult.SUCCESS
    for task in (next_one, next_other):
        task.cancel()
    await asyncio.gather(next_one, next_other, return_exceptions=True)


async def test_the_end_ends_all_iterators_and_gives_the_rest_back() -> None:
    source = MessageSource()
    streams = [MessageStream(source) for _ in range(3)]
    in_hand = await offered(source, 1)
    await anext(streams[0])
    waiting = [asyncio.create_task(anext(stream)) for stream in streams[1:]]
    await asyncio.sleep(0)
    source.end()
    for task in waiting:
        with pytest.raises(StopAsyncIteration):
            await task
    assert await in_hand is ConsumeResult.LATER
    with pytest.raises(StopAsyncIteration):
        await anext(streams[0])


async def send(namesrv: str, topic: str, count: int) -> None:
    async with Producer(namesrv, "p") as producer:
        for number in range(count):
            await producer.send(Message(topic, b"%d" % number))


async def test_a_loop_consumes_a_topic(namesrv: str, topic: str) -> None:
    await send(namesrv, topic, 10)
    seen: list[bytes] = []
    async with PushConsumer(namesrv, f"g_{topic}", start="first") as consumer:
        await consumer.subscribe(topic)
        async for each in consumer:
            seen.append(each.plain_body())
            if len(seen) == 10:
                break
    assert sorted(seen) == [b"%d" % number for number in range(10)]


async def test_what_was_in_hand_at_the_end_comes_again(namesrv: str, topic: str) -> None:
    await send(namesrv, topic, 3)
    seen: list[bytes] = []
    group = f"g_{topic}"

    async def fail_at_the_second() -> None:
        async with PushConsumer(namesrv, group, start="first", concurrency=1) as consumer:
            await consumer.subscribe(topic)
            async for each in consumer:
                seen.append(each.plain_body())
                if len(seen) == 2:
                    raise RuntimeError("the application fails")

    with pytest.raises(RuntimeError):
        await fail_at_the_second()
    async with PushConsumer(namesrv, group, start="first") as consumer, asyncio.timeout(30):
        await consumer.subscribe(topic)
        async for each in consumer:
            seen.append(each.plain_body())
            if set(seen) == {b"0", b"1", b"2"} and seen.count(seen[1]) == 2:
                break
    assert seen.count(seen[0]) == 1


async def test_several_tasks_share_the_messages(namesrv: str, topic: str) -> None:
    await send(namesrv, topic, 40)
    seen: list[bytes] = []
    done = asyncio.Event()
    async with PushConsumer(namesrv, f"g_{topic}", start="first") as consumer:
        await consumer.subscribe(topic)

        async def work() -> None:
            async for each in consumer:
                seen.append(each.plain_body())
                if len(seen) == 40:
                    done.set()

        workers = [asyncio.create_task(work()) for _ in range(4)]
        async with asyncio.timeout(30):
            await done.wait()
        await consumer.close()
        await asyncio.gather(*workers)
    assert len(set(seen)) == 40


async def test_a_consumer_has_a_listener_or_an_iterator(namesrv: str) -> None:
    async with PushConsumer(namesrv, "g_both") as consumer:
        consumer.on_message(lambda messages: None)
        with pytest.raises(UsageError, match="has a listener"):
            aiter(consumer)
