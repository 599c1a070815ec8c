"""TLS on the sockets of replication; the plain ones are in `streams.py`.

A master can accept plain and TLS links on one port: the first byte of a link tells them apart
(`tls.py`). A follower that may use both tries TLS first, and a plain link after a failure.
"""

import asyncio
import os
import socket
import ssl
from typing import Any

from epochmq.base.errors import NotReachable
from epochmq.runtime.signals import on_reload_while_used
from epochmq.runtime.streams import StreamSockets
from epochmq.runtime.tls import ServerTls

_FILE_BYTES_MAX = 256 * 1024
"""Bytes that are read from a file for one call; the socket takes one record of them at a time."""
_HELLO = b"\x16"
"""First byte of a TLS link; a plain one begins with another byte."""


class TlsStream:
    """A non-blocking TLS socket that raises the errors of plain ones.

    A call that could not write all is repeated with the same bytes and more, as OpenSSL demands:
    callers keep what was not written.
    """

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._sock = sock

    def fileno(self) -> int:
        """Return the number of the socket."""
        return self._sock.fileno()

    def recv_into(self, buffer: Any) -> int:
        """Read into `buffer`; the first call completes the handshake."""
        try:
            return self._sock.recv_into(buffer)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def send(self, data: Any, flags: int = 0) -> int:
        """Write; `flags` are for plain sockets."""
        try:
            return self._sock.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def sendmsg(self, buffers: Any) -> int:
        """Write several buffers; a record never has bytes of two of them."""
        sent = 0
        for buffer in buffers:
            view = memoryview(buffer)
            while len(view):
                try:
                    count = self.send(view)
                except BlockingIOError:
                    if sent:
                        return sent
                    raise
                sent += count
                view = view[count:]
        return sent

    def send_file(self, file: int, position: int, size: int) -> int:
        """Write bytes of an open file."""
        data = os.pread(file, min(size, _FILE_BYTES_MAX), position)
        if not data:
            raise ConnectionError("the log file is shorter than expected")
        return self.send(data)

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


class UndecidedStream:
    """A link that was just accepted: TLS or plain, as its first byte says."""

    def __init__(self, sock: Any, context: ssl.SSLContext, *, plain_allowed: bool) -> None:
        self._stream = sock
        self._context = context
        self._plain_allowed = plain_allowed
        self._decided = False

    def fileno(self) -> int:
        """Return the number of the socket."""
        return int(self._stream.fileno())

    def recv_into(self, buffer: Any) -> int:
        """Read into `buffer`. Raises `ConnectionError` for a plain link that is not allowed."""
        if not self._decided:
            self._decide()
        return int(self._stream.recv_into(buffer))

    def send(self, data: Any, flags: int = 0) -> int:
        """Write, once the link is decided."""
        return int(self._chosen().send(data, flags))

    def sendmsg(self, buffers: Any) -> int:
        """Write several buffers, once the link is decided."""
        return int(self._chosen().sendmsg(buffers))

    def send_file(self, file: int, position: int, size: int) -> int:
        """Write bytes of an open file, once the link is decided."""
        return int(self._chosen().send_file(file, position, size))

    def close(self) -> None:
        """Close the socket."""
        self._stream.close()

    def _chosen(self) -> Any:
        if not self._decided:
            raise BlockingIOError
        return self._stream

    def _decide(self) -> None:
        first = self._stream.recv(1, socket.MSG_PEEK)
        if first == _HELLO:
            wrapped = self._context.wrap_socket(
                self._stream, server_side=True, do_handshake_on_connect=False
            )
            self._stream = TlsStream(wrapped)
        elif first and not self._plain_allowed:
            raise ConnectionError("it is not encrypted, and haTlsMode=enforcing demands TLS")
        self._decided = True


class TlsStreamSockets(StreamSockets):
    """Makes the sockets of a broker whose replication uses TLS."""

    def __init__(self, server: ServerTls, client: ssl.SSLContext, *, plain_allowed: bool) -> None:
        super().__init__()
        self._server = server
        on_reload_while_used(server.renew)
        self._client = client
        self._plain_allowed = plain_allowed
        self._plain_next = False
        """Whether the next link of this follower is a plain one, after TLS failed."""

    def accept(self, listener: socket.socket) -> tuple[Any, str] | None:
        """Accept the next connection, as `StreamSockets` does."""
        found = super().accept(listener)
        if found is None:
            return None
        sock, peer = found
        context = self._server.context
        return UndecidedStream(sock, context, plain_allowed=self._plain_allowed), peer

    async def connect(self, host: str, port: int, timeout_ms: int) -> Any:
        """Return a connected socket, after the handshake of TLS.

        Raises `NotReachable` on a refusal, or after `timeout_ms`.
        """
        plain, self._plain_next = self._plain_next, False
        if plain:
            return await super().connect(host, port, timeout_ms)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        sock: socket.socket = await super().connect(host, port, timeout_ms)
        try:
            async with asyncio.timeout_at(deadline):
                return TlsStream(await self._negotiate(sock, host))
        except BaseException as error:
            sock.close()
            if not isinstance(error, (OSError, ValueError, TimeoutError)):
                raise
            self._plain_next = self._plain_allowed
            reason = str(error) or f"no answer within {timeout_ms} ms"
            raise NotReachable(
                f"cannot connect to {host}:{port} with TLS (haTlsMode): {reason}"
            ) from None

    async def _negotiate(self, sock: socket.socket, host: str) -> ssl.SSLSocket:
        wrapped = self._client.wrap_socket(
            sock, do_handshake_on_connect=False, server_hostname=host
        )
        try:
            while True:
                try:
                    wrapped.do_handshake()
                    return wrapped
                except ssl.SSLWantReadError:
                    await self.when_ready(wrapped, writable=False)
                except ssl.SSLWantWriteError:
                    await self.when_ready(wrapped, writable=True)
        except BaseException:
            wrapped.close()
            raise
