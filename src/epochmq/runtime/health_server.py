"""Health endpoint: answers for load balancers, probes and scrapers over HTTP, by h11.

Only GET, HEAD and OPTIONS of fixed paths are answered. A request changes nothing, and its body and
its headers are not read, except `Accept-Encoding`. One read may contain thousands of requests: a
connection answers them in its part of each turn of the event loop (`turn.py`), and none while the
peer does not read.
"""

import asyncio
import json
import logging
import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import cast

import h11

from epochmq.runtime.accept_loop import AcceptLoop
from epochmq.runtime.clock import steady_ns
from epochmq.runtime.listen import listen
from epochmq.runtime.turn import Rank, turn_of

log = logging.getLogger(__name__)

CONNECTIONS_MAX = 200
HEAD_BYTES_MAX = 8 * 1024
"""Request line and headers."""
IDLE_S = 30.0
"""A connection without a whole request for this time is closed, and one that does not read a page
in this time.
"""
_GZIP = 31
"""Window of zlib with the frame of gzip."""
_METHODS = (b"GET", b"HEAD", b"OPTIONS")
_ALLOW = (b"allow", b", ".join(_METHODS))


@dataclass(frozen=True, slots=True)
class Health:
    """The answer to one path: 200 if `ok`, else 503, with `facts` as JSON."""

    ok: bool
    facts: Mapping[str, object]


Checks = Mapping[str, Callable[[], Health]]
"""Paths, and the functions that answer them at once."""


@dataclass(frozen=True, slots=True)
class Page:
    """A text that takes some time to make.

    `write` returns its pieces for each request, in a list that the server empties: many pieces
    are not freed in one step.
    """

    content_type: str
    write: Callable[[], Awaitable[list[memoryview]]]


class HealthServer:
    """Listens on one port, on the running event loop."""

    def __init__(self, checks: Checks, pages: Mapping[str, Page] | None = None) -> None:
        self.checks = checks
        self.pages: Mapping[str, Page] | dict[str, Page] = pages or {}
        self.connections: set[HealthConnection] = set()
        self._listener: AcceptLoop | None = None

    def start(self, host: str, port: int, *, origin: str) -> int:
        """Listen, and return the port, which the system chooses when `port` is 0.

        `origin` is the option that sets the port, for the error text.

        Raises:
            PortInUse: another process uses the port.
            EnvironmentFault: any other problem.
        """
        sock = listen(host, port, origin=origin)
        bound = int(sock.getsockname()[1])
        self._listener = AcceptLoop(sock, self._connection, None, lambda: None)
        return bound

    def _connection(self) -> "HealthConnection":
        return HealthConnection(self)

    def stop(self) -> None:
        """Stop listening, and close all connections."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in list(self.connections):
            connection.close()


class HealthConnection(asyncio.Protocol):
    """One connection of a load balancer or a probe."""

    def __init__(self, server: HealthServer) -> None:
        self._server = server
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._transport: asyncio.Transport
        self._request: h11.Request | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        """Makes the page that was asked for; later requests of the connection wait."""
        self._writable = asyncio.Event()
        self._writable.set()
        self._turn = turn_of(asyncio.get_running_loop())
        self._is_queued = False
        """Whether a later turn will call `run_waiting`: received requests wait."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._server.connections.add(self)
        if len(self._server.connections) > CONNECTIONS_MAX:
            self.close()
        else:
            self._wait()

    def connection_lost(self, error: Exception | None) -> None:
        if self._idle is not None:
            self._idle.cancel()
        if self._writing is not None:
            self._writing.cancel()
        self._server.connections.discard(self)

    def close(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            self._http.receive_data(data)
        except h11.RemoteProtocolError as error:
            self._refuse(error)
            return
        if self._is_queued or not self._writable.is_set():
            return  # the event loop had read it before reading was paused
        if self._turn.is_over():
            self._let_wait(Rank.SHORT if len(data) <= HEAD_BYTES_MAX else Rank.LONG)
        else:
            self._read()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()
        if self._writing is None and not self._is_queued:
            self._let_wait(Rank.SERVED)

    def _let_wait(self, rank: Rank) -> None:
        """Answer the requests that arrived in a later turn, and read no more until then."""
        self._transport.pause_reading()
        self._is_queued = True
        self._turn.wait(self, rank)

    def run_waiting(self) -> None:
        """Answer waiting requests for the connection's part of a turn; the turn calls this."""
        self._is_queued = False
        if self._transport.is_closing() or not self._writable.is_set():
            return  # `connection_lost` follows, or `resume_writing`
        self._transport.resume_reading()
        self._read()

    def _wait(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self.close)

    def _read(self) -> None:
        """Answer the requests that arrived; what is not HTTP ends the connection."""
        try:
            self._answer_requests()
        except h11.RemoteProtocolError as error:
            self._refuse(error)

    def _answer_requests(self) -> None:
        end_ns = self._turn.share_end()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA or event is h11.PAUSED:
                return
            if isinstance(event, h11.ConnectionClosed):
                self._transport.close()
                return
            if isinstance(event, h11.Request):
                self._request = event
            elif isinstance(event, h11.EndOfMessage):
                self._answer()
                if self._writing is not None or not self._goes_on():
                    return
                if not self._writable.is_set():
                    self._transport.pause_reading()
                    return  # `resume_writing` follows
                if steady_ns() >= end_ns:
                    self._let_wait(Rank.SERVED)
                    return

    def _goes_on(self) -> bool:
        """Prepare for the next request; return whether there can be one."""
        if self._http.our_state is not h11.DONE:
            self._transport.close()
            return False
        self._http.start_next_cycle()
        self._wait()
        return True

    def _answer(self) -> None:
        request = self._request
        assert request is not None
        path = request.target.decode("ascii", "replace").partition("?")[0]
        check, page = self._server.checks.get(path), self._server.pages.get(path)
        if request.method not in _METHODS:
            self._send(405, {"error": "only GET, HEAD and OPTIONS"}, _ALLOW)
        elif page is not None:
            if self._idle is not None:
                self._idle.cancel()
            self._transport.pause_reading()  # what arrives now would be kept without a limit
            self._writing = asyncio.get_running_loop().create_task(self._write(page, request))
        elif check is None:
            known = sorted({**self._server.checks, **self._server.pages})
            self._send(404, {"error": "there is no such path here", "paths": known})
        else:
            found = check()
            self._send(200 if found.ok else 503, found.facts)

    async def _write(self, page: Page, request: h11.Request) -> None:
        more: list[tuple[bytes, bytes]] = []
        try:
            pieces = await page.write()
            if any(n == b"accept-encoding" and b"gzip" in v for n, v in request.headers):
                pieces = [await asyncio.to_thread(_packed, pieces)]
                more.append((b"content-encoding", b"gzip"))
        except Exception:
            log.exception("health endpoint: a page cannot be made")
            self._send(500, {"error": "this page cannot be made; see the log of the server"})
        else:
            try:
                async with asyncio.timeout(IDLE_S):
                    await self._send_page(page.content_type.encode(), pieces, *more)
            except TimeoutError:
                self.close()
        self._writing = None
        if self._goes_on():
            self._let_wait(Rank.SERVED)

    async def _send_page(
        self, content_type: bytes, pieces: list[memoryview], *more: tuple[bytes, bytes]
    ) -> None:
        """Write a page piece by piece, no faster than the peer reads; other work runs between two
        pieces. Each piece is removed from `pieces`.
        """
        self._transport.write(self._head(200, content_type, sum(map(len, pieces)), *more))
        is_wanted = self._request is not None and self._request.method != b"HEAD"
        pieces.reverse()
        while pieces:
            piece = pieces.pop()
            if is_wanted:
                # The piece itself; `send` would copy it.
                event = h11.Data(data=cast(bytes, piece))
                for data in self._http.send_with_data_passthrough(event) or ():
                    self._transport.write(data)
            await self._writable.wait()
            await asyncio.sleep(0)  # `wait` does not, as long as the peer reads fast enough
        self._transport.write(self._http.send(h11.EndOfMessage()) or b"")

    def _send(self, status: int, facts: Mapping[str, object], *more: tuple[bytes, bytes]) -> None:
        self._send_body(status, b"application/json", json.dumps(facts).encode() + b"\n", *more)

    def _send_body(
        self, status: int, content_type: bytes, body: bytes, *more: tuple[bytes, bytes]
    ) -> None:
        parts = [self._head(status, content_type, len(body), *more)]
        if self._request is None or self._request.method != b"HEAD":
            parts.append(self._http.send(h11.Data(data=body)) or b"")
        parts.append(self._http.send(h11.EndOfMessage()) or b"")
        self._transport.write(b"".join(parts))

    def _head(
        self, status: int, content_type: bytes, size: int, *more: tuple[bytes, bytes]
    ) -> bytes:
        headers = [
            (b"content-type", content_type),
            (b"content-length", b"%d" % size),
            (b"cache-control", b"no-store"),
            *more,
        ]
        return self._http.send(h11.Response(status_code=status, headers=headers)) or b""

    def _refuse(self, error: h11.RemoteProtocolError) -> None:
        """Answer what is not HTTP, and close."""
        log.debug("health endpoint: %(error)s", {"error": error})
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._request = None
            self._send(error.error_status_hint, {"error": str(error)})
        self._transport.close()


def _packed(pieces: list[memoryview]) -> memoryview:
    """Compress piece by piece, so that the interpreter's lock is free most of the time.

    Each piece is removed from `pieces`.
    """
    packer = zlib.compressobj(1, wbits=_GZIP)
    packed = []
    pieces.reverse()
    while pieces:
        packed.append(packer.compress(pieces.pop()))
    packed.append(packer.flush())
    return memoryview(b"".join(packed))
