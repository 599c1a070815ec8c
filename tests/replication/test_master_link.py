"""The follower's socket: dialling, direct reception, holds, and our own bugs."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from epochmq.replication.master_link import DIRECT_BYTES_MIN, READ_BYTES, MasterPeer
from epochmq.runtime.clock import RealClock
from epochmq.runtime.streams import StreamSockets

from .brokers import until


class Side:
    """Takes bytes; those of the body, when there is one, into a window of its own."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.data = b""
        self.direct = bytearray()
        self.body_left = 0
        self.reading = True
        self.suspended = False
        self.whole_end = 0
        self.fail = False

    def dialled(self, now: int) -> None:
        self.events.append("dialled")

    def received(self, data: memoryview, now: int, wall: int) -> None:
        if self.fail:
            raise AssertionError("our bug")
        self.data += bytes(data)

    def direct_space(self, least: int) -> memoryview | None:
        assert least == DIRECT_BYTES_MIN
        if self.body_left < least:
            return None
        self.window = bytearray(min(self.body_left, 50_000))
        return memoryview(self.window)

    def direct_received(self, count: int, now: int, wall: int) -> None:
        self.direct += self.window[:count]
        self.body_left -= count

    def hung_up(self, now: int) -> None:
        self.events.append("hung up")


class World:
    def __init__(self) -> None:
        self.side = Side()
        self.after: list[bytes] = []
        self.peer = MasterPeer(self.side, StreamSockets(), RealClock(), self._after, 10, 500)
        self.listener, self.port = StreamSockets().listen("127.0.0.1", 0)
        self.task: asyncio.Task[None] | None = None

    def _after(self) -> None:
        while self.after:
            self.peer.send(self.after.pop(0))

    def run(self) -> None:
        self.task = asyncio.create_task(self.peer.run("127.0.0.1", self.port))

    async def accept(self) -> socket.socket:
        loop = asyncio.get_running_loop()
        sock, _ = await loop.sock_accept(self.listener)
        sock.setblocking(False)
        return sock

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])
        self.listener.close()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.stop()


async def test_it_dials_greets_and_dials_again(world: World) -> None:
    world.after = [b"hello"]
    world.run()
    master = await world.accept()
    loop = asyncio.get_running_loop()
    assert await loop.sock_recv(master, 100) == b"hello"
    master.close()
    await until(lambda: world.side.events == ["dialled", "hung up", "dialled"])
    again = await world.accept()
    world.peer.close("enough")
    assert await loop.sock_recv(again, 100) == b""
    again.close()


@pytest.mark.parametrize("damaged", [False, True], ids=["it grows", "it ends at the same record"])
async def test_it_waits_longer_until_the_log_grows(world: World, damaged: bool) -> None:
    """A master with a damaged record agrees each time, sends, and nothing is gained."""
    loop = asyncio.get_running_loop()
    waits: list[float] = []
    world.run()
    for number in range(8):
        master = await world.accept()
        await loop.sock_sendall(master, b"x")
        await until(lambda number=number: len(world.side.data) == number + 1)
        world.side.whole_end += 0 if damaged else 1
        master.close()
        before = loop.time()
        await until(lambda number=number: world.side.events.count("dialled") == number + 2)
        waits.append(loop.time() - before)
    # 10 ms, doubled six and seven times; a machine that is busy only adds to it.
    assert (min(waits[6:]) >= 0.6) == damaged


async def test_it_waits_for_a_master_that_is_not_there_yet(world: World) -> None:
    world.listener.close()
    world.run()
    await asyncio.sleep(0.05)
    world.listener, _ = StreamSockets().listen("127.0.0.1", world.port)
    (await world.accept()).close()


async def test_large_bodies_go_right_into_the_log(world: World) -> None:
    world.run()
    master = await world.accept()
    body = bytes(range(256)) * 2000
    await asyncio.get_running_loop().sock_sendall(master, b"head")
    await until(lambda: world.side.data == b"head")
    world.side.body_left = len(body)
    await asyncio.get_running_loop().sock_sendall(master, body)
    await until(lambda: len(world.side.direct) + len(world.side.data) == len(body) + 4)
    assert len(world.side.direct) > len(body) - DIRECT_BYTES_MIN
    assert bytes(world.side.direct) + world.side.data[4:] == body
    master.close()


async def test_while_the_side_is_held_nothing_is_read(world: World) -> None:
    world.run()
    master = await world.accept()
    world.side.reading = False
    await asyncio.get_running_loop().sock_sendall(master, b"x" * (2 * READ_BYTES))
    await until(lambda: world.peer._paused)
    assert world.side.data == b""
    world.peer.resume()
    assert world.peer._paused
    world.side.reading = True
    world.peer.resume()
    await until(lambda: len(world.side.data) == 2 * READ_BYTES)
    master.close()


async def test_what_the_socket_does_not_take_is_sent_later(world: World) -> None:
    world.run()
    master = await world.accept()
    await until(lambda: world.peer.connected)
    total = 0
    for _ in range(200):
        world.peer.send(b"a" * 100_000)
        total += 100_000
    got = 0
    while got < total:
        got += len(await asyncio.get_running_loop().sock_recv(master, 1 << 20))
    assert got == total
    master.close()
    await until(lambda: not world.peer.connected or len(world.side.events) > 2)
    world.peer.close("twice is not a harm")


async def test_our_bug_ends_it_loudly(world: World) -> None:
    world.side.fail = True
    world.run()
    master = await world.accept()
    await asyncio.get_running_loop().sock_sendall(master, b"x")
    assert world.task is not None
    with pytest.raises(AssertionError, match="our bug"):
        await world.task
    master.close()
