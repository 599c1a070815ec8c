"""One turn of the event loop: the shared receive buffer, and the work at the end of the turn.

However many sockets are readable in a turn, each sink gets one `end_of_turn`, and each session with
queued bytes gets one write. This makes group append, group commit and joined answers possible.
"""

import asyncio
import logging
from typing import Protocol
from weakref import WeakKeyDictionary

from epochmq.base.errors import OurBug
from epochmq.runtime.clock import steady_ns
from epochmq.wire.session import FrameSink

log = logging.getLogger(__name__)

RECEIVE_BYTES = 256 * 1024
"""Size of the one buffer of a loop; 10,000 connections with a buffer each would need 2.5 GB."""


class Flushable(Protocol):
    """A connection with bytes to write."""

    def flush(self) -> None: ...


class Turn:
    """State of the running turn of one loop; `now` is monotonic ms, read once a turn."""

    __slots__ = ("_dirty", "_scheduled", "_sinks", "buffer", "now")

    def __init__(self) -> None:
        # No reference to the loop, so that a finished loop and its buffer can be freed.
        self._scheduled = False
        self._sinks: list[FrameSink] = []
        self._dirty: list[Flushable] = []
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
        self.now = steady_ns() // 1_000_000
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


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turn] = WeakKeyDictionary()


def turn_of(loop: asyncio.AbstractEventLoop) -> Turn:
    """Return the `Turn` of `loop`, shared by all its servers and outgoing connections."""
    turn = _turns.get(loop)
    if turn is None:
        turn = _turns[loop] = Turn()
    return turn
