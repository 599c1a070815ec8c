"""The health endpoint, asked by plain sockets, by urllib, and by what is not HTTP."""

import asyncio
import contextlib
import gzip
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.aio.eventually import eventually
from tests.tiers import examples

from epochmq.base.errors import PortInUse
from epochmq.runtime import health_server
from epochmq.runtime import turn as turn_module
from epochmq.runtime.health_server import (
    CONNECTIONS_MAX,
    HEAD_BYTES_MAX,
    Health,
    HealthServer,
    Page,
)
from epochmq.runtime.turn import SHARE_NS, TURN_NS


class Endpoint:
    def __init__(self) -> None:
        self.ok = True
        self.server = HealthServer({"/-/master": lambda: Health(self.ok, {"epoch": 3})})
        self.port = 0

    async def ask(self, data: bytes) -> bytes:
        """All that comes back until the server closes the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        try:
            async with asyncio.timeout(10):
                return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()


@asynccontextmanager
async def endpoint() -> AsyncIterator[Endpoint]:
    it = Endpoint()
    it.port = it.server.start("127.0.0.1", 0, origin="healthListenPort")
    try:
        yield it
    finally:
        it.server.stop()


def get(path: str = "/-/master", method: str = "GET", version: str = "1.0") -> bytes:
    return f"{method} {path} HTTP/{version}\r\nHost: b\r\nConnection: close\r\n\r\n".encode()


def parts(answer: bytes) -> tuple[int, bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_the_state_is_the_status(version: str) -> None:
    async def test() -> None:
        async with endpoint() as it:
            assert parts(await it.ask(get(version=version))) == (200, b'{"epoch": 3}\n')
            it.ok = False
            assert parts(await it.ask(get(version=version)))[0] == 503

    asyncio.run(test())


def test_head_and_options_as_load_balancers_ask() -> None:
    async def test() -> None:
        async with endpoint() as it:
            assert parts(await it.ask(get(method="HEAD"))) == (200, b"")
            assert parts(await it.ask(get(method="OPTIONS")))[0] == 200
            assert parts(await it.ask(get("/-/master?x=1")))[0] == 200
            bare = await it.ask(b"GET /-/master HTTP/1.0\r\n\r\n")
            assert parts(bare)[0] == 200

    asyncio.run(test())


def test_other_paths_and_methods_are_explained() -> None:
    async def test() -> None:
        async with endpoint() as it:
            status, body = parts(await it.ask(get("/")))
            assert status == 404
            assert json.loads(body)["paths"] == ["/-/master"]
            answer = await it.ask(get(method="DELETE"))
            assert parts(answer)[0] == 405
            assert b"allow: GET, HEAD, OPTIONS" in answer.lower().replace(
                b"get, head, options", b"GET, HEAD, OPTIONS"
            )

    asyncio.run(test())


def test_a_connection_serves_several_requests() -> None:
    async def test() -> None:
        async with endpoint() as it:
            one = b"GET /-/master HTTP/1.1\r\nHost: b\r\n\r\n"
            answers = await it.ask(one + one + get(version="1.1"))
            assert answers.count(b"HTTP/1.1 200") == 3

    asyncio.run(test())


def test_a_head_without_end_is_refused() -> None:
    async def test() -> None:
        async with endpoint() as it:
            answer = await it.ask(b"GET /-/master HTTP/1.1\r\nX: " + b"x" * (2 * HEAD_BYTES_MAX))
            assert parts(answer)[0] == 431
            assert not it.server.connections

    asyncio.run(test())


def test_a_silent_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_server, "IDLE_S", 0.05)

    async def test() -> None:
        async with endpoint() as it:
            assert await it.ask(b"GET /") == b""

    asyncio.run(test())


def test_connections_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_server, "CONNECTIONS_MAX", 2)
    assert CONNECTIONS_MAX > 2

    async def test() -> None:
        async with endpoint() as it:
            writers = []
            for _ in range(2):
                reader, writer = await asyncio.open_connection("127.0.0.1", it.port)
                writer.write(b"GET /-/master HTTP/1.1\r\nHost: b\r\n\r\n")
                writers.append(writer)
                assert await reader.readuntil(b"}") != b""
            assert await it.ask(get()) == b""
            for writer in writers:
                writer.close()

    asyncio.run(test())


def test_a_port_in_use_is_an_error() -> None:
    async def test() -> None:
        async with endpoint() as it:
            with pytest.raises(PortInUse, match="healthListenPort"):
                HealthServer({}).start("127.0.0.1", it.port, origin="healthListenPort")

    asyncio.run(test())


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as made:
        yield made


garbage = st.binary(max_size=60) | st.sampled_from(
    [b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", get()[:-9]]
)


@settings(max_examples=examples(30), deadline=None)
@given(data=garbage)
def test_what_is_not_http_ends_its_own_connection_only(runner: asyncio.Runner, data: bytes) -> None:
    async def test() -> None:
        async with endpoint() as it:
            reader, writer = await asyncio.open_connection("127.0.0.1", it.port)
            writer.write(data)
            writer.write_eof()
            with contextlib.suppress(ConnectionResetError):
                await reader.read()
            writer.close()
            assert parts(await it.ask(get()))[0] == 200

    runner.run(test())


def test_other_work_runs_between_the_pieces_of_a_page() -> None:
    """A peer that reads fast does not get a page of megabytes in one turn of the event loop."""
    count, turns = 3_000, 0

    async def write() -> list[memoryview]:
        return [memoryview(b"x" * 100)] * count

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def test() -> None:
        server = HealthServer({}, {"/page": Page("text/plain", write)})
        port = server.start("127.0.0.1", 0, origin="healthListenPort")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(get("/page"))
        turning = asyncio.create_task(turn())
        try:
            assert parts(await reader.read()) == (200, b"x" * 100 * count)
        finally:
            turning.cancel()
            writer.close()
            server.stop()
        assert turns >= count

    asyncio.run(test())


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_each_piece_of_a_page_is_freed_once_it_was_sent(method: str, encoding: str) -> None:
    pages: list[list[memoryview]] = []
    left: list[int] = []

    class Piece(bytearray):
        """Says how many pieces are left when it is freed."""

        def __del__(self) -> None:
            left.append(len(pages[0]))

    async def write() -> list[memoryview]:
        pages.append([memoryview(Piece(b"%d" % n * 50)) for n in range(10)])
        return pages[0]

    async def test() -> None:
        server = HealthServer({}, {"/page": Page("text/plain", write)})
        port = server.start("127.0.0.1", 0, origin="healthListenPort")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"{method} /page HTTP/1.1\r\nHost: b\r\nAccept-Encoding: {encoding}"
        writer.write(f"{head}\r\nConnection: close\r\n\r\n".encode())
        try:
            status, body = parts(await reader.read())
            body = gzip.decompress(body) if encoding == "gzip" and body else body
            text = b"".join(b"%d" % n * 50 for n in range(10))
            assert (status, body) == (200, text if method == "GET" else b"")
        finally:
            writer.close()
            server.stop()

    asyncio.run(test())
    assert sorted(left, reverse=True) == left
    assert len(left) == 10
    assert left.count(0) <= 2


def test_a_peer_that_does_not_read_a_page_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would keep the page in memory."""
    monkeypatch.setattr(health_server, "IDLE_S", 0.2)

    async def write() -> list[memoryview]:
        return [memoryview(b"x" * 65_536)] * 1_000

    async def test() -> None:
        server = HealthServer({}, {"/page": Page("text/plain", write)})

        async def count() -> int:
            return len(server.connections)

        port = server.start("127.0.0.1", 0, origin="healthListenPort")
        try:
            with socket.create_connection(("127.0.0.1", port)) as peer:
                peer.sendall(b"GET /page HTTP/1.1\r\nHost: b\r\n\r\n")
                await eventually(count)
                await eventually(count, lambda open_now: not open_now)
        finally:
            server.stop()

    asyncio.run(test())


@pytest.mark.parametrize(
    "more", [b"\x16\x03\x01 no HTTP\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"x" * 9_000]
)
def test_what_follows_the_request_for_a_page(more: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """The page is answered; bytes behind it that are no request end the connection."""

    async def write() -> list[memoryview]:
        await asyncio.sleep(0)
        return [memoryview(b"page")]

    async def test() -> None:
        server = HealthServer({}, {"/page": Page("text/plain", write)})
        port = server.start("127.0.0.1", 0, origin="healthListenPort")
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /page HTTP/1.1\r\nHost: b\r\n\r\n" + more)
            async with asyncio.timeout(10):
                answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 200")
            assert b"page" in answer
            writer.close()
        finally:
            server.stop()

    asyncio.run(test())
    assert "exception" not in caplog.text


def test_a_peer_cannot_fill_memory_while_its_page_is_made() -> None:
    async def test() -> None:
        done = asyncio.Event()

        async def write() -> list[memoryview]:
            await done.wait()
            return [memoryview(b"page")]

        server = HealthServer({}, {"/page": Page("text/plain", write)})
        port = server.start("127.0.0.1", 0, origin="healthListenPort")
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /page HTTP/1.1\r\nHost: b\r\n\r\n")
            for _ in range(200):
                writer.write(b"x" * 1_000_000)
                await asyncio.sleep(0)
            (connection,) = server.connections
            assert len(connection._http._receive_buffer) < 2_000_000
            done.set()
            writer.transport.abort()
        finally:
            server.stop()

    asyncio.run(test())


# Many requests in one read --------------------------------------------------------------------


ONE = b"GET /-/master HTTP/1.1\r\nHost: b\r\n\r\n"


class SlowChecks:
    """Checks that take time by an own clock, which they alone move; their answers are numbered."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, cost_ns: int, answer_bytes: int = 0
    ) -> None:
        self.now_ns = 10**9
        self.number = 0
        self.turns: list[int] = []
        """The number of the cycle of the event loop in which each check was made."""
        self._cost_ns = cost_ns
        self._filler = "x" * answer_bytes
        self.cycle = 0
        monkeypatch.setattr(turn_module, "steady_ns", lambda: self.now_ns)
        monkeypatch.setattr(health_server, "steady_ns", lambda: self.now_ns)

    def check(self) -> Health:
        self.now_ns += self._cost_ns
        self.number += 1
        self.turns.append(self.cycle)
        return Health(True, {"number": self.number, "filler": self._filler})

    async def count_cycles(self) -> None:
        while True:
            self.cycle += 1
            await asyncio.sleep(0)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[HealthServer]:
        server = HealthServer({"/-/master": self.check})
        self.port = server.start("127.0.0.1", 0, origin="healthListenPort")
        counting = asyncio.create_task(self.count_cycles())
        try:
            async with asyncio.timeout(30):
                yield server
        finally:
            counting.cancel()
            server.stop()


async def read_numbers(reader: asyncio.StreamReader, count: int) -> list[int]:
    numbers = []
    for _ in range(count):
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        numbers.append(json.loads(await reader.readexactly(size))["number"])
    return numbers


def test_requests_of_one_read_are_spread_over_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowChecks(monkeypatch, SHARE_NS // 2)

    async def test() -> None:
        async with slow.serving():
            reader, writer = await asyncio.open_connection("127.0.0.1", slow.port)
            writer.write(ONE * 100)
            assert await read_numbers(reader, 100) == list(range(1, 101))
            writer.write(ONE * 3)  # it is read again
            assert await read_numbers(reader, 3) == [101, 102, 103]
            writer.close()

    asyncio.run(test())
    assert max(slow.turns.count(turn) for turn in slow.turns) <= 2


def test_a_turn_of_health_checks_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowChecks(monkeypatch, SHARE_NS // 2)

    async def test() -> None:
        async with slow.serving():
            pairs = [await asyncio.open_connection("127.0.0.1", slow.port) for _ in range(40)]
            for _, writer in pairs:
                writer.write(ONE)
            for reader, _ in pairs:
                await read_numbers(reader, 1)
            for _, writer in pairs:
                writer.close()

    asyncio.run(test())
    assert len(slow.turns) == 40
    assert max(slow.turns.count(turn) for turn in slow.turns) <= TURN_NS // (SHARE_NS // 2) + 3


@pytest.mark.parametrize("cost_ns", [0, SHARE_NS])
def test_a_peer_that_reads_no_answers_gets_few(
    monkeypatch: pytest.MonkeyPatch, cost_ns: int
) -> None:
    """And all of them when it reads."""
    slow = SlowChecks(monkeypatch, cost_ns, answer_bytes=100_000)

    async def test() -> None:
        async with slow.serving() as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", slow.port)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(ONE * 1_000)
            begun = -1
            while begun != slow.number or not slow.number:
                begun = slow.number
                for _ in range(200):
                    await asyncio.sleep(0)
            assert slow.number < 200
            (connection,) = server.connections
            assert connection._transport.get_write_buffer_size() < 1_000_000
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert await read_numbers(reader, 1_000) == list(range(1, 1_001))
            writer.close()

    asyncio.run(test())


def test_a_peer_that_goes_while_its_requests_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowChecks(monkeypatch, SHARE_NS)

    async def checks() -> int:
        return slow.number

    async def test() -> None:
        async with slow.serving() as server:

            async def connections() -> int:
                return len(server.connections)

            _, writer = await asyncio.open_connection("127.0.0.1", slow.port)
            writer.write(ONE * 1_000)
            await eventually(checks, lambda made: made >= 3)
            writer.transport.abort()
            await eventually(connections, lambda open_now: not open_now)
            number = slow.number
            for _ in range(20):
                await asyncio.sleep(0)
            assert slow.number == number < 1_000

    asyncio.run(test())
