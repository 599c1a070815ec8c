"""Listening side of remoting: RemotingServer passes the frames of all connections to a sink.

A slow, silent or hostile peer costs only its own connection. A periodic sweep enforces the limits,
because a timer per connection would cost more than the connection itself.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from epochmq.base import limits
from epochmq.base.log_throttle import LogThrottle, also_left_out
from epochmq.runtime.accept_loop import AcceptLoop
from epochmq.runtime.bounds import Bounds, Budget, verdict
from epochmq.runtime.clock import steady_ns
from epochmq.runtime.connection import Connection
from epochmq.runtime.listen import listen
from epochmq.runtime.signals import on_reload
from epochmq.runtime.tls import ServerTls
from epochmq.runtime.turn import turn_of
from epochmq.wire.session import FrameSink

log = logging.getLogger(__name__)

SWEEP_COUNT = 2_000
"""Connections checked in one step, so that a sweep holds the loop for less than 1 ms."""

REPORT_MS = 1_000
"""At most one log line per peer is written in this time for closed connections."""
CROWDED_MS = 10_000
"""Silent connections are closed for this time after a connection was refused."""


@dataclass(slots=True)
class _Port:
    """One listening port; the owner of the connections that it accepts."""

    server: "RemotingServer"
    sink: FrameSink
    fast_port: bool
    unsent_bytes_max: int
    unsent: Budget[Connection]
    half_frames: Budget[Connection]
    header_bytes_max: int = limits.HEADER_BYTES_MAX
    shares_turns: bool = True

    def made(self, connection: Connection) -> str | None:
        return self.server.admit(connection)

    def slowed(self, connection: Connection, slow: bool) -> None:
        self.server.slowed(connection, slow)

    def gone(self, connection: Connection, reason: str) -> None:
        self.server.gone(connection, reason)


@dataclass
class Figures:
    """Counters of the server since its start."""

    accepted: int = 0
    refused: int = 0
    cut: int = 0


class RemotingServer:
    """Listens on one or more ports of one server process, all on the running event loop."""

    def __init__(self, bounds: Bounds | None = None) -> None:
        self.bounds: Bounds = bounds or Bounds()
        self.figures: Figures = Figures()
        self._connections: dict[Connection, None] = {}
        self._slow: dict[Connection, None] = {}
        self._unsent = Budget(
            self.bounds.unsent_total_bytes,
            self._connections,
            attrgetter("unsent"),
            self._cut,
            "leave unread",
        )
        self._half_frames = Budget(
            self.bounds.half_frames_total_bytes,
            self._connections,
            attrgetter("half_frame"),
            self._cut,
            "sent of unfinished frames",
        )
        self._throttle = LogThrottle(REPORT_MS)
        self._round: list[Connection] = []
        self._crowded_until = 0
        """Silent connections are closed until this time (monotonic ms), to make room."""
        self._listeners: list[AcceptLoop] = []
        self._reloads: dict[ServerTls, Callable[[], None]] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def buffered_bytes(self) -> tuple[int, int]:
        """Return the bytes of requests that are not complete, and of answers that are not sent."""
        connections = list(self._connections)
        return sum(c.half_frame for c in connections), sum(c.unsent for c in connections)

    async def start(
        self,
        host: str,
        port: int,
        sink: FrameSink,
        *,
        fast_port: bool = False,
        tls: ServerTls | None = None,
        origin: str = "listenPort",
    ) -> int:
        """Listen and serve; return the port, which the system chooses when `port` is 0.

        `origin` is the option that sets the port, for the error text. Raises `PortInUse`,
        otherwise `EnvironmentFault`.
        """
        loop = asyncio.get_running_loop()
        sock = listen(host, port, self.bounds.backlog, origin=origin)
        bound_port = int(sock.getsockname()[1])
        owner = _Port(
            self, sink, fast_port, self.bounds.unsent_bytes, self._unsent, self._half_frames
        )
        factory = partial(Connection, loop, turn_of(loop), owner)
        self._listeners.append(
            AcceptLoop(sock, factory, tls, self._crowded, handshake_ms=self.bounds.half_frame_ms)
        )
        if tls is not None and tls not in self._reloads:
            self._reloads[tls] = on_reload(tls.renew)
        if self._sweeper is None:
            self._plan_sweep(loop)
        return bound_port

    async def stop(self, grace_ms: int = 3_000) -> None:
        """Stop accepting, send what is queued, close; after `grace_ms` abort what is left."""
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        for forget in self._reloads.values():
            forget()
        self._reloads.clear()
        for connection in list(self._connections):
            connection.cut("the server stops")
        await self._wait_drained(grace_ms)
        for connection in list(self._connections):
            connection.abort("the server stops")
        await self._wait_drained(grace_ms)
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    async def _wait_drained(self, timeout_ms: int) -> None:
        if self._connections:
            self._drained = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._drained], timeout=timeout_ms / 1000)
            self._drained = None

    # What connections report -----------------------------------------------------------------

    def admit(self, connection: Connection) -> str | None:
        self._connections[connection] = None
        if len(self._connections) > self.bounds.connections:
            self._crowded()
            return f"more than {self.bounds.connections} connections"
        self.figures.accepted += 1
        return None

    def _crowded(self) -> None:
        """Note that a connection was refused because there is no room."""
        self.figures.refused += 1
        now = steady_ns() // 1_000_000
        self._crowded_until = now + CROWDED_MS

    def slowed(self, connection: Connection, slow: bool) -> None:
        if slow:
            self._slow[connection] = None
        else:
            self._slow.pop(connection, None)

    def gone(self, connection: Connection, reason: str) -> None:
        self._connections.pop(connection, None)
        if reason and self._listeners:
            self._report(connection.session.peer, reason)
        else:
            log.debug(
                "%(peer)s: closed: %(reason)s",
                {"peer": connection.session.peer, "reason": reason or "by the peer"},
            )
        if not self._connections and self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _report(self, peer: str, reason: str) -> None:
        """Log a closed connection, at most one line per peer in `REPORT_MS`."""
        now = int(asyncio.get_running_loop().time() * 1000)
        left_out = self._throttle.left_out(peer.rpartition(":")[0], now)
        if left_out is not None:
            log.info(
                "%(peer)s: closed: %(reason)s%(left_out)s",
                {"peer": peer, "reason": reason, "left_out": also_left_out(left_out)},
            )

    # The sweep -------------------------------------------------------------------------------

    def _plan_sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self._sweeper = loop.call_later(self.bounds.sweep_ms / 1000, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self._plan_sweep(loop)
        now = steady_ns() // 1_000_000
        self._watch_slow(now)
        if not self._round:
            self._round = list(self._connections)
        part, self._round = self._round[:SWEEP_COUNT], self._round[SWEEP_COUNT:]
        for connection in part:
            if connection in self._connections:
                reason = verdict(connection, self.bounds, now, crowded=now < self._crowded_until)
                if reason is not None:
                    self._cut(connection, reason)

    def _watch_slow(self, now: int) -> None:
        """Note which slow connections made progress."""
        for connection in self._slow:
            unsent = connection.unsent
            if unsent < connection.unsent_seen:
                connection.stalled_since = now
            connection.unsent_seen = unsent

    def _cut(self, connection: Connection, reason: str) -> None:
        self.figures.cut += 1
        connection.abort(reason)
