"""Accept loop of a listening socket: limited by file descriptors, for plain and TLS connections.

The accept loop of asyncio accepts up to its whole backlog at once and leaves no descriptors for
files. With TLS, the first byte of a connection shows whether the client speaks TLS.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial

from epochmq.base.log_throttle import LogThrottle, also_left_out
from epochmq.runtime.descriptors import socket_refusal
from epochmq.runtime.tls import ServerTls

log = logging.getLogger(__name__)

TLS_HELLO = 0x16
WAITING_MAX = 1_024
"""Connections before their first byte or in the TLS handshake.

One more connection closes the one that waits longest.
"""
HANDSHAKE_MS_MAX = 5_000
"""Maximum time from the accept to the end of the TLS handshake."""
ACCEPTS_A_TURN = 64
"""Maximum number of connections accepted in one turn of the event loop."""
PAUSE_S = 0.1
"""Pause after a failed accept, for example when no file descriptor is left."""
REPORT_MS = 10_000
"""At most one log line per reason is written in this time for closed connections."""


class AcceptLoop:
    """Accepts connections on one listening socket until it is closed."""

    def __init__(
        self,
        listener: socket.socket,
        factory: Callable[[], asyncio.BaseProtocol],
        tls: ServerTls | None,
        crowded: Callable[[], None],
        *,
        handshake_ms: int = HANDSHAKE_MS_MAX,
    ) -> None:
        """Start to accept; each connection gets a protocol object from `factory`.

        `crowded` is called when a connection is refused because descriptors are short.
        """
        self._crowded = crowded
        self._listener = listener
        self._factory = factory
        self._tls = tls
        self._timeout_s = min(handshake_ms, HANDSHAKE_MS_MAX) / 1000
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[asyncio.Task[None], None] = {}
        self._throttle = LogThrottle(REPORT_MS)
        self._resuming: asyncio.TimerHandle | None = None
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        """Stop accepting, and close the connections that are not served yet."""
        if self._resuming is None:
            self._loop.remove_reader(self._listener)
        else:
            self._resuming.cancel()
        for task in list(self._waiting):
            task.cancel()
        self._listener.close()

    def _accept(self) -> None:
        for _ in range(ACCEPTS_A_TURN):
            try:
                sock, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as error:
                self._report("cannot accept a connection: %(reason)s%(left_out)s", error)
                self._loop.remove_reader(self._listener)
                self._resuming = self._loop.call_later(PAUSE_S, self._resume)
                return
            refusal = socket_refusal(sock.fileno())
            if refusal is not None:
                self._crowded()
                sock.close()
                self._report("a connection was refused: %(reason)s%(left_out)s", refusal)
                continue
            sock.setblocking(False)
            if self._tls is not None and len(self._waiting) >= WAITING_MAX:
                next(iter(self._waiting)).cancel()
            task = self._loop.create_task(self._let_in(sock))
            self._waiting[task] = None
            task.add_done_callback(partial(self._let_go, sock))

    def _resume(self) -> None:
        self._resuming = None
        self._loop.add_reader(self._listener, self._accept)

    def _let_go(self, sock: socket.socket, task: "asyncio.Task[None]") -> None:
        self._waiting.pop(task, None)
        if task.cancelled():  # perhaps before its first step: the task then closed nothing itself
            sock.close()

    async def _let_in(self, sock: socket.socket) -> None:
        try:
            if self._tls is None:
                await self._loop.connect_accepted_socket(self._factory, sock)
                return
            async with asyncio.timeout(self._timeout_s):
                secure = self._tls.enforced or await _first_byte(sock) == TLS_HELLO
                await self._loop.connect_accepted_socket(
                    self._factory, sock, ssl=self._tls.context if secure else None
                )
        except (TimeoutError, OSError, ssl.SSLError) as error:
            sock.close()
            why = str(error) or type(error).__name__
            self._report("a connection was not let in: %(reason)s%(left_out)s", why)

    def _report(self, line: str, why: object) -> None:
        left_out = self._throttle.left_out(line, int(self._loop.time() * 1000))
        if left_out is not None:
            log.warning(line, {"reason": why, "left_out": also_left_out(left_out)})


async def _first_byte(sock: socket.socket) -> int | None:
    """Return the first byte without consuming it; None when the peer closes first."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    loop.add_reader(sock, _end_wait, readable)
    try:
        await readable
    finally:
        loop.remove_reader(sock)
    first = sock.recv(1, socket.MSG_PEEK)
    return first[0] if first else None


def _end_wait(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
