"""A broker that holds a request and is silent is asked; one that does not answer is left."""

import asyncio
from functools import partial

import pytest

from epochmq.base.errors import NotReachable
from epochmq.client.aio import held_requests
from epochmq.client.aio.broker_calls import min_offset_of
from epochmq.client.aio.held_requests import HeldRequests
from epochmq.model.topic import MessageQueue
from epochmq.runtime.peers import Peers
from epochmq.runtime.server import RemotingServer
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import HELD, Command, Held, Reply, request
from epochmq.wire.dispatcher import Dispatcher
from epochmq.wire.session import Session

QUEUE = MessageQueue("T", "b", -1)


class Broker:
    """Holds pulls; answers questions unless it is `paused`."""

    def __init__(self) -> None:
        self.paused = False
        self.asked = 0
        self.asked_often = asyncio.Event()
        self.pulls: list[tuple[Session, Command]] = []
        self.pulled = asyncio.Event()
        self._server = RemotingServer()

    async def start(self) -> str:
        table = {RequestCode.PULL_MESSAGE: self._pull, RequestCode.GET_MIN_OFFSET: self._answer}
        port = await self._server.start("127.0.0.1", 0, Dispatcher(dict(table)))
        return f"127.0.0.1:{port}"

    async def stop(self) -> None:
        await self._server.stop(0)

    def _pull(self, command: Command, session: Session, now: int) -> Held:
        self.pulls.append((session, command))
        self.pulled.set()
        return HELD

    def _answer(self, command: Command, session: Session, now: int) -> Reply | Held:
        assert command.ext == {"topic": "T", "queueId": "0"}
        self.asked += 1
        if self.asked == 3:
            self.asked_often.set()
        return HELD if self.paused else Reply()


async def pull(peers: Peers, held: HeldRequests, address: str) -> Command:
    with held.at(address, partial(min_offset_of, QUEUE)):
        return await peers.invoke(address, request(RequestCode.PULL_MESSAGE, {}), 10_000)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_requests, "CHECK_MS", 40)
    monkeypatch.setattr(held_requests, "TIMEOUT_MS", 1_500)


async def test_a_broker_that_answers_may_hold_a_request() -> None:
    broker, peers = Broker(), Peers()
    address = await broker.start()
    held = HeldRequests(peers)
    waiting = asyncio.create_task(pull(peers, held, address))
    await broker.asked_often.wait()
    assert not waiting.done()
    session, command = broker.pulls.pop()
    session.answer(command, Reply(remark="a message"))
    assert (await waiting).remark == "a message"
    await held.close()
    await peers.close()
    await broker.stop()


async def test_a_paused_broker_is_left() -> None:
    broker, peers = Broker(), Peers()
    broker.paused = True
    address = await broker.start()
    held = HeldRequests(peers)
    waits = [asyncio.create_task(pull(peers, held, address)) for _ in range(3)]
    for waiting in waits:
        with pytest.raises(NotReachable, match=r"no answer within \d+ ms, and nothing else heard"):
            await waiting
    assert broker.asked >= 1
    broker.paused = False
    again = asyncio.create_task(pull(peers, held, address))
    broker.pulled.clear()
    await broker.pulled.wait()
    broker.pulls[-1][0].answer(broker.pulls[-1][1], Reply())
    await again
    await held.close()
    await peers.close()
    await broker.stop()


async def test_nothing_is_asked_while_nothing_is_held() -> None:
    broker, peers = Broker(), Peers()
    address = await broker.start()
    held = HeldRequests(peers)
    waiting = asyncio.create_task(pull(peers, held, address))
    await broker.pulled.wait()
    broker.pulls[-1][0].answer(broker.pulls[-1][1], Reply())
    await waiting
    await held._tasks.drain()
    assert held._checking is None
    await held.close()
    await peers.close()
    await broker.stop()
