"""A simulated asyncio event loop: turns, timers and bytes are events of the world.

The product's services run on it unchanged; each process has one loop. Callbacks that become ready
in one event run in the next, in order; timers and bytes are separate events. A callback that
raises, or a failed task whose error nobody reads, ends the history. Host names are looked up by
address. There are no threads, no file descriptors, and no clock other than the host's.
"""

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from math import ceil
from typing import Any

from sim.kernel.disk import PowerCut
from sim.kernel.host import Host
from sim.kernel.net import Ends, Net, Stream
from sim.kernel.violation import Violation
from sim.kernel.world import SECOND, World

Factory = Callable[[], Any]
PRUNE = 256
"""Finished tasks are checked each time so many tasks were started."""


class Handle:
    """A call that can be cancelled, as returned by `call_soon` and `call_at`."""

    __slots__ = ("args", "call", "context", "off", "when_s")

    def __init__(self, call: Callable[..., Any], args: tuple[Any, ...], context: Any) -> None:
        self.call, self.args, self.context = call, args, context
        self.off = False
        self.when_s = 0.0

    def cancel(self) -> None:
        self.off = True

    def cancelled(self) -> bool:
        return self.off

    def when(self) -> float:
        return self.when_s

    def run(self) -> None:
        if self.off:
            return
        if self.context is None:
            self.call(*self.args)
        else:
            self.context.run(self.call, *self.args)


class SimLoop(asyncio.AbstractEventLoop):
    """The event loop of one process on `host`; `places` maps IP addresses to hosts."""

    def __init__(self, net: Net, host: Host, places: dict[str, str]) -> None:
        self.net = net
        self.host = host
        self.world: World = net.world
        self.places = places
        self.listeners: dict[int, Callable[[Stream], None]] = {}
        """By port: the function that accepts a new stream."""
        self.faults: list[str] = []
        """Exceptions that nobody caught."""
        self.violation: Violation | None = None
        """A checker's violation, even if a task caught the exception."""
        self.readable: dict[int, Callable[[], bool]] = {}
        """By socket number: whether there is data to read."""
        self._readers: dict[int, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
        self._poked: set[int] = set()
        self._numbers = 0
        self._ready: deque[Handle] = deque()
        self._planned = False
        self._tasks: list[asyncio.Task[Any]] = []

    # Time and turns -----------------------------------------------------------------------------

    def time(self) -> float:
        return self.host.now / 1000

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:
        handle = Handle(callback, args, context)
        self._ready.append(handle)
        if not self._planned:
            self._planned = True
            self.world.after(1, "turn", self._turn, self.host)
        return handle

    def call_at(
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        handle = Handle(callback, args, context)
        handle.when_s = when
        at_ms = ceil(when * 1000 - 1e-6)
        at_us = max(self.host.clock.true_us_of(at_ms), self.world.time_us + 1)
        self.world.at(at_us, "timer", partial(self._fire, handle), self.host)
        return handle

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def _turn(self) -> None:
        self._planned = False
        ready, self._ready = self._ready, deque()
        self.run(self._run_all, ready)

    def _run_all(self, ready: deque[Handle]) -> None:
        for handle in ready:
            handle.run()

    def _fire(self, handle: Handle) -> None:
        if not handle.off:
            self.run(handle.run)

    def run(self, call: Callable[..., Any], *args: Any) -> None:
        """Run a call with this loop as the running one."""
        events._set_running_loop(self)
        try:
            call(*args)
        finally:
            events._set_running_loop(None)
        if not self.host.disk.is_on:
            raise PowerCut  # a task may have caught it
        if self.violation is not None or self.faults:
            self.complain()

    def complain(self) -> None:
        """Raise the violation or the fault that was recorded, if any."""
        if self.violation is not None:
            raise self.violation
        if self.faults:
            raise Violation("CRASH", self.faults[0], (self.host.name,))

    # Tasks --------------------------------------------------------------------------------------

    def create_future(self) -> Any:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None
    ) -> Any:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name or "task")
        self._tasks.append(task)
        if len(self._tasks) % PRUNE == 0:
            self._forget_ended_tasks()
        return task

    def begin(self, coro: Coroutine[Any, Any, None]) -> None:
        """Start a task that nobody waits for."""
        self.create_task(coro)

    def _forget_ended_tasks(self) -> None:
        """Drop finished tasks, but check them only after their callbacks have run.

        A task that failed in this turn has callbacks that have yet to run and that read its error.
        """
        ended = [task for task in self._tasks if task.done()]
        self._tasks = [task for task in self._tasks if not task.done()]
        if any(map(_is_unheard, ended)):
            self.call_soon(self._judge, ended)

    def look_at_tasks(self) -> None:
        """Drop finished tasks; a failed one whose error nobody read is a fault."""
        self._judge(self._tasks)
        self._tasks = [task for task in self._tasks if not task.done()]

    def _judge(self, tasks: list[asyncio.Task[Any]]) -> None:
        for task in tasks:
            if _is_unheard(task):
                error = task.exception()
                if isinstance(error, PowerCut):
                    continue
                if isinstance(error, Violation):
                    self.violation = self.violation or error
                self.faults.append(f"a task failed: {type(error).__name__}: {error}")

    def bury(self) -> None:
        """Close the unfinished tasks at the end of the history, ignoring their errors."""
        events._set_running_loop(None)
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                coroutine: Coroutine[Any, Any, Any] = task.get_coro()  # type: ignore[assignment]
                try:
                    coroutine.close()
                except (Exception, asyncio.CancelledError):
                    continue
        self._tasks.clear()
        self._ready.clear()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.faults.append(f"{context.get('message')}: {type(error).__name__}: {error}")

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    # Connections --------------------------------------------------------------------------------

    def listen(self, port: int, factory: Callable[[], Any]) -> "SimServer":
        """Accept all connections to a port, until the returned server is closed."""

        def accept(stream: Stream) -> None:
            SimTransport(self, stream, 1, factory())

        self.listeners[port] = accept
        return SimServer(self, port)

    async def create_connection(
        self, factory: Any, host: Any = None, port: Any = None, **_more: Any
    ) -> Any:
        stream = await self.open(str(host), int(port))
        protocol = factory()
        return SimTransport(self, stream, 0, protocol), protocol

    async def open(self, address: str, port: int) -> Stream:
        """Open a stream to a port; raises `ConnectionRefusedError` when no process listens.

        A cut gives no answer. As with TCP, the connection is retried as long as the caller waits.
        """
        made: asyncio.Future[Stream] = self.create_future()

        def opened(stream: Stream) -> None:
            if made.done():
                stream.close(0)
            else:
                made.set_result(stream)

        def refused() -> None:
            if not made.done():
                made.set_exception(ConnectionRefusedError("connection refused"))

        def knock() -> None:
            if not made.done():
                self.net.connect(self.host, target, partial(_accept, port), Ends(opened, refused))
                self.call_later(self.net.weather.resend_us / SECOND, knock)

        target = self.world.hosts[self.places[address]]
        knock()
        return await made

    # Plain sockets ------------------------------------------------------------------------------

    def new_number(self, readable: Callable[[], bool]) -> int:
        """Return a number for a socket, in place of its file descriptor."""
        self._numbers += 1
        self.readable[self._numbers] = readable
        return self._numbers

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:
        self._readers[fd] = (callback, args)
        self.poke(fd)

    def remove_reader(self, fd: Any) -> bool:
        return self._readers.pop(fd, None) is not None

    def add_writer(self, fd: Any, callback: Any, *args: Any) -> None:
        """Call the writer in the next turn: every socket is always writable."""
        self.call_soon(callback, *args)

    def remove_writer(self, fd: Any) -> bool:
        return True

    def poke(self, fd: int) -> None:
        """Data arrived: call the reader in the next turn."""
        if fd in self._readers and fd not in self._poked and self.readable[fd]():
            self._poked.add(fd)
            self.call_soon(self._read, fd)

    def _read(self, fd: int) -> None:
        self._poked.discard(fd)
        found = self._readers.get(fd)
        if found is not None and self.readable[fd]():
            found[0](*found[1])
            self.poke(fd)


def _accept(port: int, stream: Stream) -> None:
    """Run at the target: pass the stream to the listener of the port."""
    loop: SimLoop | None = getattr(stream.hosts[1].process, "loop", None)
    take = None if loop is None else loop.listeners.get(port)
    if loop is None or take is None:
        stream.close(1)
    else:
        loop.run(take, stream)


class SimServer:
    """A port that accepts connections."""

    def __init__(self, loop: SimLoop, port: int) -> None:
        self._loop, self._port = loop, port

    def close(self) -> None:
        self._loop.listeners.pop(self._port, None)


class SimTransport(asyncio.Transport):
    """One end of a stream as a transport for a `BufferedProtocol`."""

    def __init__(self, loop: SimLoop, stream: Stream, end: int, protocol: Any) -> None:
        super().__init__()
        self._loop, self._stream, self._end = loop, stream, end
        self._protocol = protocol
        self._closing = self._stopped = False
        self._inbox = bytearray()
        other = stream.hosts[1 - end]
        other.connections += 1
        addresses = {name: ip for ip, name in loop.places.items()}
        self._names = {
            "peername": (addresses[other.name], 30_000 + other.connections % 30_000),
            "sockname": (addresses[loop.host.name], 10_911),
        }
        stream.on_bytes[end] = lambda data: loop.run(self._came, data)
        stream.on_closed[end] = lambda: loop.run(self._lost)
        protocol.connection_made(self)

    def _came(self, data: bytes) -> None:
        if self._closing:
            return
        self._inbox += data
        self._feed()

    def _feed(self) -> None:
        while self._inbox and not (self._stopped or self._closing):
            buffer = self._protocol.get_buffer(-1)
            count = min(len(buffer), len(self._inbox))
            buffer[:count] = self._inbox[:count]
            del self._inbox[:count]
            self._protocol.buffer_updated(count)

    def _lost(self) -> None:
        if not self._closing:
            self._closing = True
            self._stream.close(self._end)
            self._protocol.connection_lost(None)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._names.get(name, default)

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: Any) -> None:
        if not self._closing:
            self._stream.send(self._end, bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: a write never blocks."""

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self._stopped = True

    def resume_reading(self) -> None:
        self._stopped = False
        self._loop.call_soon(self._feed)

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._stream.close(self._end)
            self._loop.call_soon(self._protocol.connection_lost, None)

    abort = close


def _is_unheard(task: asyncio.Task[Any]) -> bool:
    """Return whether the task failed and its error was not read."""
    return task.done() and not task.cancelled() and getattr(task, "_log_traceback", False)
