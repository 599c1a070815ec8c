"""Links between controllers, and probes of processes that may be gone."""

import asyncio

from tests.runtime.sinks import until

from epochmq.controller.server.controller_peers import WAITING_MAX, RaftLink, is_refused
from epochmq.runtime.own_host import free_port
from epochmq.runtime.server import RemotingServer
from epochmq.wire.command import HELD, Command, Held
from epochmq.wire.dispatcher import Dispatcher
from epochmq.wire.session import Session

HOST = "127.0.0.1"


class Listener:
    """The other controller."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.one = asyncio.Event()
        self.server = RemotingServer()

    async def start(self, port: int = 0) -> int:
        return await self.server.start(HOST, port, Dispatcher({34001: self.hear}))

    def hear(self, command: Command, session: Session, now: int) -> Held:
        assert command.is_oneway
        self.heard.append(bytes(command.body))
        self.one.set()
        return HELD

    async def wait(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.heard) < count:
                self.one.clear()
                await self.one.wait()


async def test_messages_arrive_in_order() -> None:
    listener = Listener()
    link = RaftLink(f"{HOST}:{await listener.start()}")
    for number in range(50):
        link.send(b"%d" % number)
    await listener.wait(50)
    link.send(b"more")
    await listener.wait(51)
    assert listener.heard == [*(b"%d" % number for number in range(50)), b"more"]
    await link.close()
    await listener.server.stop(200)


async def test_what_cannot_be_sent_is_lost_and_later_messages_find_the_way() -> None:
    port = free_port(HOST)
    link = RaftLink(f"{HOST}:{port}")
    for _ in range(WAITING_MAX * 2):
        link.send(b"lost")
    listener = Listener()
    await until(lambda: link._connecting is None)
    await listener.start(port)

    def sent() -> bool:
        link.send(b"found")
        return bool(listener.heard)

    await until(sent)
    assert b"lost" not in listener.heard
    await link.close()
    await listener.server.stop(200)


async def test_a_link_that_never_connected_closes() -> None:
    link = RaftLink(f"{HOST}:{free_port(HOST)}")
    link.send(b"x")
    await link.close()
    await link.close()


async def test_only_a_refusal_is_a_refusal() -> None:
    listener = Listener()
    port = await listener.start()
    assert not await is_refused(f"{HOST}:{port}")
    await listener.server.stop(200)
    assert await is_refused(f"{HOST}:{port}")
    assert not await is_refused("no address")
    assert not await is_refused("host.invalid:1")
