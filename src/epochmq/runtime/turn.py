"""One turn of the event loop: the shared receive buffer, and the work at the end of the turn.

However many sockets are readable in a turn, each sink gets one `end_of_turn`, and each session with
queued bytes gets one write. This makes group append, group commit and joined answers possible.

A turn has limited time for requests, and so has each connection in it: one read may contain
thousands of requests that each take milliseconds. What remains waits for later turns, in which
connections with few requests and those that were not served yet come first (ADR 0107).
"""

import asyncio
import logging
from collections import deque
from enum import IntEnum
from typing import Protocol
from weakref import WeakKeyDictionary

from epochmq.base.errors import OurBug
from epochmq.runtime.clock import steady_ns
from epochmq.wire.session import FrameSink

log = logging.getLogger(__name__)

RECEIVE_BYTES = 256 * 1024
"""Size of the one buffer of a loop; 10,000 connections with a buffer each would need 2.5 GB."""


_NS_PER_MS = 1_000_000
TURN_NS = 20 * _NS_PER_MS
"""Requests begin within this time of a turn; the others wait for a later turn."""
WAITING_NS = 10 * _NS_PER_MS
"""Part of a turn for requests that waited; the rest is for those that arrive in the turn."""
SHARE_NS = 5 * _NS_PER_MS
"""One connection's part of a turn; it can always execute one request."""


class Flushable(Protocol):
    """A connection with bytes to write."""

    def flush(self) -> None: ...


class WaitingConnection(Protocol):
    """A connection with requests that wait for a later turn."""

    def run_waiting(self) -> None:
        """Execute waiting requests for at most the connection's part of a turn."""
        ...


class Rank(IntEnum):
    """The order in which waiting connections are called."""

    SHORT = 0
    """It sent few bytes: the requests of a client that waits for answers."""
    LONG = 1
    """It sent more, and has had no part of a turn yet."""
    SERVED = 2
    """It sent more, and has used up its part of an earlier turn."""


class Turn:
    """State of the running turn of one loop.

    Attributes:
        buffer: the shared receive buffer.
        now: monotonic ms, read once a turn.
        ends_ns: monotonic ns; no request begins after this time of the turn.
    """

    __slots__ = (
        "_dirty",
        "_scheduled",
        "_sinks",
        "_waiting",
        "buffer",
        "ends_ns",
        "now",
    )

    def __init__(self) -> None:
        # No reference to the loop, so that a finished loop and its buffer can be freed.
        self._scheduled = False
        self._sinks: list[FrameSink] = []
        self._dirty: list[Flushable] = []
        self._waiting: tuple[deque[WaitingConnection], ...] = tuple(deque() for _ in Rank)
        """The connections that wait, by rank."""
        self.ends_ns: int = 0
        self.buffer: memoryview[int] = memoryview(bytearray(RECEIVE_BYTES))
        self.now: int = 0

    def begin(self, sink: FrameSink) -> int:
        """Register `sink` as receiving in this turn; return `now`."""
        if not self._scheduled:
            self._schedule()
        if sink not in self._sinks:
            self._sinks.append(sink)
        return self.now

    def dirty(self, connection: Flushable) -> None:
        """Flush `connection` when the turn ends."""
        if not self._scheduled:
            self._schedule()
        self._dirty.append(connection)

    def is_over(self) -> bool:
        """Return whether no more requests may begin in the running turn."""
        return self._scheduled and steady_ns() >= self.ends_ns

    def share_end(self) -> int:
        """Return until when a connection may begin requests: its part of the turn begins now."""
        if not self._scheduled:
            self._schedule()
        return min(steady_ns() + SHARE_NS, self.ends_ns)

    def wait(self, connection: WaitingConnection, rank: Rank) -> None:
        """Call `connection.run_waiting` in a later turn."""
        if not self._scheduled:
            self._schedule()
        self._waiting[rank].append(connection)

    def failed(self, error: Exception, what: str) -> None:
        """Handle a sink's exception: a broken invariant stops the process, others are logged."""
        if isinstance(error, OurBug):
            context = {"message": what, "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
        else:
            log.error(
                "%(what)s: %(kind)s: %(error)s",
                {"what": what, "kind": type(error).__name__, "error": error},
                exc_info=error,
            )

    def _schedule(self) -> None:
        self._scheduled = True
        began_ns = steady_ns()
        self.now = began_ns // _NS_PER_MS
        self.ends_ns = began_ns + TURN_NS
        asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        sinks, self._sinks = self._sinks, []
        for sink in sinks:
            try:
                sink.end_of_turn(self.now)
            except Exception as error:
                self.failed(error, "end of turn failed")
        self._scheduled = False
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            try:
                connection.flush()
            except Exception as error:
                self.failed(error, "writing answers failed")
        if any(self._waiting):
            asyncio.get_running_loop().call_soon(self._begin_with_waiting)

    def _begin_with_waiting(self) -> None:
        """Begin a turn with the requests that wait, for a part of its time.

        One connection of each rank is always called, so that none waits forever. None is called
        twice.
        """
        if not self._scheduled:
            self._schedule()
        until_ns = steady_ns() + WAITING_NS
        counts = [len(waiting) for waiting in self._waiting]
        for waiting, count in zip(self._waiting, counts, strict=True):
            for number in range(count):
                if number and steady_ns() >= until_ns:
                    break
                waiting.popleft().run_waiting()


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turn] = WeakKeyDictionary()


def turn_of(loop: asyncio.AbstractEventLoop) -> Turn:
    """Return the `Turn` of `loop`, shared by all its servers and outgoing connections."""
    turn = _turns.get(loop)
    if turn is None:
        turn = _turns[loop] = Turn()
    return turn
