"""Replacements for the sockets, threads and clocks of `runtime` while a history runs.

`runtime` is the only package that uses the machine's sockets, threads and clock. Besides, a few
names that `broker/server/broker_server.py` imports are replaced. The rest of the product runs
unchanged, on `sim.kernel.loop`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any, TypeVar

from epochmq.base.errors import EnvironmentFault, NotReachable
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.delay.timer_service import TimerService
from epochmq.broker.group import member_options
from epochmq.broker.server import broker_server as broker_service
from epochmq.runtime import connection, server, turn
from epochmq.store.timer.wheel import SLOT_BYTES
from sim.kernel.host import Host
from sim.kernel.loop import SimLoop
from sim.kernel.net import Stream
from sim.kernel.replaced import replaced
from sim.kernel.violation import Violation

T = TypeVar("T")
WHEEL_SLOTS = 256


def loop_here() -> SimLoop:
    """Return the loop of the current process."""
    found = asyncio.get_running_loop()
    assert isinstance(found, SimLoop)
    return found


class Listening:
    """A bound socket, with what `SimDoor` uses of it."""

    def __init__(self, port: int) -> None:
        self._port = port

    def getsockname(self) -> tuple[str, int]:
        return "", self._port


class SimDoor:
    """Replaces `AcceptLoop` on a `SimLoop`, without TLS; file descriptors never run out."""

    def __init__(
        self, listener: Listening, factory: Callable[[], Any], *_: object, **_more: object
    ) -> None:
        self._server = loop_here().listen(listener.getsockname()[1], factory)

    def close(self) -> None:
        self._server.close()


class SimThread:
    """Replaces `BlockingThread`: runs calls one after the other, with the latency of the host's
    disk.
    """

    def __init__(self, name: str = "") -> None:
        self._jobs: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._busy = False

    async def run(self, call: Callable[[], T]) -> T:
        loop = loop_here()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.append((call, future))
        self._pump(loop)
        return await future

    def close(self) -> None:
        """Do nothing: the thread ends with its process."""

    def _pump(self, loop: SimLoop) -> None:
        if self._jobs and not self._busy:
            self._busy = True
            loop.world.after(latency(loop.host), "step", partial(self._act, loop), loop.host)

    def _act(self, loop: SimLoop) -> None:
        call, future = self._jobs.popleft()
        result, error = None, None

        def act() -> None:
            nonlocal result, error
            try:
                result = call()
            except Exception as caught:
                error = caught

        loop.run(act)
        done = partial(self._done, loop, future, result, error)
        loop.world.after(latency(loop.host), "step done", done, loop.host)

    def _done(
        self, loop: SimLoop, future: asyncio.Future[Any], result: Any, error: Exception | None
    ) -> None:
        self._busy = False
        if not future.done():
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        self._pump(loop)


def latency(host: Host) -> int:
    """Return half of the latency of one blocking step in µs."""
    chance = host.world.streams[f"sync:{host.name}"]
    return max(1, int(chance.expovariate(2 / 600)) * host.slow)


class SimSockets:
    """Replaces `StreamSockets`, for replication."""

    def listen(self, host: str, port: int) -> tuple["SimListener", int]:
        return SimListener(loop_here(), port), port

    def accept(self, listener: "SimListener") -> "tuple[SimSocket, str] | None":
        if not listener.waiting:
            return None
        stream = listener.waiting.popleft()
        return SimSocket(loop_here(), stream, 1), f"{stream.hosts[0].name}:1"

    async def connect(self, host: str, port: int, timeout_ms: int) -> "SimSocket":
        loop = loop_here()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return SimSocket(loop, await loop.open(host, port), 0)
        except (OSError, TimeoutError) as error:
            raise NotReachable(f"cannot connect to {host}:{port}: {error}") from None


class SimListener:
    """A listening port for replication."""

    def __init__(self, loop: SimLoop, port: int) -> None:
        self.waiting: deque[Stream] = deque()
        self._loop, self._port = loop, port
        self._number = loop.new_number(lambda: bool(self.waiting))
        loop.listeners[port] = self._came

    def _came(self, stream: Stream) -> None:
        self.waiting.append(stream)
        self._loop.poke(self._number)

    def fileno(self) -> int:
        return self._number

    def close(self) -> None:
        self._loop.listeners.pop(self._port, None)


class SimSocket:
    """A connected socket whose writes never block; it reads like Python's sockets."""

    def __init__(self, loop: SimLoop, stream: Stream, end: int) -> None:
        self._loop, self._stream, self._end = loop, stream, end
        self._inbox = bytearray()
        self._eof = self._closed = False
        self._number = loop.new_number(lambda: bool(self._inbox) or self._eof)
        stream.on_bytes[end] = self._came
        stream.on_closed[end] = self._lost

    def _came(self, data: bytes) -> None:
        if not self._closed:
            self._inbox += data
            self._loop.poke(self._number)

    def _lost(self) -> None:
        self._eof = True
        if not self._closed:
            self._loop.poke(self._number)

    def fileno(self) -> int:
        return self._number

    def recv_into(self, buffer: Any) -> int:
        if not self._inbox:
            if self._eof:
                return 0
            raise BlockingIOError
        size = min(len(buffer), len(self._inbox))
        buffer[:size] = self._inbox[:size]
        del self._inbox[:size]
        return size

    def send(self, data: Any, flags: int = 0) -> int:
        if self._eof:
            raise ConnectionResetError("the other end is gone")
        self._stream.send(self._end, bytes(data))
        return len(data)

    def sendmsg(self, buffers: Any) -> int:
        return self.send(b"".join(map(bytes, buffers)))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._stream.close(self._end)


def _steady_ns() -> int:
    """Return the host's monotonic time in ns, in place of the machine's."""
    return loop_here().host.now * 1_000_000


def _boot_id() -> str:
    """Return an id that changes with each power cut, since a store trusts its log's end within a
    boot.
    """
    host = loop_here().host
    return f"{host.name} {host.power_cuts}"


class _Machine:
    """Replaces `os` in `broker/server/broker_server.py`."""

    @staticmethod
    def getpid() -> int:
        return 1


def _listen(host: str, port: int, backlog: int = 0, *, origin: str = "") -> Listening:
    return Listening(port)


def _failed(_turn: object, error: Exception, what: str) -> None:
    loop_here().faults.append(f"{what}: {type(error).__name__}: {error}")


def _exception(_log: logging.Logger, text: object, *args: object, **_more: object) -> None:
    """Record an unexpected exception that a service logs as a fault."""
    import sys

    error = sys.exc_info()[1]
    loop_here().faults.append(f"{str(text) % args}: {type(error).__name__}: {error}")


def _small_wheel(node: BrokerContext) -> None:
    pointers = node.store.pointers
    node.timer = TimerService(
        node.disk,
        node.store,
        node.internal_writer,
        lambda: node.options,
        lambda: (pointers.start, pointers.appended),
        cold_reads=node.cold_reads,
        wheel_bytes=WHEEL_SLOTS * SLOT_BYTES,
    )
    node.timer.open()


@contextmanager
def led_here() -> Iterator[None]:
    """Inside the `with` block, run the product's services on `SimLoop`s only."""
    values: tuple[tuple[Any, str, Any], ...] = (
        (broker_service, "BlockingThread", SimThread),
        (broker_service, "os", _Machine),
        (broker_service, "boot_id", _boot_id),
        (member_options, "StreamSockets", SimSockets),
        (server, "listen", _listen),
        (server, "AcceptLoop", SimDoor),
        (turn, "steady_ns", _steady_ns),
        (server, "steady_ns", _steady_ns),
        (connection, "steady_ns", _steady_ns),
        (turn.Turn, "failed", _failed),
        (connection, "_ids", count(1)),
        (logging.Logger, "exception", _exception),
        (BrokerContext, "open_timer", _small_wheel),
    )
    with replaced(values):
        yield


class Served:
    """A process whose services run on a loop; `main` starts them."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        loop.run(lambda: loop.create_task(self._begin()))

    async def main(self) -> None:
        """Start the services; an `EnvironmentFault` ends the process."""
        raise NotImplementedError

    async def _begin(self) -> None:
        try:
            await self.main()
        except EnvironmentFault as error:
            world, host = self.loop.world, self.loop.host
            world.mark(f"start.{type(error).__name__}")
            world.after(0, f"exit {host.name}", lambda: world.exit(host), host)

    def tell(self, fact: str, *values: object) -> None:
        """Report a fact to checkers; a violation ends the history even if a service catches it."""
        try:
            self.loop.world.tell(fact, *values)
        except Violation as found:
            self.loop.violation = found
            raise

    def wake(self, now: int) -> int | None:
        return None

    def state_line(self) -> str:
        return type(self).__name__
