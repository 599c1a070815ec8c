"""The queues that a producer may send to, by what name servers answer."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from epochmq.base.errors import NotFound, NotReachable
from epochmq.client.aio.in_flight import LoopTime
from epochmq.client.aio.instance import Instance
from epochmq.client.aio.publish_routes import PublishRoutes
from epochmq.client.aio.send_problems import NoRouteInTime
from epochmq.model.topic import BrokerData, MessageQueue, QueueData, TopicRouteData

WITH_MASTER = {0: "127.0.0.1:1", 1: "127.0.0.1:2"}
WITHOUT = {1: "127.0.0.1:2"}

Answer = Callable[[], Awaitable[TopicRouteData]]


class Asked:
    """Publish routes of a client whose name servers answer what the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.instance = Instance("127.0.0.1:1")
        self.routes = PublishRoutes(self.instance)
        self.answer: Answer = no_route
        self.greetings = 0
        monkeypatch.setattr(self.instance.name_servers, "route", self._route)
        monkeypatch.setattr(self.instance, "greet_all", self._greet)

    async def queues(self, timeout_ms: int = 5_000) -> tuple[MessageQueue, ...]:
        time = LoopTime(self.instance.clock.now_ms)
        try:
            return await self.routes.queues("T", time.begin(timeout_ms))
        finally:
            time.end()

    async def _route(self, topic: str) -> TopicRouteData:
        return await self.answer()

    async def _greet(self) -> None:
        self.greetings += 1


async def no_route() -> TopicRouteData:
    raise NotFound("no route")


async def silence() -> TopicRouteData:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


def with_route(addresses: dict[int, str], perm: int = 6) -> Answer:
    async def answer() -> TopicRouteData:
        queues = QueueData("b", read_queue_nums=4, write_queue_nums=4, perm=perm)
        return TopicRouteData(
            queue_datas=[queues], broker_datas=[BrokerData("c", "b", dict(addresses))]
        )

    return answer


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


async def test_masters_get_one_heartbeat_with_the_first_question(asked: Asked) -> None:
    asked.answer = with_route(WITH_MASTER)
    for _ in range(2):
        assert await asked.queues() == tuple(MessageQueue("T", "b", n) for n in range(4))
    assert (asked.greetings, asked.routes.topics()) == (1, ["T"])


async def test_a_topic_that_nobody_knows_is_not_found(asked: Asked) -> None:
    with pytest.raises(NotFound):
        await asked.queues()
    assert asked.routes.topics() == []


async def test_a_topic_whose_brokers_left_may_come_back(asked: Asked) -> None:
    asked.answer = with_route(WITH_MASTER)
    await asked.queues()
    asked.instance.routes.expire("T")
    asked.answer = no_route
    with pytest.raises(NotReachable, match="no broker of topic T is registered now"):
        await asked.queues()


async def test_without_a_master_there_is_no_queue(asked: Asked) -> None:
    asked.answer = with_route(WITHOUT)
    with pytest.raises(NotReachable, match="no writable queue with a living master"):
        await asked.queues()


async def test_the_error_of_a_topic_that_must_not_be_written_says_so(asked: Asked) -> None:
    asked.answer = with_route(WITH_MASTER, perm=4)
    with pytest.raises(NotReachable, match="permission"):
        await asked.queues()


async def test_silent_name_servers_are_named_when_time_is_up(asked: Asked) -> None:
    asked.answer = silence
    with pytest.raises(NoRouteInTime, match=r"not known in time \(asked: 127.0.0.1:1\)"):
        await asked.queues(timeout_ms=50)
