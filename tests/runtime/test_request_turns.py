"""A client's many or large requests leave room for other clients, and stay in order."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from tests.runtime.sinks import EchoSink, connected, frame, serving

from epochmq.runtime import connection as connection_module
from epochmq.runtime import server as server_module
from epochmq.runtime import turn as turn_module
from epochmq.runtime.bounds import Bounds
from epochmq.runtime.connection import (
    LATE_BYTES,
    OUTBOX_BYTES_MAX,
    WRITE_HIGH_BYTES,
    Connection,
)
from epochmq.runtime.server import RemotingServer
from epochmq.runtime.turn import RECEIVE_BYTES, SHARE_NS, TURN_NS
from epochmq.wire.session import Session

LARGE_BYTES = 32 * 1024 * 1024
"""More than the buffers of a socket of loopback hold."""
SLOW_NS = SHARE_NS // 2
"""How long a request takes, by the clock of these tests: two fill a connection's part."""


class SlowSink(EchoSink):
    """Requests take time: an own clock, which they alone move."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = 10**9
        self.log: list[tuple[int, bytes]] = []
        """(turn, body) of each request, in the order of execution."""
        self.cost_ns: Callable[[bytes], int] = lambda body: SLOW_NS
        self.on_frame = self.execute

    def execute(self, session: Session, body: bytes) -> None:
        self.log.append((self.turns, body))
        self.now_ns += self.cost_ns(body)

    def stalls(self) -> list[Session]:
        """The sessions whose peers do not read."""
        return [each for each in self.sessions if connection_of(each).stalled_since is not None]

    def bodies(self) -> list[bytes]:
        return [body for _, body in self.log]


class RawSlowSink(SlowSink):
    """Takes frames from the buffer that contain `raw`, and those behind them, as a broker does."""

    def receive_raw(self, session: Session, data: memoryview, start: int, size: int) -> int:
        taken = start
        while taken < size and (length := 4 + int.from_bytes(data[taken : taken + 4], "big")):
            whole = bytes(data[taken : taken + length])
            if b"raw" not in whole or len(whole) < length:
                break
            body = whole[8 + int.from_bytes(whole[5:8], "big") :]
            self.execute(session, body)
            self.staged.append((session, body))
            taken += length
        self.changed.set()
        return taken - start


@dataclass
class Client:
    """A raw client; its requests are numbered."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    sent: list[bytes] = field(default_factory=list)

    def send(self, *bodies: bytes) -> None:
        self.sent += bodies
        self.writer.write(b"".join(frame(1, body) for body in bodies))

    async def check_answers(self) -> None:
        """Wait for the answers to all requests: in order, each once."""
        wanted = b"".join(self.sent)
        assert await self.reader.readexactly(len(wanted)) == wanted


@asynccontextmanager
async def clients(
    monkeypatch: pytest.MonkeyPatch, sink: SlowSink, count: int, bounds: Bounds | None = None
) -> AsyncIterator[tuple[list[Client], RemotingServer]]:
    """Connected clients of a server whose turns are timed by the sink's clock."""
    monkeypatch.setattr(turn_module, "steady_ns", lambda: sink.now_ns)
    monkeypatch.setattr(connection_module, "steady_ns", lambda: sink.now_ns)
    monkeypatch.setattr(server_module, "steady_ns", lambda: sink.now_ns)
    async with serving(sink, bounds) as (server, port):
        made: list[Client] = []
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            made.append(Client(reader, writer))
        await sink.until(lambda: len(sink.sessions) == count)
        yield made, server
        for each in made:
            each.writer.close()


def connection_of(session: Session) -> Connection:
    connection = session._transport  # type: ignore[attr-defined]
    assert isinstance(connection, Connection)
    return connection


async def test_requests_of_one_read_are_spread_over_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = SlowSink()
    async with clients(monkeypatch, sink, 1) as ((one,), _):
        one.send(*(b"%04d" % n for n in range(100)))
        await one.check_answers()
    turns = [turn for turn, _ in sink.log]
    assert max(turns.count(turn) for turn in turns) == 2
    assert sink.bodies() == one.sent


async def test_a_neighbour_is_served_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = SlowSink()
    async with clients(monkeypatch, sink, 2) as ((flood, other), _):
        flood.send(*(b"%04d" % n for n in range(200)))
        await sink.until(lambda: bool(sink.log))
        for _ in range(10):
            before = len(sink.log)
            other.send(b"other")
            assert await other.reader.readexactly(5) == b"other"
            assert len(sink.log) - before <= 20
        assert len(sink.log) < 200
        other.sent.clear()
        await flood.check_answers()


async def test_a_turn_ends_however_many_connections_have_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when each has one request only; they are then executed in the order of arrival."""
    sink = SlowSink()
    async with clients(monkeypatch, sink, 30) as (many, _):
        for number, each in enumerate(many):
            each.send(b"%04d" % number)
        for each in many:
            await each.check_answers()
    turns = [turn for turn, _ in sink.log]
    most = TURN_NS // SLOW_NS + 3
    assert max(turns.count(turn) for turn in turns) <= most
    assert len(sink.log) == 30


async def test_a_short_read_that_must_wait_comes_before_long_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink = SlowSink()
    sink.cost_ns = lambda body: TURN_NS if body.startswith(b"long") else 1
    async with clients(monkeypatch, sink, 8) as ((first, *long, short), _):
        first.send(b"long")
        for each in long:
            each.send(*[b"long" + bytes(LATE_BYTES // 4)] * 4)
        short.send(b"short")
        for each in (first, *long, short):
            await each.check_answers()
    assert sink.bodies().index(b"short") <= 2


@pytest.mark.parametrize(
    ("cost_ns", "answer_bytes"), [(0, OUTBOX_BYTES_MAX), (SLOW_NS, OUTBOX_BYTES_MAX // 3)]
)
async def test_requests_wait_while_answers_are_not_written(
    monkeypatch: pytest.MonkeyPatch, cost_ns: int, answer_bytes: int
) -> None:
    """A client that reads nothing makes the server execute a few requests, and no more."""
    sink = SlowSink()
    sink.cost_ns = lambda body: cost_ns
    answer = bytes(answer_bytes)

    def execute(session: Session, body: bytes) -> None:
        assert connection_of(session).stalled_since is None
        sink.execute(session, body)
        session.send(answer)

    sink.on_frame = execute
    async with clients(monkeypatch, sink, 1) as ((one,), _):
        one.writer.transport.pause_reading()  # type: ignore[attr-defined]
        one.send(*(b"%04d" % n for n in range(100)))
        await sink.until(lambda: len(sink.log) >= 4)
        await sink.until(lambda: bool(sink.stalls()))
        connection = connection_of(sink.sessions[0])
        for _ in range(200):
            await asyncio.sleep(0)
        assert len(sink.log) < 80
        assert connection.unsent < WRITE_HIGH_BYTES + 3 * len(answer)
        assert connection.waits
        one.writer.transport.resume_reading()  # type: ignore[attr-defined]
        size = 100 * (len(answer) + 4)
        got = await one.reader.readexactly(size)
        assert got.replace(b"\0", b"") == b"".join(one.sent)
    assert sink.bodies() == one.sent


async def test_the_last_requests_of_a_connection_come_before_long_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A replica asks for ten tables at once, which takes longer than its part of a turn."""
    sink = SlowSink()
    async with clients(monkeypatch, sink, 8) as ((replica, *floods), _):
        for number, flood in enumerate(floods):
            flood.send(*(b"%02d%04d" % (number, n) for n in range(2_000)))
        await sink.until(lambda: len(sink.log) > 50)
        begun = len(sink.log)
        replica.send(*(b"table%d" % n for n in range(10)))
        await replica.check_answers()
        assert len(sink.log) - begun < 45
        sink.cost_ns = lambda body: 1
        for flood in floods:
            await flood.check_answers()


@pytest.mark.parametrize("at_once", [True, False])
async def test_requests_wait_while_the_answers_are_held(
    monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    """Requests of one read, and requests that arrive one at a time."""
    sink = SlowSink()
    sink.cost_ns = lambda body: 0
    answer = bytes(OUTBOX_BYTES_MAX + 1)

    def execute(session: Session, body: bytes) -> None:
        sink.execute(session, body)
        if body == b"0000":
            session.hold()
        session.send(answer)

    sink.on_frame = execute
    async with clients(monkeypatch, sink, 1) as ((one,), _):
        bodies = [b"%04d" % n for n in range(10)]
        one.send(*(bodies if at_once else bodies[:1]))
        await sink.until(lambda: bool(sink.log))
        for body in () if at_once else bodies[1:]:
            one.send(body)
            for _ in range(20):  # turns of the loop: each request arrives in a read of its own
                await asyncio.sleep(0)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(sink.log) == 1
        sink.sessions[0].release()
        got = await one.reader.readexactly(10 * (len(answer) + 4))
        assert got.replace(b"\0", b"") == b"".join(one.sent)


@pytest.mark.parametrize("sink_type", [SlowSink, RawSlowSink])
async def test_no_order_of_reads_changes_the_order_of_requests(
    monkeypatch: pytest.MonkeyPatch, sink_type: type[SlowSink]
) -> None:
    """Frames that are cut anywhere, wait or not, taken from the buffer or not."""
    sink = sink_type()
    async with clients(monkeypatch, sink, 3) as (three, _):
        for number, client in enumerate(three):
            bodies = [
                (b"raw" if n // (number + 2) % 3 == 0 else b"not") + b"%d%05d" % (number, n)
                for n in range(400)
            ]
            client.sent += bodies
            data = b"".join(frame(1, body) for body in bodies)
            client.writer.get_extra_info("socket").setsockopt(
                socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
            )
            for start in range(0, len(data), 1_777 + 1_000 * number):
                client.writer.write(data[start : start + 1_777 + 1_000 * number])
                await asyncio.sleep(0)
        for client in three:
            await client.check_answers()
    for client in three:
        mine = set(client.sent)
        assert [body for body in sink.bodies() if body in mine] == client.sent


async def test_no_more_is_read_while_requests_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = SlowSink()
    async with clients(monkeypatch, sink, 1) as ((one,), _):
        one.send(*(b"%04d" % n + bytes(10_000) for n in range(1_000)))
        await sink.until(lambda: len(sink.log) == 20)
        connection = connection_of(sink.sessions[0])
        assert 0 < connection.half_frame <= 2 * RECEIVE_BYTES
        await one.check_answers()
        assert not connection.waits
        assert connection.half_frame == 0


async def test_little_is_read_when_a_turn_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the requests of many busy clients wait in the system, not in the memory of the server."""
    sink = SlowSink()
    sink.cost_ns = lambda body: TURN_NS
    held: list[list[int]] = []

    def execute(session: Session, body: bytes) -> None:
        held.append([connection_of(each).half_frame for each in sink.sessions])
        sink.execute(session, body)

    sink.on_frame = execute
    async with clients(monkeypatch, sink, 20) as (many, _):
        for number, each in enumerate(many):
            each.send(*(b"%02d%02d" % (number, n) + bytes(20_000) for n in range(10)))
        for each in many:
            await each.check_answers()
    second = sorted(held[1])
    assert LATE_BYTES in second[:-1]
    assert max(second[:-1]) == LATE_BYTES


async def test_a_read_that_comes_all_the_same_stays_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An event loop may deliver what it has read before reading was paused."""
    sink = RawSlowSink()
    async with clients(monkeypatch, sink, 1) as ((one,), _):
        one.send(*(b"%04d" % n for n in range(10)))
        await sink.until(lambda: len(sink.log) == 2)
        connection = connection_of(sink.sessions[0])
        for n in range(3):
            late = frame(1, b"raw%d" % n)
            connection.get_buffer(-1)[: len(late)] = late
            connection.buffer_updated(len(late))
            one.sent.append(b"raw%d" % n)
        await one.check_answers()
        assert sink.bodies() == one.sent
        assert connection.half_frame == 0
        one.sent.clear()
        one.send(b"large" * 600_000, b"end")  # most of it is read to where it belongs
        await one.check_answers()


async def test_a_half_frame_does_not_age_while_nothing_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink = SlowSink()
    bounds = Bounds(half_frame_ms=40)
    whole = frame(1, b"last")
    async with clients(monkeypatch, sink, 1, bounds) as ((one,), server):
        one.sent += [b"%04d" % n for n in range(1_000)]
        data = b"".join(frame(1, body) for body in one.sent)
        assert len(data) < 200_000
        one.writer.write(data + whole[:9])
        await one.check_answers()  # 2,500 ms by the clock of this test
        await asyncio.sleep(10 * bounds.sweep_ms / 1000)
        one.writer.write(whole[9:])
        assert await one.reader.readexactly(4) == b"last"
        assert server.figures.cut == 0


async def test_a_connection_that_is_closed_executes_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink = SlowSink()

    def execute(session: Session, body: bytes) -> None:
        sink.execute(session, body)
        if body == b"0004":
            session.send(bytes(LARGE_BYTES))  # the last bytes leave slowly
            session.close("over")

    sink.on_frame = execute
    async with clients(monkeypatch, sink, 1) as ((one,), _):
        one.writer.transport.pause_reading()  # type: ignore[attr-defined]
        one.send(*(b"%04d" % n for n in range(50)))
        await sink.until(lambda: len(sink.log) >= 5)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not sink.lost
        assert sink.bodies() == one.sent[:5]


async def test_a_connection_that_others_close_executes_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink = SlowSink()
    async with clients(monkeypatch, sink, 1) as ((one,), _):
        one.writer.transport.pause_reading()  # type: ignore[attr-defined]
        one.send(*(b"%04d" % n for n in range(50)))
        await sink.until(lambda: len(sink.log) >= 4)
        sink.sessions[0].send(bytes(LARGE_BYTES))  # the last bytes leave slowly
        sink.sessions[0].close("the server stops")
        executed = len(sink.log)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not sink.lost
        assert len(sink.log) == executed


async def test_a_client_that_goes_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = SlowSink()
    async with clients(monkeypatch, sink, 1) as ((one,), server):
        one.send(*(b"%04d" % n for n in range(500)))
        await sink.until(lambda: len(sink.log) > 4)
        connection = connection_of(sink.sessions[0])
        assert connection.half_frame > 1_000
        one.writer.transport.abort()
        await sink.until(lambda: bool(sink.lost))
        assert not connection.waits
        assert connection.half_frame == 0
        assert server.connection_count == 0
    assert len(sink.log) < 500


async def test_an_error_in_a_waiting_request_cuts_its_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sink = SlowSink()

    def execute(session: Session, body: bytes) -> None:
        sink.execute(session, body)
        if body == b"0010":
            raise ValueError("cannot do this one")

    sink.on_frame = execute
    async with clients(monkeypatch, sink, 2) as ((one, other), _):
        one.send(*(b"%04d" % n for n in range(50)))
        await sink.until(lambda: bool(sink.lost))
        other.send(b"fine")
        await other.check_answers()
    assert sink.bodies() == [*one.sent[:11], b"fine"]
    assert "cannot do this one" in caplog.text


async def test_kept_requests_count_as_unfinished_frames() -> None:
    """So many clients that each send much cannot use the machine's memory."""
    sink = EchoSink()
    async with serving(sink, Bounds(half_frames_total_bytes=300_000)) as (server, port):
        sink.on_frame = lambda session, body: session.send(bytes(OUTBOX_BYTES_MAX + 1))
        async with connected(port) as (_, first), connected(port) as (_, second):
            for writer in (first, second):
                writer.transport.pause_reading()  # type: ignore[attr-defined]
                writer.write(frame(1, bytes(200)) * 900)
            await sink.until(lambda: bool(sink.lost))
            assert server.figures.cut >= 1
            for writer in (first, second):
                writer.transport.abort()
