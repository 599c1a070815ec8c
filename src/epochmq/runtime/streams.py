"""Plain sockets for replication, which moves log bytes between files and sockets itself.

The transports of asyncio copy what they send; here the reader and the writer own the socket.
"""

import asyncio
import logging
import os
import socket
import time
from contextlib import suppress
from typing import Any

from epochmq.base.errors import NotReachable
from epochmq.base.log_throttle import LogThrottle, also_left_out
from epochmq.runtime.descriptors import socket_refusal
from epochmq.runtime.listen import listen, tune

log = logging.getLogger(__name__)

HA_ORIGIN = "haListenPort (0, the default, is listenPort + 1)"
REPORT_MS = 10_000
"""At most one log line is written in this time for refused connections."""


class PlainStream(socket.socket):
    """A plain socket."""

    __slots__ = ()

    def send_file(self, file: int, position: int, size: int) -> int:
        """Write bytes of an open file, without copying them."""
        return os.sendfile(self.fileno(), file, position, size)


class StreamSockets:
    """The implementation of `replication.ports.Sockets`."""

    def __init__(self) -> None:
        self._throttle = LogThrottle(REPORT_MS)

    def listen(self, host: str, port: int) -> tuple[socket.socket, int]:
        """Return a listening socket and its port, which the system chooses when `port` is 0."""
        sock = listen(host, port, origin=HA_ORIGIN)
        return sock, int(sock.getsockname()[1])

    def accept(self, listener: socket.socket) -> tuple[Any, str] | None:
        """Accept the next connection; return it with the peer's address, or None.

        None means that no connection waits, or that the connection was refused.
        """
        try:
            sock, address = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionError):
            return None
        refusal = socket_refusal(sock.fileno(), for_replicas=True)
        if refusal is not None:
            sock.close()
            left_out = self._throttle.left_out("", time.monotonic_ns() // 1_000_000)
            if left_out is not None:
                log.warning(
                    "a connection to the replication port was refused: %(reason)s%(left_out)s",
                    {"reason": refusal, "left_out": also_left_out(left_out)},
                )
            return None
        stream = PlainStream(sock.family, sock.type, sock.proto, sock.detach())
        stream.setblocking(False)
        with suppress(OSError):
            tune(stream)
        return stream, f"{address[0]}:{address[1]}"

    async def connect(self, host: str, port: int, timeout_ms: int) -> Any:
        """Return a connected socket.

        Raises `NotReachable` on a refusal, or after `timeout_ms`.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._connect(host, port)
        except (OSError, UnicodeError, TimeoutError) as error:
            reason = str(error) or f"no answer within {timeout_ms} ms"
            raise NotReachable(f"cannot connect to {host}:{port}: {reason}") from None

    async def when_ready(self, sock: Any, *, writable: bool) -> None:
        """Wait until bytes can be read from `sock`, or written to it."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        number = sock.fileno()

        def wake() -> None:
            if not ready.done():
                ready.set_result(None)

        if writable:
            loop.add_writer(number, wake)
        else:
            loop.add_reader(number, wake)
        try:
            await ready
        finally:
            if writable:
                loop.remove_writer(number)
            else:
                loop.remove_reader(number)

    async def _connect(self, host: str, port: int) -> socket.socket:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _name, address = found[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            tune(sock)
            await loop.sock_connect(sock, address)
        except BaseException:
            sock.close()
            raise
        return sock
