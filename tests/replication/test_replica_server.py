"""The master's socket against a peer that reads slowly, late, or never."""

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from epochmq.base.ports import File
from epochmq.replication import replica_server as server
from epochmq.replication.frames import TRANSFER_BYTES, encode_transfer
from epochmq.replication.link import Chunk
from epochmq.replication.replica_server import COPY_BYTES_MAX, LinkServer
from epochmq.runtime.clock import RealClock
from epochmq.runtime.disk import RealDisk
from epochmq.runtime.streams import StreamSockets
from epochmq.store.cold_reads import ColdReads

from .brokers import until


class Side:
    """Sends a file in given pieces to every link."""

    def __init__(self, file: File, sizes: list[int]) -> None:
        self.file = file
        self.sizes = sizes
        self.at: dict[int, tuple[int, int]] = {}
        self.heard: list[bytes] = []
        self.gone: list[int] = []
        self.fail = False
        self.missing = False
        self.is_cold = False
        self.is_last = False
        self.read: list[tuple[int, int]] = []
        """Cold parts that were brought into memory: (offset, size)."""

    def link_accepted(self, link: int, peer: str, now: int) -> None:
        self.at[link] = (0, 0)

    def link_received(self, link: int, data: memoryview, now: int) -> None:
        if self.fail:
            raise AssertionError("our bug")
        self.heard.append(bytes(data))

    def link_closed(self, link: int, now: int) -> None:
        self.gone.append(link)

    def next_chunk(self, link: int, now: int) -> Chunk | None:
        number, offset = self.at[link]
        if number == len(self.sizes):
            return None
        size = self.sizes[number]
        self.at[link] = (number + 1, offset + size)
        return Chunk(encode_transfer(size, offset, 1, 0, 0), offset, size, self.is_last)

    def slice(self, offset: int, size: int) -> memoryview:
        return memoryview(b"") if self.missing else self.file.view()[offset : offset + size]

    def file_of(self, offset: int) -> tuple[File, int, int] | None:
        return None if self.missing else (self.file, offset, self.file.size - offset)

    def missing_records(
        self, places: Iterable[tuple[int, int]], *, ahead: int
    ) -> Callable[[], None] | None:
        ((offset, size),) = places
        return (lambda: self.read.append((offset, size))) if self.is_cold else None


class World:
    def __init__(self, root: Path, sizes: list[int]) -> None:
        self.content = os.urandom(sum(sizes))
        self.file = RealDisk(str(root)).open("log", create_size=max(1, len(self.content)))
        self.file.write(0, self.content)
        self.side = Side(self.file, sizes)
        self.broken: list[Exception] = []
        self.server = LinkServer(
            self.side,
            self.side,
            StreamSockets(),
            RealClock(),
            lambda: None,
            self.broken.append,
            cold_reads=ColdReads(self._hold),
        )
        self.held: list[Callable[[], None]] = []
        self.port = self.server.start("127.0.0.1", 0)

    def _hold(self, call: Callable[[], None], done: Callable[[None], None]) -> None:
        self.held.append(lambda: done(call()))  # type: ignore[func-returns-value]

    async def read_device(self) -> None:
        """Wait for a cold read, and execute it."""
        await until(lambda: self.held)
        self.held.pop()()

    def expected(self) -> bytes:
        out, offset = b"", 0
        for size in self.side.sizes:
            out += encode_transfer(size, offset, 1, 0, 0) + self.content[offset : offset + size]
            offset += size
        return out

    async def connect(self, receive_bytes: int | None = None) -> socket.socket:
        sock = socket.socket()
        sock.setblocking(False)
        if receive_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        return sock


@pytest.fixture
async def make(tmp_path: Path):  # type: ignore[no-untyped-def]
    worlds: list[World] = []

    def one(sizes: list[int]) -> World:
        worlds.append(World(tmp_path / str(len(worlds)), sizes))
        return worlds[-1]

    yield one
    for world in worlds:
        world.server.stop()


Make = Callable[[list[int]], World]


async def read(sock: socket.socket, size: int, *, slowly: bool = False) -> bytes:
    data = b""
    while len(data) < size:
        part = await asyncio.get_running_loop().sock_recv(sock, 7000 if slowly else 1 << 20)
        assert part, f"closed after {len(data)}"
        data += part
    return data


SIZES = [0, 5, 1000, COPY_BYTES_MAX, COPY_BYTES_MAX + 1, 3_000_000, 0, 200_000]


async def test_everything_arrives_in_order(make: Make) -> None:
    world = make(SIZES)
    sock = await world.connect()
    await asyncio.get_running_loop().sock_sendall(sock, b"hello")
    expected = world.expected()
    assert await read(sock, len(expected)) == expected
    assert b"".join(world.side.heard) == b"hello"
    sock.close()


async def test_a_slow_reader_gets_all_of_it_too(make: Make) -> None:
    world = make([10, 70_000, 5000, 150_000, 60_000, 9_000_000, 3])
    sock = await world.connect(receive_bytes=4096)
    await asyncio.get_running_loop().sock_sendall(sock, b"hello")
    await asyncio.sleep(0.05)  # buffers are full now
    expected = world.expected()
    # The heartbeat comes behind the chunk that is being sent.
    started, offset = world.side.at[1]
    at = offset + started * TRANSFER_BYTES
    world.server.send(1, b"heartbeat")
    world.server.wake()
    whole = expected[:at] + b"heartbeat" + expected[at:]
    assert 0 < at < len(expected)
    assert await read(sock, len(whole), slowly=True) == whole
    sock.close()


@pytest.mark.parametrize("sizes", [[10, 3_000_000, 200_000, 5], [70_000, 1000, 90_000, 0]])
async def test_log_that_left_the_memory_is_read_by_another_thread(
    make: Make, sizes: list[int]
) -> None:
    world = make(sizes)
    world.side.is_cold = True
    sock = await world.connect()
    await asyncio.get_running_loop().sock_sendall(sock, b"hello")
    expected = world.expected()
    reading = asyncio.create_task(read(sock, len(expected)))
    for number, size in enumerate(sizes):
        if size:
            await world.read_device()
            assert world.side.read[-1] == (sum(sizes[:number]), size)
        world.server.wake()
    assert await reading == expected
    assert len(world.side.read) == len(list(filter(None, sizes)))
    sock.close()


async def test_a_small_piece_for_a_follower_that_is_not_behind_is_sent_without_a_question(
    make: Make,
) -> None:
    world = make([1000])
    world.side.is_cold = world.side.is_last = True
    sock = await world.connect()
    await asyncio.get_running_loop().sock_sendall(sock, b"hello")
    expected = world.expected()
    assert await read(sock, len(expected)) == expected
    sock.close()


async def test_other_links_go_on_while_the_device_is_read(make: Make) -> None:
    world = make([200_000])
    world.side.is_cold = True
    slow, fast = await world.connect(), await world.connect()
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(slow, b"hello")
    await until(lambda: world.held)
    world.side.is_cold = False
    await loop.sock_sendall(fast, b"hello")
    expected = world.expected()
    assert await read(fast, len(expected)) == expected
    world.server.send(1, b"heartbeat")  # behind what waits
    await world.read_device()
    assert await read(slow, len(expected) + 9) == expected + b"heartbeat"
    slow.close()
    fast.close()


async def test_a_link_that_closes_while_the_device_is_read(make: Make) -> None:
    world = make([200_000])
    world.side.is_cold = True
    sock = await world.connect()
    await asyncio.get_running_loop().sock_sendall(sock, b"hello")
    await until(lambda: world.held)
    sock.close()
    await until(lambda: world.side.gone)
    await world.read_device()
    assert world.broken == []
    assert world.server.wires == {}


async def test_a_peer_that_goes_is_told(make: Make) -> None:
    world = make([])
    sock = await world.connect()
    await asyncio.get_running_loop().sock_sendall(sock, b"x")
    await until(lambda: world.side.heard)
    sock.close()
    await until(lambda: world.side.gone)
    assert world.server.wires == {}
    world.server.send(1, b"late")
    world.server.close(1, "again")


@pytest.mark.parametrize("size", [10, 1_000_000])
async def test_log_that_was_deleted_meanwhile_ends_the_link(make: Make, size: int) -> None:
    world = make([size])
    world.side.missing = True
    sock = await world.connect()
    await asyncio.get_running_loop().sock_sendall(sock, b"x")
    await until(lambda: world.side.gone)
    sock.close()


async def test_our_bug_is_reported(make: Make) -> None:
    world = make([])
    world.side.fail = True
    sock = await world.connect()
    await asyncio.get_running_loop().sock_sendall(sock, b"x")
    await until(lambda: world.broken)
    sock.close()


async def test_a_failing_accept_leaves_the_loop_alone_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "ACCEPT_PAUSE_S", 0.02)
    world = World(tmp_path, [])
    tries: list[object] = []

    def fail(listener: socket.socket) -> None:
        tries.append(listener)
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(world.server._sockets, "accept", fail)
    sock = await world.connect()
    await until(lambda: len(tries) > 0)
    turns = 0
    while len(tries) < 4:
        turns += 1
        await asyncio.sleep(0)
    assert turns > 4  # not called in each turn of the loop
    assert [line for line in caplog.messages if "no follower" in line] == [
        "no follower can be accepted, it is tried again: [Errno 24] too many open files"
    ]
    monkeypatch.undo()
    await until(lambda: len(world.side.at) == 1)
    sock.close()
    world.server.stop()


async def test_a_stop_while_accepts_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, [])
    tries: list[object] = []

    def fail(listener: socket.socket) -> None:
        tries.append(listener)
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(world.server._sockets, "accept", fail)
    sock = await world.connect()
    await until(lambda: len(tries) > 0)
    world.server.stop()
    sock.close()
