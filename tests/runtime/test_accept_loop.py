import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.runtime.sinks import connected, ended
from tests.runtime.test_tls import CERT, options

from epochmq.base.errors import NotReachable
from epochmq.runtime import accept_loop
from epochmq.runtime.bounds import Bounds
from epochmq.runtime.main import run
from epochmq.runtime.peers import Peer, Peers
from epochmq.runtime.server import RemotingServer
from epochmq.runtime.tls import server_tls
from epochmq.wire.command import Command, Reply, request
from epochmq.wire.dispatcher import Dispatcher
from epochmq.wire.session import Session


def echo(command: Command, session: Session, now: int) -> Reply:
    return Reply(0, body=command.body)


@asynccontextmanager
async def serving(mode: str = "permissive", **bounds: Any) -> AsyncIterator[int]:
    server = RemotingServer(Bounds(**bounds))
    tls = server_tls(options(mode))
    port = await server.start("127.0.0.1", 0, Dispatcher({105: echo}), tls=tls)
    try:
        yield port
    finally:
        await server.stop(grace_ms=200)


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=CERT)


async def ask(port: int, tls: ssl.SSLContext | None, body: bytes = b"hello") -> bytes:
    peers = Peers(tls=tls)
    try:
        answer = await peers.invoke(f"127.0.0.1:{port}", request(105, body=body), 5_000)
        return bytes(answer.body)
    finally:
        await peers.close()


async def test_one_port_serves_plain_and_tls_clients() -> None:
    async with serving() as port:
        assert await ask(port, None) == b"hello"
        assert await ask(port, trusting()) == b"hello"
        big = bytes(range(256)) * 8_192
        assert await ask(port, trusting(), big) == big


def test_the_same_on_uvloop() -> None:
    async def main() -> None:
        async with serving() as port:
            assert await ask(port, None) == b"hello"
            assert await ask(port, trusting()) == b"hello"

    run(main(), uvloop=True)


async def test_enforced_tls_refuses_plain_clients() -> None:
    async with serving("enforcing") as port:
        assert await ask(port, trusting()) == b"hello"
        with pytest.raises(NotReachable):
            await ask(port, None)


async def test_a_client_that_does_not_trust_the_certificate_says_why() -> None:
    async with serving() as port:
        with pytest.raises(NotReachable, match=r"(?i)certificate"):
            await Peer.connect(f"127.0.0.1:{port}", tls=ssl.create_default_context())


async def test_silent_and_closed_connections_are_not_admitted() -> None:
    async with serving(half_frame_ms=60) as port:
        async with connected(port) as (reader, _):
            assert await ended(reader)
        async with connected(port):
            pass
        async with connected(port) as (reader, writer):
            writer.write(b"\x16\x03\x01garbage that is not a hello at all")
            assert await ended(reader)
        assert await ask(port, trusting()) == b"hello"


async def test_of_too_many_that_say_nothing_the_one_that_waits_longest_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(accept_loop, "WAITING_MAX", 2)
    async with serving() as port, connected(port) as (first, _), connected(port):
        assert await ask(port, trusting()) == b"hello"
        assert await ended(first)


async def test_a_handshake_is_waited_for_a_few_seconds_at_most() -> None:
    listener = socket.socket()
    listener.setblocking(False)
    listener.bind(("127.0.0.1", 0))
    waits = accept_loop.AcceptLoop(
        listener, lambda: pytest.fail("not served"), None, lambda: None, handshake_ms=30_000
    )
    waits.close()
    assert waits._timeout_s == 5


async def test_a_connection_beyond_the_descriptors_is_closed_with_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = RemotingServer()
    port = await server.start("127.0.0.1", 0, Dispatcher({105: echo}))
    monkeypatch.setattr(accept_loop, "socket_refusal", lambda number: "no descriptor is left")
    for _ in range(3):
        async with connected(port) as (reader, _):
            assert await ended(reader)
    monkeypatch.undo()
    assert await ask(port, None) == b"hello"
    assert server.figures.refused == 3
    await server.stop(grace_ms=200)
    assert [line for line in caplog.messages if "no descriptor is left" in line] == [
        "a connection was refused: no descriptor is left"
    ]


async def test_a_failing_accept_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accept_loop, "PAUSE_S", 0.001)
    accept, failures = socket.socket.accept, [OSError(errno.EMFILE, "too many open files")]

    def sometimes(sock: socket.socket) -> tuple[socket.socket, Any]:
        if failures:
            raise failures.pop()
        return accept(sock)

    monkeypatch.setattr(socket.socket, "accept", sometimes)
    async with serving() as port:
        assert await ask(port, None) == b"hello"
    assert not failures


async def test_a_stop_while_accepts_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = asyncio.Event()

    def never(sock: socket.socket) -> tuple[socket.socket, Any]:
        tried.set()
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(socket.socket, "accept", never)
    async with serving() as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        await tried.wait()
    writer.close()


async def test_a_stop_closes_connections_not_yet_admitted() -> None:
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(0.01)
    assert await ended(reader)
    writer.close()


@pytest.mark.parametrize("mode", ["permissive", "disabled"])
async def test_a_stop_right_after_an_accept_closes_that_connection(mode: str) -> None:
    """The task that lets it in has not begun when it is cancelled."""
    server = RemotingServer(Bounds())
    port = await server.start(
        "127.0.0.1", 0, Dispatcher({105: echo}), tls=server_tls(options(mode))
    )
    with socket.create_connection(("127.0.0.1", port)) as client:
        (listener,) = server._listeners
        listener._accept()
        (task,) = listener._waiting
        await server.stop(grace_ms=0)
        await asyncio.wait([task])
        client.settimeout(1)
        assert client.recv(1) == b"", "closed, and not left to the garbage collector"
