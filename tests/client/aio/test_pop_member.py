"""A member's shares and pops, where a real broker would have to be made to misbehave."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from tests.client.core.test_pop_handle import stored

from epochmq.base.errors import EpochError, NotReachable, Refused, UsageError
from epochmq.client.aio import pop_member
from epochmq.client.aio.instance import Instance
from epochmq.client.aio.pop_calls import PopCalls, Popped
from epochmq.client.aio.pop_member import HeldMessage, PopMember, PopOptions
from epochmq.client.core import pop_state
from epochmq.client.core.consumer_state import StartPoint
from epochmq.client.core.pop_state import PopHandle, PopStatus
from epochmq.model.group import build
from epochmq.model.message import StoredMessage
from epochmq.model.topic import ANY_QUEUE, BrokerData, MessageQueue, QueueData, TopicRouteData
from epochmq.wire.bodies.pop_bodies import MessageQueueAssignment

ONE, TWO = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)
ALL_OF_A = MessageQueue("T", "a", ANY_QUEUE)


class Calls:
    """Shares and pops as the test wants them; a pop with nothing left waits for ever."""

    def __init__(self) -> None:
        self.share: list[MessageQueue] | Exception | None = [ONE]
        self.popped: list[Popped | EpochError] = []
        self.asked: list[dict[str, Any]] = []
        self.acked: list[PopHandle] = []
        self.ack_problem: EpochError | None = None
        self.answers: asyncio.Event | None = None
        self.hidden: list[tuple[int, int]] = []

    async def assignment(self, topic: str, strategy: str) -> list[MessageQueueAssignment] | None:
        if isinstance(self.share, Exception):
            raise self.share
        if self.share is None:
            return None
        return [MessageQueueAssignment(q) for q in self.share if q.topic == topic]

    async def pop(self, queue: MessageQueue, count: int, data: object, **more: Any) -> Popped:
        self.asked.append({"queue": queue, "count": count, **more})
        if not self.popped:
            await asyncio.Event().wait()
        if self.answers is not None:
            await self.answers.wait()
        answer = self.popped.pop(0)
        if isinstance(answer, EpochError):
            raise answer
        return answer

    async def change_invisible(self, topic: str, handle: PopHandle, invisible_ms: int) -> PopHandle:
        self.hidden.append((handle.offset, invisible_ms))
        if handle.offset == 1:
            raise NotReachable("gone")
        return handle

    async def ack_all(self, topic: str, broker_name: str, handles: list[PopHandle]) -> None:
        self.acked += handles
        if self.ack_problem is not None:
            raise self.ack_problem


class Handling:
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.taken: list[HeldMessage] = []

    def start(self) -> None:
        pass

    async def popped(self, taken: list[HeldMessage]) -> None:
        self.taken += taken

    async def drain(self) -> None:
        pass


def message(offset: int, tags: str = "") -> StoredMessage:
    made = stored(offset, POP_CK=str(PopHandle(0, 1000, 60_000, 3, "0", "a", 0, offset)))
    if tags:
        made.properties["TAGS"] = tags
    return made


def options(**more: Any) -> PopOptions:
    given = {
        "ordered": False,
        "start": StartPoint.FIRST,
        "pop_count": 4,
        "invisible_ms": 60_000,
        "in_flight_max": 5,
        "poll_ms": 15_000,
        "max_reconsume_times": 16,
        "strategy": "AVG",
    }
    return PopOptions(**{**given, **more})


class World:
    def __init__(self, **more: Any) -> None:
        self.instance = Instance("127.0.0.1:1")
        route = TopicRouteData(
            [QueueData("a", 2, 2, 6)], [BrokerData("c", "a", {0: "127.0.0.1:1"})]
        )
        self.instance.routes.put("T", route, self.instance.clock.now_ms())
        self.calls = Calls()
        self.member = PopMember(self.instance, cast(PopCalls, self.calls), "g", options(**more))
        self.handling = Handling()
        self.member._handling = self.handling
        self.member.subscriptions["T"] = build("T", "*")

    @property
    def shares(self) -> list[MessageQueue]:
        return sorted(self.member.shares)

    async def until(self, count: int) -> list[HeldMessage]:
        async with asyncio.timeout(10):
            while len(self.handling.taken) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        return self.handling.taken


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(pop_state, "FULL_PAUSE_MS", 1)
    made = World()
    yield made
    await made.instance.close()


RETRIES = MessageQueue("%RETRY%g", "a", 0)


async def test_the_groups_retry_topic_is_popped_once_it_has_a_route(world: World) -> None:
    """What members that pull sent back; it shows the topic that it was sent to."""
    world.calls.share = [RETRIES]
    assert await world.member.round()
    assert world.shares == []
    route = TopicRouteData([QueueData("a", 1, 1, 6)], [BrokerData("c", "a", {0: "127.0.0.1:1"})])
    world.instance.routes.put("%RETRY%g", route, world.instance.clock.now_ms())
    old = message(3)
    old.topic = "%RETRY%g"
    old.properties["RETRY_TOPIC"] = "T"
    world.calls.popped = [Popped(PopStatus.FOUND, [old])]
    assert await world.member.round()
    assert world.shares == [RETRIES]
    (taken,) = await world.until(1)
    assert (taken.message.topic, taken.topic) == ("T", "%RETRY%g")


async def test_shares_come_and_go(world: World) -> None:
    assert await world.member.round()
    assert world.shares == [ONE]
    world.calls.share = [TWO]
    assert await world.member.round()
    assert world.shares == [TWO]
    world.calls.share = []
    assert await world.member.round()
    assert world.shares == []


@pytest.mark.parametrize("share", [None, NotReachable("gone"), Refused(1, "no")])
async def test_what_cannot_be_told_changes_nothing(world: World, share: Any) -> None:
    await world.member.round()
    world.calls.share = share
    assert not await world.member.round()
    assert world.shares == [ONE]


async def test_a_broker_that_shares_nothing_out_is_popped_whole(world: World) -> None:
    world.calls.share = Refused(3, "not supported")
    assert await world.member.round()
    assert world.shares == [ALL_OF_A]


async def test_only_what_is_wanted_is_handed_on_and_the_rest_is_done(world: World) -> None:
    world.member.subscriptions["T"] = build("T", "A")
    world.calls.ack_problem = NotReachable("gone")
    world.calls.popped = [Popped(PopStatus.FOUND, [message(5, "A"), message(6, "B")])]
    await world.member.round()
    (taken,) = await world.until(1)
    assert taken.handle.offset == 5
    assert "POP_CK" not in taken.message.properties
    assert [handle.offset for handle in world.calls.acked] == [6]


async def test_no_more_than_so_many_in_our_hands(world: World) -> None:
    world.calls.popped = [
        Popped(PopStatus.FOUND, [message(n) for n in range(4)]),
        Popped(PopStatus.FOUND, [message(4)]),
        Popped(PopStatus.FOUND, [message(5)]),
    ]
    await world.member.round()
    taken = await world.until(5)
    await asyncio.sleep(0.02)
    assert [asked["count"] for asked in world.calls.asked] == [4, 1]
    taken[0].share.let_go()
    await world.until(6)
    assert [asked["count"] for asked in world.calls.asked][:3] == [4, 1, 1]


async def test_a_pop_under_way_is_not_lost_when_the_share_goes(world: World) -> None:
    """Nobody else would get its messages for a minute."""
    world.calls.answers = asyncio.Event()
    world.calls.popped = [Popped(PopStatus.FOUND, [message(1)])]
    await world.member.round()
    await asyncio.sleep(0)
    world.calls.share = []
    await world.member.round()
    assert world.shares == []
    world.calls.answers.set()
    (taken,) = await world.until(1)
    assert taken.handle.offset == 1
    await asyncio.sleep(0.02)
    assert len(world.calls.asked) == 1


async def test_a_pop_under_way_is_given_back_when_nobody_wants_the_topic(world: World) -> None:
    world.calls.answers = asyncio.Event()
    world.calls.popped = [Popped(PopStatus.FOUND, [message(1), message(2)])]
    await world.member.round()
    await asyncio.sleep(0)
    await world.member.unsubscribe("T")
    world.calls.answers.set()
    async with asyncio.timeout(10):
        while len(world.calls.hidden) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert world.calls.hidden == [(1, 1_000), (2, 1_000)]
    assert world.handling.taken == []


async def test_after_a_failure_or_a_full_broker_it_goes_on(world: World) -> None:
    world.calls.popped = [
        NotReachable("gone"),
        Popped(PopStatus.POLLING_FULL, []),
        Popped(PopStatus.POLLING_NOT_FOUND, []),
        Popped(PopStatus.FOUND, [message(1)]),
    ]
    await world.member.round()
    await world.until(1)
    assert len(world.calls.asked) >= 4


async def test_an_ordered_pop_without_an_answer_is_repeated_as_the_same_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pop_state, "FULL_PAUSE_MS", 60_000)  # not the pause after an error
    world = World(ordered=True)
    world.calls.popped = [NotReachable("gone"), Popped(PopStatus.FOUND, [message(1)])]
    await world.member.round()
    await world.until(1)
    async with asyncio.timeout(10):
        while len(world.calls.asked) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    first, second, third = (asked["attempt_id"] for asked in world.calls.asked[:3])
    assert first == second != third
    await world.instance.close()


async def test_stopping_takes_no_longer_than_the_messages_are_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pop_state, "INVISIBLE_MS_MIN", 1)
    world = World(invisible_ms=5)

    async def for_ever() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(world.handling, "drain", for_ever)
    await world.member.round()
    await asyncio.wait_for(world.member.stop(), 10)
    assert world.shares == []
    await world.member.round()
    assert world.shares == []
    await world.instance.close()


async def test_a_member_change_asks_again_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pop_member, "REBALANCE_MS", 60_000)
    rounds = asyncio.create_task(world.member._rounds())
    async with asyncio.timeout(10):
        while not world.member.is_settled:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        world.calls.share = [TWO]
        world.member._on_members_changed(cast(Any, None), cast(Any, None))
        while world.shares != [TWO]:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    rounds.cancel()


@pytest.mark.parametrize("wrong", [{"invisible_ms": 0}, {"pop_count": 0}, {"in_flight_max": 0}])
def test_options_out_of_range(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        options(**wrong)
