"""The follower's socket: connects to the master, receives log, and sends acknowledgements.

Small frames are read together. The body of a large frame is received directly into the store. An
acknowledgement is sent in the turn in which its bytes arrived.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from epochmq.base.errors import EnvironmentFault, NotReachable
from epochmq.base.ports import Clock
from epochmq.replication.link_authentication import (
    ANSWER_BYTES,
    FollowerHandshake,
    LinkKeys,
    NotAuthenticated,
)
from epochmq.replication.replication_ports import Socket, Sockets

_log = logging.getLogger(__name__)

READ_BYTES = 128 * 1024
DIRECT_BYTES_MIN = 32 * 1024
"""Bodies with less than this missing are read together with the following frames."""
TURN_BYTES_MAX = 4 * 1024 * 1024
RETRY_MS_MAX = 5000
STABLE_MS = 5000
"""After a connection of this length, the next one is tried without a longer wait."""


class FollowerSide(Protocol):
    """The core, as its socket uses it; see `LinkedNode`."""

    def dialled(self, now: int) -> None: ...

    def received(self, data: memoryview, now: int, wall: int) -> None: ...

    def direct_space(self, least: int) -> memoryview | None: ...

    def direct_received(self, count: int, now: int, wall: int) -> None: ...

    def hung_up(self, now: int) -> None: ...

    @property
    def reading(self) -> bool:
        """Whether bytes may be given now."""
        ...

    @property
    def whole_end(self) -> int:
        """The offset up to which the log has complete, checked records."""
        ...

    @property
    def suspended(self) -> bool:
        """Whether an operator must help first, so that reconnecting can wait."""
        ...


class MasterPeer:
    """Keeps one connection to one master until `run` is cancelled."""

    def __init__(
        self,
        side: FollowerSide,
        sockets: Sockets,
        clock: Clock,
        after: Callable[[], None],
        retry_ms: int,
        connect_timeout_ms: int,
        keys: LinkKeys | None = None,
    ) -> None:
        self._side = side
        self._sockets = sockets
        self._clock = clock
        self._after = after
        self._retry_ms = retry_ms
        self._connect_timeout_ms = connect_timeout_ms
        self._keys = keys
        self._authenticates = keys is not None
        """Whether the next connection is authenticated. Without `required` a master of an older
        version, or without credentials, is accepted as well."""
        self._loop = asyncio.get_running_loop()
        self._staging = memoryview(bytearray(READ_BYTES))
        self._sock: Socket | None = None
        self._ended = asyncio.Event()
        self._unsent = bytearray()
        self._paused = False
        self._failure: Exception | None = None

    @property
    def connected(self) -> bool:
        """Whether there is a connection to the master."""
        return self._sock is not None

    async def run(self, host: str, port: int) -> None:
        """Connect, receive, and connect again; wait longer after attempts without progress.

        A successful handshake is not progress: with a damaged record at the master, each handshake
        succeeds and each connection ends at that record.
        """
        wait_ms, said, whole_end = self._retry_ms, "", self._side.whole_end
        while True:
            try:
                sock = await self._connect(host, port)
            except NotReachable as error:
                if str(error) != said:
                    said = str(error)
                    _log.warning("%s; trying again", said)
            else:
                said = ""
                begun_at_ms = self._clock.now_ms()
                await self._pump(sock)
                stable = self._clock.now_ms() - begun_at_ms >= STABLE_MS
                if stable or self._side.whole_end > whole_end:
                    wait_ms = self._retry_ms
                whole_end = self._side.whole_end
            if self._side.suspended:
                wait_ms = RETRY_MS_MAX
            await asyncio.sleep(wait_ms / 1000)
            wait_ms = min(2 * wait_ms, RETRY_MS_MAX)

    async def _connect(self, host: str, port: int) -> Socket:
        """Connect and authenticate both ends; raises `NotReachable`."""
        sock: Socket = await self._sockets.connect(host, port, self._connect_timeout_ms)
        keys = self._keys
        if keys is None or not self._authenticates:
            self._authenticates = keys is not None
            return sock
        try:
            async with asyncio.timeout(self._connect_timeout_ms / 1000):
                await self._prove(sock, keys)
        except BaseException as error:
            sock.close()
            if not isinstance(error, (OSError, EOFError, NotAuthenticated)):
                raise
            self._authenticates = keys.required
            reason = str(error) or "no answer in time"
            hint = "are the credentials of the brokers the same on both?"
            raise NotReachable(
                f"the link to the master at {host}:{port} is not authenticated: {reason}; {hint}"
            ) from None
        return sock

    async def _prove(self, sock: Socket, keys: LinkKeys) -> None:
        handshake = FollowerHandshake(keys)
        await self._send_all(sock, handshake.call)
        answer = await self._receive(sock, ANSWER_BYTES)
        await self._send_all(sock, handshake.proof(answer))

    async def _send_all(self, sock: Socket, data: bytes) -> None:
        while data:
            try:
                data = data[sock.send(data) :]
            except (BlockingIOError, InterruptedError):
                await self._sockets.when_ready(sock, writable=True)

    async def _receive(self, sock: Socket, size: int) -> bytes:
        """Return exactly `size` bytes; raises `EOFError`."""
        buffer = memoryview(bytearray(size))
        done = 0
        while done < size:
            try:
                count = sock.recv_into(buffer[done:])
            except (BlockingIOError, InterruptedError):
                await self._sockets.when_ready(sock, writable=False)
                continue
            if not count:
                raise EOFError("closed by the master")
            done += count
        return bytes(buffer)

    async def _pump(self, sock: Socket) -> None:
        self._sock = sock
        self._ended.clear()
        self._paused = False
        self._unsent.clear()
        try:
            self._side.dialled(self._clock.now_ms())
            self._after()
            if self._sock is not None:
                self._loop.add_reader(sock.fileno(), self._readable)
                await self._ended.wait()
                if self._failure is not None:
                    raise self._failure
        finally:
            self.close("the follower stops")

    def _readable(self) -> None:
        try:
            self._read()
        except Exception as error:  # our bug: `run` raises it
            self._failure = error
            self.close(f"{type(error).__name__}: {error}")

    def _read(self) -> None:
        taken = 0
        while (sock := self._sock) is not None and taken < TURN_BYTES_MAX:
            if not self._side.reading:
                self._pause()
                return
            try:
                space = self._side.direct_space(DIRECT_BYTES_MIN)
                buffer = self._staging if space is None else space
                count = sock.recv_into(buffer)
            except (BlockingIOError, InterruptedError):
                return
            except (OSError, EnvironmentFault) as error:
                self.close(str(error))
                return
            if count == 0:
                self.close("closed by the master")
                return
            now, wall = self._clock.now_ms(), self._clock.wall_ms()
            if space is None:
                self._side.received(buffer[:count], now, wall)
            else:
                self._side.direct_received(count, now, wall)
            self._after()
            taken += count
            if count < len(buffer):
                return

    def _pause(self) -> None:
        if self._sock is not None and not self._paused:
            self._paused = True
            self._loop.remove_reader(self._sock.fileno())

    def resume(self) -> None:
        """Continue to read, after the core takes bytes again."""
        if self._paused and self._sock is not None and self._side.reading:
            self._paused = False
            self._loop.add_reader(self._sock.fileno(), self._readable)

    def send(self, data: bytes) -> None:
        """Send acknowledgements and handshakes; they are small and nearly always fit the socket."""
        sock = self._sock
        if sock is None:
            return
        if self._unsent:
            self._unsent += data
            return
        try:
            done = sock.send(data)
        except (BlockingIOError, InterruptedError):
            done = 0
        except OSError as error:
            self.close(str(error))
            return
        if done < len(data):
            self._unsent += data[done:]
            self._loop.add_writer(sock.fileno(), self._writable)

    def _writable(self) -> None:
        sock = self._sock
        if sock is None:
            return
        with suppress(BlockingIOError, InterruptedError):
            try:
                del self._unsent[: sock.send(self._unsent)]
            except OSError as error:
                self.close(str(error))
                return
        if not self._unsent:
            self._loop.remove_writer(sock.fileno())

    def close(self, reason: str) -> None:
        """Close this connection; `run` makes the next one."""
        sock, self._sock = self._sock, None
        if sock is None:
            return
        _log.info("link to the master closed: %s", reason)
        self._loop.remove_reader(sock.fileno())
        self._loop.remove_writer(sock.fileno())
        sock.close()
        self._side.hung_up(self._clock.now_ms())
        self._ended.set()
