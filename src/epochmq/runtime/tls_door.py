"""The accept loop of a port with TLS: looks at a connection's first byte before it is served.

asyncio's own accept loop cannot do this, so ports without TLS go on using that one.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable

from epochmq.runtime.connection import Connection
from epochmq.runtime.tls import ServerTls

log = logging.getLogger(__name__)

TLS_HELLO = 0x16
WAITING_MAX = 1_024
"""Connections that have not said yet what they speak; more are closed at once."""
PAUSE_S = 0.1
"""After an accept that failed, as when no file descriptor is left."""


class TlsDoor:
    """Accepts on one listening socket until it is closed."""

    def __init__(
        self,
        listener: socket.socket,
        factory: Callable[[], Connection],
        tls: ServerTls,
        timeout_ms: int,
    ) -> None:
        self._listener = listener
        self._factory = factory
        self._tls = tls
        self._timeout_s = timeout_ms / 1000
        self._waiting: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    def close(self) -> None:
        """Accept nothing more and drop who has not been let in yet."""
        self._accepting.cancel()
        for task in self._waiting:
            task.cancel()
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(self._listener)
            except OSError as error:
                log.warning("cannot accept a connection: %s", error)
                await asyncio.sleep(PAUSE_S)
                continue
            if len(self._waiting) >= WAITING_MAX:
                sock.close()
                continue
            task = loop.create_task(self._let_in(sock))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)

    async def _let_in(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeout_s):
                secure = self._tls.enforced or await _first_byte(sock) == TLS_HELLO
                await loop.connect_accepted_socket(
                    self._factory, sock, ssl=self._tls.context if secure else None
                )
        except (TimeoutError, OSError, ssl.SSLError) as error:
            log.info("a connection was not let in: %s", str(error) or type(error).__name__)
            sock.close()
        except asyncio.CancelledError:
            sock.close()
            raise


async def _first_byte(sock: socket.socket) -> int | None:
    """The first byte, left where it is; None when the peer closes without one."""
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    loop.add_reader(sock, _settle, readable)
    try:
        await readable
    finally:
        loop.remove_reader(sock)
    first = sock.recv(1, socket.MSG_PEEK)
    return first[0] if first else None


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
