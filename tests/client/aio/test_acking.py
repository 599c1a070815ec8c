"""Acks beside the listeners: gathered, tried again, given up in time."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import cast

import pytest

from epochmq.base.errors import NotReachable, Refused
from epochmq.client.aio import pop_handling
from epochmq.client.aio.instance import Instance
from epochmq.client.aio.pop_calls import PopCalls
from epochmq.client.aio.pop_handling import Acker
from epochmq.client.core.pop_state import PopHandle


class Broker:
    """Takes acks, or fails as often as it is told to."""

    def __init__(self, *failures: Exception) -> None:
        self.requests: list[list[int]] = []
        self._failures = list(failures)
        self.open = asyncio.Event()
        self.open.set()

    async def ack_all(self, topic: str, broker_name: str, handles: Sequence[PopHandle]) -> None:
        await self.open.wait()
        self.requests.append([handle.offset for handle in handles])
        if self._failures:
            raise self._failures.pop(0)


def handle(offset: int) -> PopHandle:
    return PopHandle(0, 1, 2, 3, "0", "b", 0, offset)


@pytest.fixture
async def instance(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Instance]:
    monkeypatch.setattr(pop_handling, "RETRY_MS", 1)
    made = Instance("127.0.0.1:1")
    yield made
    await made.close()


async def acked(instance: Instance, broker: Broker, count: int, *, for_ms: int = 60_000) -> int:
    """How many of `count` acks ended, one way or the other."""
    acker = Acker(instance, cast(PopCalls, broker))
    ended: list[int] = []
    until = instance.clock.now_ms() + for_ms
    for number in range(count):
        acker.add("T", handle(number), until, lambda: ended.append(1))
    await asyncio.wait_for(acker.drain(), 30)
    return len(ended)


async def test_what_gathers_goes_together(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pop_handling, "BATCH_MAX", 3)
    broker = Broker()
    assert await acked(instance, broker, 5) == 5
    assert broker.requests == [[0, 1, 2], [3, 4]]


async def test_an_ack_that_did_not_arrive_is_tried_again(instance: Instance) -> None:
    broker = Broker(NotReachable("gone"), NotReachable("gone"))
    assert await acked(instance, broker, 2) == 2
    assert broker.requests == [[0, 1]] * 3


async def test_until_others_have_the_message(instance: Instance) -> None:
    broker = Broker(*[NotReachable("gone")] * 10_000)
    assert await acked(instance, broker, 1, for_ms=30) == 1
    assert len(broker.requests) >= 1


async def test_a_refusal_is_final(instance: Instance) -> None:
    broker = Broker(Refused(208, "not there"))
    assert await acked(instance, broker, 1) == 1
    assert len(broker.requests) == 1


async def test_what_comes_while_one_is_under_way_waits_for_it(instance: Instance) -> None:
    broker = Broker()
    broker.open.clear()
    acker = Acker(instance, cast(PopCalls, broker))
    acker.add("T", handle(0), 1 << 60, lambda: None)
    await asyncio.sleep(0)
    acker.add("T", handle(1), 1 << 60, lambda: None)
    acker.add("T", handle(2), 1 << 60, lambda: None)
    broker.open.set()
    await asyncio.wait_for(acker.drain(), 30)
    assert broker.requests == [[0], [1, 2]]
