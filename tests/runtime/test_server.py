import asyncio
import os
import socket
import struct
from contextlib import AsyncExitStack

import pytest
from tests.runtime.sinks import EchoSink, connected, ended, frame, serving

from epochmq.base.errors import OurBug, PortInUse
from epochmq.runtime import server as module
from epochmq.runtime.bounds import Bounds, verdict
from epochmq.runtime.server import RemotingServer
from epochmq.wire.session import Session


async def test_frames_of_one_read_are_answered_in_order_in_one_turn() -> None:
    sink = EchoSink()
    async with serving(sink) as (_, port), connected(port) as (reader, writer):
        writer.write(b"".join(frame(n, b"%04d" % n) for n in range(100)))
        answer = await reader.readexactly(400)
    assert answer == b"".join(b"%04d" % n for n in range(100))
    assert sink.reads == [1] * 100
    assert sink.turns == 1


async def test_a_frame_may_come_byte_by_byte() -> None:
    sink = EchoSink()
    async with serving(sink) as (_, port), connected(port) as (reader, writer):
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in frame(1, b"slow") + frame(2, b"poke"):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        assert await reader.readexactly(8) == b"slowpoke"


async def test_a_frame_larger_than_the_receive_buffer() -> None:
    sink, body = EchoSink(), os.urandom(3_000_000)
    async with serving(sink) as (_, port), connected(port) as (reader, writer):
        writer.write(frame(1, body) + frame(2, b"end"))
        assert await reader.readexactly(len(body) + 3) == body + b"end"


async def test_reads_of_several_sockets_in_one_turn_end_once() -> None:
    sink = EchoSink()
    async with serving(sink) as (_, port):
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
        await sink.until(lambda: len(sink.sessions) == 5)
        for client in clients:  # all of it arrives before the loop looks again
            client.sendall(frame(1, b"x"))
        await sink.until(lambda: len(sink.reads) == 5)
        await asyncio.sleep(0)
        assert sink.turns == 1
        for client in clients:
            assert client.recv(10) == b"x"
            client.close()


async def test_a_session_knows_both_ends() -> None:
    sink = EchoSink()
    async with serving(sink) as (server, port):
        fast = await server.start("127.0.0.1", 0, sink, fast_port=True)
        async with connected(port) as (_, writer), connected(fast):
            await sink.until(lambda: len(sink.sessions) == 2)
            first, second = sink.sessions
            mine = writer.get_extra_info("sockname")[1]
            assert first.peer == f"127.0.0.1:{mine}"
            assert first.peer_packed == b"\x7f\0\0\1" + struct.pack(">I", mine)
            assert first.local == f"127.0.0.1:{port}"
            assert (first.fast_port, second.fast_port) == (False, True)
            assert first.id != second.id
            assert server.connection_count == 2
    assert set(sink.lost) == set(sink.sessions)


async def test_an_ipv4_peer_of_an_ipv6_listener_is_shown_as_ipv4() -> None:
    sink, server = EchoSink(), RemotingServer()
    try:
        port = await server.start("::", 0, sink)
    except OSError:
        pytest.skip("no IPv6 here")
    try:
        async with connected(port):
            await sink.until(lambda: len(sink.sessions) == 1)
            assert sink.sessions[0].peer.startswith("127.0.0.1:")
            assert len(sink.sessions[0].peer_packed) == 8
    finally:
        await server.stop()


@pytest.mark.parametrize(
    "garbage",
    [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\0" * 8, struct.pack(">ii", 100, 7 << 24)],
)
async def test_garbage_cuts_its_own_connection_only(garbage: bytes) -> None:
    sink = EchoSink()
    async with (
        serving(sink) as (server, port),
        connected(port) as (reader, writer),
        connected(port) as (bad_reader, bad_writer),
    ):
        bad_writer.write(garbage)
        assert await ended(bad_reader)
        writer.write(frame(1, b"alive"))
        assert await reader.readexactly(5) == b"alive"
        assert server.connection_count == 1


async def test_answers_from_before_the_garbage_still_leave() -> None:
    sink = EchoSink()
    async with serving(sink) as (_, port), connected(port) as (reader, writer):
        sink.on_frame = lambda session, body: session.send(b"kept")
        writer.write(frame(1))
        assert await reader.readexactly(4) == b"kept"
        sink.on_frame = close_it
        writer.write(frame(1))
        assert await reader.read() == b"last"


def close_it(session: Session, body: bytes) -> None:
    session.send(b"last")
    session.close("enough")
    session.close("again")


@pytest.mark.parametrize("error", [ValueError("x"), OurBug("INV-00")])
async def test_an_exception_in_the_sink_cuts_that_connection_and_is_told(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: told.append(context["exception"]))

    def fail(session: Session, body: bytes) -> None:
        raise error

    sink = EchoSink()
    sink.on_frame = fail
    async with serving(sink) as (_, port), connected(port) as (reader, writer):
        writer.write(frame())
        assert await ended(reader)
    loop.set_exception_handler(None)
    assert (told == [error]) == isinstance(error, OurBug)
    assert ("a request failed" in caplog.text) != isinstance(error, OurBug)


async def test_a_slow_loris_is_cut_though_its_bytes_keep_coming() -> None:
    bounds = Bounds(half_frame_ms=80)
    async with serving(EchoSink(), bounds) as (server, port), connected(port) as (reader, writer):

        async def drip() -> None:
            for byte in frame(1, b"z" * 100_000):
                writer.write(bytes([byte]))
                await asyncio.sleep(0.005)

        dripping = asyncio.ensure_future(drip())
        assert await ended(reader)
        dripping.cancel()
        assert server.figures.cut == 1


async def test_a_half_open_connection_that_says_nothing_is_cut() -> None:
    async with (
        serving(EchoSink(), Bounds(idle_ms=60)) as (server, port),
        connected(port) as (reader, _),
    ):
        assert await ended(reader)
        assert server.figures.cut == 1


async def test_pushed_bytes_keep_an_otherwise_silent_connection() -> None:
    sink, loop = EchoSink(), asyncio.get_running_loop()
    async with serving(sink) as (server, port), connected(port) as (reader, _):
        await sink.until(lambda: len(sink.sessions) == 1)
        (connection,) = server._connections
        connection.heard_ms = connection.sent_ms = int(loop.time() * 1000) - 200_000
        sink.sessions[0].send(b".")
        assert await reader.readexactly(1) == b"."
        assert verdict(connection, server.bounds, int(loop.time() * 1000)) is None
        assert connection.sent_ms > connection.heard_ms


async def test_sweeps_look_at_all_connections_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SWEEP_COUNT", 2)
    async with serving(EchoSink(), Bounds(idle_ms=60)) as (server, port):
        clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(7)]
        for reader, writer in clients:
            assert await ended(reader)
            writer.close()
        assert server.figures.cut == 7


def deaf_client(port: int) -> socket.socket:
    """A client with a small receive window that never reads."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    return client


async def test_a_peer_that_does_not_read_is_cut_at_the_bound() -> None:
    sink = EchoSink()
    async with serving(sink, Bounds(unsent_bytes=12_000_000)) as (server, port):
        client = deaf_client(port)
        await sink.until(lambda: len(sink.sessions) == 1)
        session = sink.sessions[0]
        for _ in range(200):
            session.send(bytes(500_000))
            await asyncio.sleep(0)
            if session.closed:
                break
        await sink.until(lambda: session.closed)
        assert server.connection_count == 0
        client.close()


async def test_one_huge_answer_beyond_the_bound_is_never_even_joined() -> None:
    sink = EchoSink()
    async with serving(sink, Bounds(unsent_bytes=2_000_000)) as (_, port):
        client = deaf_client(port)
        await sink.until(lambda: len(sink.sessions) == 1)
        sink.sessions[0].send(*[memoryview(bytes(1_000_000))] * 50)
        await sink.until(lambda: len(sink.lost) == 1)
        client.close()


async def test_a_slow_peer_is_not_read_from_until_it_catches_up() -> None:
    sink, big = EchoSink(), bytes(14_000_000)
    async with serving(sink) as (server, port):
        client = deaf_client(port)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await sink.until(lambda: len(sink.sessions) == 1)
        sink.sessions[0].send(big, b"tail")
        await asyncio.sleep(0)
        client.send(frame(1, b"later"))
        async with connected(port) as (reader, writer):  # the others are served meanwhile
            writer.write(frame(2, b"other"))
            assert await reader.readexactly(5) == b"other"
        assert len(sink.reads) == 1
        got = bytearray()
        async with asyncio.timeout(20):
            while len(got) < len(big) + 9:
                got += await loop.sock_recv(client, 1 << 20)
        assert got[-9:] == b"taillater"
        assert not server._slow
        client.close()


async def test_a_peer_that_makes_no_progress_is_cut() -> None:
    sink = EchoSink()
    async with serving(sink, Bounds(stalled_ms=60)) as (server, port):
        client = deaf_client(port)
        await sink.until(lambda: len(sink.sessions) == 1)
        sink.sessions[0].send(bytes(14_000_000))
        await sink.until(lambda: len(sink.lost) == 1)
        assert server.figures.cut == 1
        client.close()


async def test_when_all_owe_too_much_the_largest_debtor_goes_first() -> None:
    sink = EchoSink()
    bounds = Bounds(unsent_total_bytes=20_000_000, idle_ms=400)
    async with serving(sink, bounds) as (_, port):
        clients = [deaf_client(port) for _ in range(2)]
        await sink.until(lambda: len(sink.sessions) == 2)
        small, large = sink.sessions
        small.send(bytes(12_000_000))
        large.send(bytes(18_000_000))
        await sink.until(lambda: len(sink.lost) == 1)
        assert sink.lost == [large]
        for client in clients:
            client.close()


async def test_many_slow_readers_never_owe_more_than_allowed() -> None:
    """Held at the moment of writing: no sweep comes in this test."""
    sink = EchoSink()
    async with serving(sink, Bounds(unsent_total_bytes=40_000_000)) as (server, port):
        clients = [deaf_client(port) for _ in range(8)]
        await sink.until(lambda: len(sink.sessions) == 8)
        connections = list(server._connections)
        for _ in range(2):
            for session in sink.sessions:
                session.send(bytes(8_000_000))
            await asyncio.sleep(0)
            assert sum(connection.unsent for connection in connections) <= 40_000_000
        await sink.until(lambda: len(sink.lost) >= 4)
        assert server.figures.cut == len(sink.lost) < 8
        for client in clients:
            client.close()


async def test_answers_that_are_read_cost_nobody_the_connection() -> None:
    sink = EchoSink()
    async with (
        serving(sink, Bounds(unsent_total_bytes=3_000_000)) as (server, port),
        connected(port) as (reader, _),
    ):
        await sink.until(lambda: len(sink.sessions) == 1)
        for _ in range(20):
            sink.sessions[0].send(bytes(1_000_000))
            await reader.readexactly(1_000_000)
        assert server.figures.cut == 0


async def test_unfinished_frames_together_are_bounded() -> None:
    sink = EchoSink()
    whole = frame(1, bytes(4_000_000))
    async with (
        serving(sink, Bounds(half_frames_total_bytes=11_000_000)) as (server, port),
        connected(port) as (reader, writer),
    ):
        for _ in range(5):  # what becomes whole is forgotten
            writer.write(whole)
            await reader.readexactly(4_000_000)
        assert server.figures.cut == 0
        async with AsyncExitStack() as stack:
            for _ in range(4):
                _, half = await stack.enter_async_context(connected(port))
                half.write(whole[:3_000_000])
            await sink.until(lambda: len(sink.lost) == 2)
            assert sum(connection.half_frame for connection in server._connections) < 8_250_000
            writer.write(frame(2, b"fine"))
            assert await reader.readexactly(4) == b"fine"
            assert server.figures.cut == 2


async def test_connections_beyond_the_cap_are_closed_at_once() -> None:
    sink = EchoSink()
    async with (
        serving(sink, Bounds(connections=2)) as (server, port),
        connected(port) as (reader, writer),
        connected(port),
    ):
        await sink.until(lambda: len(sink.sessions) == 2)
        async with connected(port) as (third, _):
            assert await ended(third)
        writer.write(frame(1, b"fine"))
        assert await reader.readexactly(4) == b"fine"
        assert (server.figures.accepted, server.figures.refused) == (2, 1)
        assert not sink.lost  # what was never opened is not closed either
        writer.close()
        await sink.until(lambda: len(sink.lost) == 1)
        async with connected(port):
            await sink.until(lambda: len(sink.sessions) == 3)


async def test_silent_connections_make_room_for_others() -> None:
    sink = EchoSink()
    async with (
        serving(sink, Bounds(connections=2, silent_ms=20, closing_ms=80)) as (_, port),
        connected(port) as (reader, writer),
        connected(port) as (silent, _),
    ):
        writer.write(frame(1, b"first"))
        assert await reader.readexactly(5) == b"first"
        async with connected(port) as (third, _):
            assert await ended(third)
        assert await ended(silent)
        writer.write(frame(1, b"still"))
        assert await reader.readexactly(5) == b"still"
        async with connected(port) as (reader, writer):
            writer.write(frame(1, b"there"))
            assert await reader.readexactly(5) == b"there"


async def test_a_peer_that_vanishes_in_the_middle_of_an_answer() -> None:
    sink = EchoSink()
    async with serving(sink) as (_, port):
        client = deaf_client(port)
        await sink.until(lambda: len(sink.sessions) == 1)
        session = sink.sessions[0]
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()  # reset
        for _ in range(20):
            session.send(bytes(100_000))
            await asyncio.sleep(0)
        await sink.until(lambda: session.closed)
        async with connected(port) as (reader, writer):
            writer.write(frame(1, b"ok"))
            assert await reader.readexactly(2) == b"ok"


async def test_a_port_in_use_is_one_clear_error() -> None:
    async with serving(EchoSink()) as (_, port):
        with pytest.raises(PortInUse, match=f":{port}: the port is taken"):
            await RemotingServer().start("127.0.0.1", port, EchoSink())


async def test_a_stop_sends_what_is_queued_and_tells_every_session() -> None:
    sink, server = EchoSink(), RemotingServer()
    port = await server.start("127.0.0.1", 0, sink)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await sink.until(lambda: len(sink.sessions) == 1)
    closed: list[Session] = []
    sink.sessions[0].on_close.append(closed.append)
    sink.sessions[0].send(b"bye")
    await server.stop()
    assert await reader.read() == b"bye"
    assert sink.lost == closed == sink.sessions
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    await server.stop()


async def test_a_stop_does_not_wait_for_ever_for_a_deaf_peer() -> None:
    sink, server = EchoSink(), RemotingServer()
    client = deaf_client(await server.start("127.0.0.1", 0, sink))
    await sink.until(lambda: len(sink.sessions) == 1)
    sink.sessions[0].send(bytes(12_000_000))
    await server.stop(grace_ms=50)
    assert server.connection_count == 0
    client.close()


async def test_a_closing_connection_whose_peer_is_deaf_ends_by_the_sweep() -> None:
    sink = EchoSink()
    async with serving(sink, Bounds(closing_ms=50)) as (_, port):
        client = deaf_client(port)
        await sink.until(lambda: len(sink.sessions) == 1)
        sink.sessions[0].send(bytes(12_000_000))
        sink.sessions[0].close("goodbye")
        await sink.until(lambda: len(sink.lost) == 1)
        client.close()
