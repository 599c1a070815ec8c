"""Deadlines of a loop that was kept from running."""

import asyncio
import time

import pytest

from epochmq.base.errors import NotReachable
from epochmq.client.aio import Producer
from epochmq.client.aio.in_flight import STALL_MS, STRETCH_MAX, TICK_MS, LoopTime
from epochmq.model.message import Message


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


async def test_time_that_passes_counts_and_a_stall_does_not() -> None:
    clock = Clock()
    loop_time = LoopTime(clock)
    deadline = loop_time.begin(1_000)
    assert deadline.left_ms() == 1_000
    for _ in range(5):
        clock.now_ms += TICK_MS
        assert deadline.stalled_ms() == 0
    assert deadline.left_ms() == 1_000 - 5 * TICK_MS
    left_ms = deadline.left_ms()
    clock.now_ms += TICK_MS + STALL_MS  # ordinary load
    assert deadline.left_ms() == left_ms - TICK_MS - STALL_MS
    left_ms = deadline.left_ms()
    clock.now_ms += 700
    assert deadline.left_ms() == left_ms - TICK_MS
    later = loop_time.begin(1_000)
    assert (later.left_ms(), later.stalled_ms()) == (1_000, 0)
    loop_time.end()
    clock.now_ms += 60_000
    assert deadline.stalled_ms() > STRETCH_MAX * 1_000
    assert deadline.left_ms() < 0
    loop_time.end()


async def test_idle_time_is_no_stall() -> None:
    clock = Clock()
    loop_time = LoopTime(clock)
    for _ in range(3):
        deadline = loop_time.begin(10)
        clock.now_ms += 1
        assert deadline.stalled_ms() == 0
        loop_time.end()
        clock.now_ms += 60_000
    assert len(asyncio.all_tasks()) == 1


async def test_a_send_outlives_a_stall_that_is_longer_than_its_timeout(
    namesrv: str, topic: str
) -> None:
    async with Producer(namesrv, "p", timeout_ms=1_000) as producer:
        for _ in range(2):  # with connections to be made, and with those that are there
            sends = [asyncio.create_task(producer.send(Message(topic, b"x"))) for _ in range(20)]
            for _ in range(2):
                await asyncio.sleep(0.0005)
                time.sleep(1.6)
            await asyncio.gather(*sends)


async def test_the_error_tells_of_a_stall(topic: str) -> None:
    async with Producer("127.0.0.1:1", "p", timeout_ms=200) as producer:
        send = asyncio.create_task(producer.send(Message(topic, b"x")))
        await asyncio.sleep(0)
        time.sleep(0.5)
        with pytest.raises(NotReachable, match=r"kept its event loop from running for \d+ ms"):
            await send
