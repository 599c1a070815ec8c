"""What becomes of popped messages, where a broker's own timing would be in the way."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest
from tests.client.aio.test_pop_member import World, message

from epochmq.base.errors import NotReachable, Refused
from epochmq.client.aio import ConsumeResult
from epochmq.client.aio.pop_handling import Fates, PopConcurrent, PopOrdered
from epochmq.client.aio.pop_member import HeldMessage, Share
from epochmq.client.core.pop_state import PopHandle, handle_of
from epochmq.model.group import consumer_limit
from epochmq.model.message import StoredMessage
from epochmq.model.topic import MessageQueue

Fate = tuple[str, int, int]


class Broker:
    """Notes what it is told of which offset."""

    def __init__(self) -> None:
        self.told: list[Fate] = []
        self.problem: Exception | None = None

    def _note(self, what: str, handle: PopHandle, value: int = 0) -> None:
        self.told.append((what, handle.offset, value))
        if self.problem is not None:
            raise self.problem

    async def ack(self, topic: str, handle: PopHandle) -> None:
        self._note("ack", handle)

    async def ack_all(self, topic: str, broker_name: str, handles: Sequence[PopHandle]) -> None:
        for handle in handles:
            self._note("ack", handle)

    async def change_invisible(self, topic: str, handle: PopHandle, invisible_ms: int) -> PopHandle:
        self._note("hide", handle, invisible_ms)
        return handle


class Place:
    """A member whose broker is the test's; `wants` says what the listener answers."""

    def __init__(self, **more: Any) -> None:
        world = World(**more)
        self.member = world.member
        self.broker = Broker()
        self.member.calls = cast(Any, self.broker)
        self.seen: list[int] = []
        self.wants = ConsumeResult.SUCCESS
        self.share = Share(MessageQueue("T", "a", -1))

    async def listener(self, messages: Sequence[StoredMessage]) -> ConsumeResult:
        self.seen += [each.queue_offset for each in messages]
        return self.wants

    def taken(self, offset: int, *, queue_id: int = 0, late: bool = False) -> HeldMessage:
        made = message(offset)
        handle = handle_of(made)
        handle = PopHandle(0, 1000, 60_000, 3, "0", "a", queue_id, handle.offset)
        self.share.in_flight += 1
        now = self.member.instance.clock.now_ms()
        return HeldMessage(made, handle, now - 1 if late else now + 60_000, self.share)

    async def concurrently(self, *taken: HeldMessage) -> list[Fate]:
        handling = PopConcurrent(self.member, self.listener, 1)
        handling.start()
        await handling.popped(list(taken))
        await asyncio.wait_for(handling.drain(), 10)
        return self.broker.told

    async def in_order(self, *taken: HeldMessage) -> list[Fate]:
        handling = PopOrdered(self.member, self.listener)
        handling.start()
        await handling.popped(list(taken))
        await asyncio.wait_for(handling.drain(), 10)
        return self.broker.told


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    made = Place()
    yield made
    await made.member.instance.close()


async def test_success_is_acknowledged(place: Place) -> None:
    assert await place.concurrently(place.taken(1), place.taken(2)) == [
        ("ack", 1, 0),
        ("ack", 2, 0),
    ]
    assert place.share.in_flight == 0


async def test_a_failure_stays_away_longer_each_time(place: Place) -> None:
    place.wants = ConsumeResult.LATER
    second = place.taken(2)
    second.message.reconsume_times = 1
    told = await place.concurrently(place.taken(1), second)
    assert told == [("hide", 1, 10_000), ("hide", 2, 30_000)]
    assert place.share.in_flight == 0


async def test_what_waited_too_long_is_not_ours_any_more(place: Place) -> None:
    assert await place.concurrently(place.taken(1, late=True)) == []
    assert await place.in_order(place.taken(2, late=True)) == []
    assert (place.seen, place.share.in_flight) == ([], 0)


async def test_what_was_handled_too_long_is_not_either(place: Place) -> None:
    taken = place.taken(1)

    async def slow(messages: Sequence[StoredMessage]) -> ConsumeResult:
        taken.until_ms = 0
        return ConsumeResult.SUCCESS

    place.listener = slow  # type: ignore[method-assign]
    assert await place.concurrently(taken) == []
    taken = place.taken(2)
    assert await place.in_order(taken) == []


async def test_stopping_gives_back_what_nobody_began(place: Place) -> None:
    place.member.is_stopping = True
    assert await place.concurrently(place.taken(1)) == [("hide", 1, 1_000)]
    assert await place.in_order(place.taken(2), place.taken(3)) == [
        ("hide", 1, 1_000),
        ("hide", 2, 1_000),
        ("hide", 3, 1_000),
    ]
    assert (place.seen, place.share.in_flight) == ([], 0)


async def test_in_order_a_failure_holds_those_behind_it(place: Place) -> None:
    rows = [place.taken(1), place.taken(2), place.taken(3)]

    async def second_fails(messages: Sequence[StoredMessage]) -> ConsumeResult:
        place.seen.append(messages[0].queue_offset)
        return ConsumeResult.LATER if messages[0].queue_offset == 2 else ConsumeResult.SUCCESS

    place.listener = second_fails  # type: ignore[method-assign]
    assert await place.in_order(*rows) == [
        ("ack", 1, 0),
        ("hide", 2, 1_000),
        ("hide", 3, 1_000),
    ]
    assert place.share.poll_ms_max == 1_000
    assert (place.seen, place.share.in_flight) == ([1, 2], 0)


async def test_queues_of_one_pop_do_not_wait_for_each_other(place: Place) -> None:
    began = asyncio.Event()

    async def first_waits(messages: Sequence[StoredMessage]) -> ConsumeResult:
        if messages[0].queue_offset == 1:
            await began.wait()
        began.set()
        return ConsumeResult.SUCCESS

    place.listener = first_waits  # type: ignore[method-assign]
    told = await place.in_order(place.taken(1), place.taken(2, queue_id=1))
    assert sorted(told) == [("ack", 1, 0), ("ack", 2, 0)]


async def test_a_broker_that_cannot_be_told(place: Place) -> None:
    place.broker.problem = NotReachable("gone")
    fates = Fates(place.member)
    await fates.ack(place.taken(1))
    await fates.hide(place.taken(1), 5)
    assert [what for what, _, _ in place.broker.told] == ["ack", "hide"]


@pytest.mark.parametrize("problem", [None, Refused(1, "no")])
async def test_after_the_last_try(problem: Exception | None, monkeypatch: Any) -> None:
    place = Place(max_reconsume_times=2)
    place.wants = ConsumeResult.LATER
    taken, sent = place.taken(1), list[tuple[str, int, int]]()
    taken.message.reconsume_times = 2

    async def send_back(self: object, message: object, name: str, level: int, limit: int) -> None:
        sent.append((name, level, limit))
        if problem is not None:
            raise problem

    monkeypatch.setattr("epochmq.client.aio.broker_calls.BrokerCalls.send_back", send_back)
    told = await place.concurrently(taken)
    assert sent == [("a", -1, 2)]
    # It is never acknowledged before it is kept.
    assert told == ([("hide", 1, 60_000)] if problem else [("ack", 1, 0)])
    await place.member.instance.close()


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(
    ("wanted", "retries", "dead"),
    [
        (-1, 1_000, False),
        (0, 0, True),
        (1, 0, False), (1, 1, True), (1, 2, True),
        (16, 15, False), (16, 16, True), (16, 17, True),
        (None, 15, False), (None, 16, None),
    ],
)  # fmt: skip
async def test_below_at_and_above_the_limit(
    wanted: int | None, retries: int, dead: bool | None, ordered: bool, monkeypatch: Any
) -> None:
    """Without a limit (None) a consumer in order gives nothing up."""
    place = Place(max_reconsume_times=consumer_limit(wanted, ordered=ordered))
    place.wants = ConsumeResult.LATER
    taken, sent = place.taken(1), list[int]()
    taken.message.reconsume_times = retries

    async def send_back(self: object, message: object, name: str, level: int, limit: int) -> None:
        sent.append(level)

    monkeypatch.setattr("epochmq.client.aio.broker_calls.BrokerCalls.send_back", send_back)
    handled = place.in_order if ordered else place.concurrently
    ((what, _, _),) = await handled(taken)
    is_dead = not ordered if dead is None else dead
    assert (what, sent) == (("ack", [-1]) if is_dead else ("hide", []))
    await place.member.instance.close()
