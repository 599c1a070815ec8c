"""Several queues as one stream."""

import asyncio
from collections import defaultdict
from typing import cast

import pytest
from tests.client.aio.test_subscribing import message

from epochmq.admin.messages.following import AHEAD_MAX, PulledSpan, merged
from epochmq.base.errors import NotReachable
from epochmq.client.aio import PullConsumer, PullResult, Sql
from epochmq.client.core.consumer_state import PullStatus
from epochmq.model.message import StoredMessage
from epochmq.model.topic import MessageQueue

ONE, TWO = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)


class Shelf:
    """Stands in for a consumer: queues as lists; `None` for a broker that is away."""

    def __init__(self) -> None:
        self.queues: dict[MessageQueue, list[StoredMessage] | None] = defaultdict(list)

    def put(self, queue: MessageQueue, *stored_ms: int) -> None:
        held = self.queues[queue]
        assert held is not None
        for wall in stored_ms:
            made = message("A")
            made.queue_id, made.queue_offset = queue.queue_id, len(held)
            made.store_wall_ms, made.offset = wall, wall * 10 + queue.queue_id
            held.append(made)

    async def pull(
        self, queue: MessageQueue, offset: int, *, count: int, expression: str | Sql
    ) -> PullResult:
        await asyncio.sleep(0)
        held = self.queues[queue]
        if held is None:
            raise NotReachable("away")
        found = held[offset : offset + min(count, 3)]
        status = PullStatus.FOUND if found else PullStatus.OFFSET_ILLEGAL
        return PullResult(status, found, offset + len(found), 0, len(held))


async def stream(shelf: Shelf, *spans: PulledSpan) -> list[tuple[int, int]]:
    found = merged(cast(PullConsumer, shelf), spans, "*")
    return [(m.store_wall_ms, m.queue_id) async for m in found]


async def test_the_order_of_storing() -> None:
    shelf = Shelf()
    shelf.put(ONE, 1, 4, 5, 9)
    shelf.put(TWO, 2, 3, 5)
    assert await stream(shelf, PulledSpan(ONE, 0, 4), PulledSpan(TWO, 0, 3)) == [
        (1, 0),
        (2, 1),
        (3, 1),
        (4, 0),
        (5, 0),
        (5, 1),
        (9, 0),
    ]


async def test_only_what_lies_in_the_span() -> None:
    shelf = Shelf()
    shelf.put(ONE, *range(10))
    assert await stream(shelf, PulledSpan(ONE, 2, 4)) == [(2, 0), (3, 0)]
    assert await stream(shelf, PulledSpan(ONE, 4, 4)) == []


async def test_a_long_queue_waits_for_its_reader() -> None:
    shelf = Shelf()
    shelf.put(ONE, *range(AHEAD_MAX * 2))
    assert len(await stream(shelf, PulledSpan(ONE, 0, AHEAD_MAX * 2))) == AHEAD_MAX * 2


async def test_a_queue_that_was_cut_ends() -> None:
    shelf = Shelf()
    shelf.put(ONE, 1)
    assert await stream(shelf, PulledSpan(ONE, 0, 50)) == [(1, 0)]


async def test_an_error_is_the_readers() -> None:
    shelf = Shelf()
    shelf.queues[ONE] = None
    with pytest.raises(NotReachable):
        await stream(shelf, PulledSpan(ONE, 0, 5))
