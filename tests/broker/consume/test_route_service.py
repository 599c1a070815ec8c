"""Routes asked of name servers over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.broker.server.test_broker_server import running

from epochmq.broker.consume.route_book import Queues, RouteBook
from epochmq.broker.consume.route_service import RouteWatch, readable
from epochmq.client.aio import Admin, PopConsumer
from epochmq.model.topic import MessageQueue, QueueData, TopicConfig, TopicRouteData
from epochmq.nameserver.name_server import NameServer
from epochmq.nameserver.options import NamesrvOptions
from epochmq.runtime.clock import RealClock
from epochmq.runtime.own_host import free_port
from epochmq.runtime.peers import Peers
from epochmq.runtime.server import RemotingServer
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.command import Command, Held, Reply
from epochmq.wire.dispatcher import Dispatcher
from epochmq.wire.session import Session

ROUTE = TopicRouteData([QueueData("a", 2, 4, 6), QueueData("b", 1, 1, 4), QueueData("c", 3, 3, 2)])
QUEUES = tuple(MessageQueue("T", *place) for place in (("a", 0), ("a", 1), ("b", 0)))


class Knows:
    """A name server that answers what it is set to."""

    def __init__(self) -> None:
        self.port = free_port("127.0.0.1")
        self.address = f"127.0.0.1:{self.port}"
        self.reply = Reply(body=encode_body(ROUTE))
        self._server = RemotingServer()

    async def start(self) -> None:
        sink = Dispatcher({Code.GET_ROUTEINFO_BY_TOPIC: self._tell})
        await self._server.start("127.0.0.1", self.port, sink)

    async def stop(self) -> None:
        await self._server.stop(100)

    def _tell(self, command: Command, session: Session, now: int) -> Reply | Held:
        assert command.ext is not None
        assert command.ext["topic"] == "T"
        return self.reply


@pytest.fixture
async def server() -> AsyncIterator[Knows]:
    server = Knows()
    await server.start()
    yield server
    await server.stop()


async def found(*addresses: str) -> Queues | None:
    watch = RouteWatch(RouteBook(30_000), Peers(), list(addresses), RealClock())
    told: asyncio.Future[Queues | None] = asyncio.get_running_loop().create_future()
    watch.find("T", told.set_result)
    try:
        return await asyncio.wait_for(told, 30)
    finally:
        assert watch.next_deadline() is not None
        await watch.close()


def test_queues_that_may_be_read() -> None:
    assert readable("T", ROUTE) == QUEUES


async def test_the_first_name_server_that_answers(server: Knows) -> None:
    nobody = f"127.0.0.1:{free_port('127.0.0.1')}"
    assert await found(nobody, server.address) == QUEUES


@pytest.mark.parametrize("reply", [Reply(17, "no"), Reply(1, "no"), Reply(body=b"[]")])
async def test_no_route(server: Knows, reply: Reply) -> None:
    server.reply = reply
    assert await found(server.address) is None


async def test_a_whole_broker_shares_out_and_keeps_the_mode(tmp_path: Path) -> None:
    names = NameServer(NamesrvOptions(listen_port=0, kv_config_path=str(tmp_path / "kv.json")))
    await names.start()
    namesrv = f"127.0.0.1:{names.port}"
    async with running(tmp_path, namesrvAddr=namesrv) as broker, Admin(namesrv) as admin:
        await admin.create_topic(TopicConfig("T", 4, 4))
        await admin.set_request_mode(broker.node.address, "T", "g", "POP")
    async with running(tmp_path, namesrvAddr=namesrv):
        members = [PopConsumer(namesrv, "g") for _ in range(2)]
        for member in members:
            member.on_message(lambda messages: None)
            await member.subscribe("T")
            await member.start()
        async with asyncio.timeout(20):
            while not all(member.shares() for member in members):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert [member.shares() for member in members] == [[MessageQueue("T", "b", -1)]] * 2
        for member in members:
            await member.close()
    await names.stop()


async def test_a_stop_ends_what_is_being_asked() -> None:
    watch = RouteWatch(RouteBook(30_000), Peers(), ["127.0.0.1:1"], RealClock())
    told: list[Queues | None] = []
    watch.find("T", told.append)
    await watch.close()
    assert told == []
