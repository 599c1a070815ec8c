"""Health endpoint: answers for load balancers and probes over HTTP, by h11.

Only GET, HEAD and OPTIONS of fixed paths are answered. A request changes nothing, and its body and
its headers are not read.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import h11

from epochmq.runtime.accept_loop import AcceptLoop
from epochmq.runtime.listen import listen

log = logging.getLogger(__name__)

CONNECTIONS_MAX = 200
HEAD_BYTES_MAX = 8 * 1024
"""Request line and headers."""
IDLE_S = 30.0
"""A connection without a whole request for this time is closed."""
_METHODS = (b"GET", b"HEAD", b"OPTIONS")
_ALLOW = (b"allow", b", ".join(_METHODS))


@dataclass(frozen=True, slots=True)
class Health:
    """The answer to one path: 200 if `ok`, else 503, with `facts` as JSON."""

    ok: bool
    facts: Mapping[str, object]


Checks = Mapping[str, Callable[[], Health]]
"""Paths, and the functions that answer them at once."""


class HealthServer:
    """Listens on one port, on the running event loop."""

    def __init__(self, checks: Checks) -> None:
        self.checks = checks
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
        self._server.connections.discard(self)

    def close(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            self._http.receive_data(data)
            self._read()
        except h11.RemoteProtocolError as error:
            self._refuse(error)

    def eof_received(self) -> bool:
        return False

    def _wait(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self.close)

    def _read(self) -> None:
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
                if self._http.our_state is not h11.DONE:
                    self._transport.close()
                    return
                self._http.start_next_cycle()
                self._wait()

    def _answer(self) -> None:
        request = self._request
        assert request is not None
        path = request.target.decode("ascii", "replace").partition("?")[0]
        check = self._server.checks.get(path)
        if request.method not in _METHODS:
            self._send(405, {"error": "only GET, HEAD and OPTIONS"}, _ALLOW)
        elif check is None:
            known = sorted(self._server.checks)
            self._send(404, {"error": "there is no such path here", "paths": known})
        else:
            found = check()
            self._send(200 if found.ok else 503, found.facts)

    def _send(self, status: int, facts: Mapping[str, object], *more: tuple[bytes, bytes]) -> None:
        body = json.dumps(facts).encode() + b"\n"
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
            *more,
        ]
        parts = [self._http.send(h11.Response(status_code=status, headers=headers))]
        if self._request is None or self._request.method != b"HEAD":
            parts.append(self._http.send(h11.Data(data=body)))
        parts.append(self._http.send(h11.EndOfMessage()))
        self._transport.write(b"".join(part for part in parts if part))

    def _refuse(self, error: h11.RemoteProtocolError) -> None:
        """Answer what is not HTTP, and close."""
        log.debug("health endpoint: %s", error)
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._request = None
            self._send(error.error_status_hint, {"error": str(error)})
        self._transport.close()
