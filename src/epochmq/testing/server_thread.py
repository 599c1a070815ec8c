"""One server of a test, on an event loop in a thread of its own, with faults on demand.

The thread stands for the process of the server: a paused server stands still as after SIGSTOP, and
its clients still connect to its backlog; a killed server is gone as after SIGKILL, without a
farewell to anybody and without a last write to its disk.
"""

import asyncio
import logging
import selectors
import socket
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from epochmq.base.errors import EpochError, UsageError
from epochmq.runtime.logging_setup import spoken_of

T = TypeVar("T")

_LAST_TURNS = 3
"""Turns of the loop in which transports notice that their connections have ended."""
CALL_S = 30.0
"""How long a call into the thread of a server may take."""

log = logging.getLogger(__name__)


class Served(Protocol):
    """A server that runs on an event loop: a name server, a controller or a broker."""

    async def start(self) -> None:
        """Make it serve."""
        ...

    async def stop(self) -> None:
        """Stop it cleanly; repeated calls do nothing."""
        ...


class _ServerLoop(asyncio.SelectorEventLoop):
    """An event loop whose connections can be cut off, all at once."""

    def __init__(self) -> None:
        self._sockets = selectors.DefaultSelector()
        super().__init__(self._sockets)
        self.is_cut = False

    def shut_all(self) -> None:
        """End all connections now; neither side can send or receive any more."""
        for key in list(self._sockets.get_map().values()):
            number = key.fileobj if isinstance(key.fileobj, int) else key.fileobj.fileno()
            with suppress(OSError), socket.socket(fileno=_duplicate(number)) as sock:
                if not _is_listening(sock) and sock.family != socket.AF_UNIX:
                    sock.shutdown(socket.SHUT_RDWR)

    async def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        """Connect to another server, unless the network is cut."""
        if self.is_cut:
            raise ConnectionRefusedError("the test cut this server off")
        return await super().create_connection(*args, **kwargs)

    async def connect_accepted_socket(
        self, protocol_factory: Callable[[], Any], sock: socket.socket, **kwargs: Any
    ) -> Any:
        """Serve a connection, unless the network is cut."""
        if self.is_cut:
            raise ConnectionAbortedError("the test cut this server off")
        return await super().connect_accepted_socket(protocol_factory, sock, **kwargs)


def _duplicate(number: int) -> int:
    return socket.dup(number)


def _is_listening(sock: socket.socket) -> bool:
    return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


class ServerThread:
    """Runs one server.

    Args:
        name: what log lines and errors call the server.
        make: creates the server; called in its thread.
        on_kill: called in its thread at the moment of a kill, to freeze its files.
    """

    def __init__(
        self, name: str, make: Callable[[], Served], on_kill: Callable[[], None] = lambda: None
    ) -> None:
        self.name = name
        self._make = make
        self._on_kill = on_kill
        self._loop = _ServerLoop()
        self._thread = threading.Thread(target=self._work, name=f"epochmq-{name}", daemon=True)
        self._server: Served | None = None
        self._paused: threading.Event | None = None
        self.is_running: bool = False

    def start(self) -> None:
        """Start the thread and the server in it, and wait until it serves.

        Raises:
            EnvironmentFault: the server does not start, for example because a port is taken.
        """
        self._thread.start()
        try:
            self.run(self._start())
        except BaseException:
            self._end()
            raise
        self.is_running = True

    async def _start(self) -> None:
        self._server = self._make()
        await self._server.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop of the server; return its result or raise its error."""
        if self._paused is not None:
            work.close()
            raise UsageError(f"{self.name} is paused; resume it first")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_S)

    def call(self, function: Callable[[], T]) -> T:
        """Call `function` on the loop of the server; return its result or raise its error."""

        async def work() -> T:
            return function()

        return self.run(work())

    def pause(self) -> None:
        """Let the server stand still until `resume`, as after SIGSTOP."""
        if self._paused is None:
            paused, stands = threading.Event(), threading.Event()

            def stand() -> None:
                stands.set()
                paused.wait()

            self._loop.call_soon_threadsafe(stand)
            stands.wait(CALL_S)
            self._paused = paused

    def resume(self) -> None:
        """Let a paused server go on; otherwise do nothing."""
        if self._paused is not None:
            paused, self._paused = self._paused, None
            paused.set()

    def cut(self) -> None:
        """End all connections of the server, and refuse new ones in both directions."""
        self.call(self._cut)

    def _cut(self) -> None:
        self._loop.is_cut = True
        self._loop.shut_all()

    def mend(self) -> None:
        """Allow connections again."""

        def mended() -> None:
            self._loop.is_cut = False

        self.call(mended)

    def kill(self) -> None:
        """End the server as SIGKILL would; its files stay as they are."""
        if not self.is_running:
            return
        self.is_running = False
        self.resume()
        self.call(self._die)
        self._close(quietly=True)

    def _die(self) -> None:
        self._on_kill()
        self._cut()

    def stop(self) -> None:
        """Stop the server cleanly."""
        if not self.is_running:
            return
        self.is_running = False
        self.resume()
        self._close(quietly=False)

    def _close(self, *, quietly: bool) -> None:
        try:
            assert self._server is not None
            self.run(_stopped(self._server, quietly=quietly))
        finally:
            self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_S)

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        spoken_of.set(self.name)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left, timeout=CALL_S))
            self._loop.shut_all()
            for _ in range(_LAST_TURNS):
                self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()


async def _stopped(server: Served, *, quietly: bool) -> None:
    """Stop `server`; a killed one ends in errors, because it has neither network nor disk."""
    try:
        await server.stop()
    except (EpochError, OSError) as error:
        if not quietly:
            raise
        log.debug("a killed server: %(error)s", {"error": error})
