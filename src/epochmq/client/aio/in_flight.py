"""Limits of sends that wait for an answer, and deadlines that ignore a blocked event loop.

If too many requests were sent at once, more than process, network and broker handle in time, they
would end in timeouts, and repeating them would make it worse. So the limit begins at `FIRST`, and
rises or falls by how fast sends finish. Callers that find no free place wait in order.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from epochmq.base.errors import UsageError

FIRST = 1_000
"""The limit at the start, unless fewer are allowed."""
PROMPT = 4
"""A send that took at most 1/`PROMPT` of its timeout raises the limit by one."""
LATE = 2
"""A send that took more than 1/`LATE` of its timeout lowers the limit by one."""


class InFlight:
    """Limits sends in flight to `count_max` sends and `bytes_max` bytes.

    A send larger than `bytes_max` may go when no other send is in flight.
    """

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._count_max = count_max
        self._open = min(count_max, FIRST)
        """The present limit of sends."""
        self._bytes_max = bytes_max
        self._count = 0
        self._bytes = 0
        self._waiting: OrderedDict[asyncio.Future[None], int] = OrderedDict()
        self._closed = False

    def enter_at_once(self, size: int) -> bool:
        """Take a place if one is free. If it returns True, the caller must call `leave` or `done`.

        Raises:
            UsageError: the client is closed.
        """
        if self._closed:
            raise closed_before()
        if self._waiting or not self._has_room(size):
            return False
        self._reserve(size)
        return True

    async def enter(self, size: int) -> None:
        """Wait for a place for `size` bytes; after it returns, the caller must call `leave` or
        `done`.

        Raises:
            UsageError: the client was closed before there was a place.
        """
        if self.enter_at_once(size):
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = size
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._waiting.pop(waiter, None)
                self._admit()  # a large send may have blocked smaller ones behind it
            elif waiter.exception() is None:
                self.leave(size)
            raise

    def done(self, size: int, took_ms: int, timeout_ms: int) -> None:
        """Give the place back, and adapt the limit to how long the send took (milliseconds)."""
        if took_ms * PROMPT <= timeout_ms:
            self._open = min(self._open + 1, self._count_max)
        elif took_ms * LATE > timeout_ms:
            self._open = max(self._open - 1, min(self._count_max, FIRST))
        self.leave(size)

    def leave(self, size: int) -> None:
        """Give the place back."""
        self._count -= 1
        self._bytes -= size
        self._admit()

    @property
    def count(self) -> int:
        """How many sends are in flight."""
        return self._count

    @property
    def is_single(self) -> bool:
        """Whether one send is in flight and no caller waits."""
        return self._count == 1 and not self._waiting

    def close(self) -> None:
        """Refuse further sends: all callers that wait get a `UsageError`."""
        self._closed = True
        waiting, self._waiting = self._waiting, OrderedDict()
        for waiter in waiting:
            if not waiter.done():
                waiter.set_exception(closed_before())

    def statistics(self) -> dict[str, int]:
        """Return the number of sends in flight, their bytes, and the number of callers
        that wait.
        """
        return {"inFlight": self._count, "bytes": self._bytes, "waiting": len(self._waiting)}

    def _has_room(self, size: int) -> bool:
        if self._count >= self._open:
            return False
        return self._bytes + size <= self._bytes_max or not self._count

    def _reserve(self, size: int) -> None:
        self._count += 1
        self._bytes += size

    def _admit(self) -> None:
        while self._waiting:
            waiter, size = next(iter(self._waiting.items()))
            if not waiter.done():
                if not self._has_room(size):
                    return
                self._reserve(size)
                waiter.set_result(None)
            del self._waiting[waiter]


def closed_before() -> UsageError:
    """Return the error of a message that was not sent because the client was closed."""
    return UsageError("this client was closed before the message was sent; create a new one")


# Loop time -----------------------------------------------------------------------------------
# Deadlines that do not count the time in which other code of this process blocked its event loop.
#
# Answers that arrive during such a stall are read only after it, so a timeout would be wrong. While
# a deadline runs, a timer measures how late the event loop calls it.


TICK_MS = 50
STALL_MS = 100
"""A delay up to this is ordinary load and is not counted as a stall."""
STRETCH_MAX = 3
"""A deadline is extended by at most this many times its length."""


class LoopTime:
    """Measures how long the event loop was blocked while deadlines were running."""

    __slots__ = ("_expected_ms", "_running", "_stalled_ms", "_timer", "now")

    def __init__(self, now: Callable[[], int]) -> None:
        self.now: Callable[[], int] = now
        self._stalled_ms = 0
        self._expected_ms = 0
        self._running = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, timeout_ms: int) -> "Deadline":
        """Start a deadline of `timeout_ms`; every `begin` must be followed by `end`."""
        now = self.now()
        self._running += 1
        if self._running == 1:
            self._expected_ms = now + TICK_MS
            self._set_timer()
        return Deadline(self, now, timeout_ms, self.stalled_ms(now))

    def end(self) -> None:
        """End a deadline; the timer stops with the last one."""
        self._running -= 1
        if not self._running and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def stalled_ms(self, now: int) -> int:
        """Return the milliseconds of all stalls so far, including one that has not ended."""
        late_ms = now - self._expected_ms
        if late_ms >= 0:
            self._stalled_ms += late_ms if late_ms > STALL_MS else 0
            self._expected_ms = now + TICK_MS
        return self._stalled_ms

    def _tick(self) -> None:
        self.stalled_ms(self.now())
        self._set_timer()

    def _set_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(TICK_MS / 1_000, self._tick)


class Deadline:
    """A deadline that is extended by the stalls of the own event loop."""

    __slots__ = ("_began_ms", "_stalled_before_ms", "_time", "timeout_ms")

    def __init__(self, time: LoopTime, now: int, timeout_ms: int, stalled_before_ms: int) -> None:
        self._time = time
        self._began_ms = now
        self._stalled_before_ms = stalled_before_ms
        self.timeout_ms: int = timeout_ms

    def left_ms(self) -> int:
        """Return the milliseconds that are left; 0 or less when the deadline is over."""
        now = self._time.now()
        stalled_ms = self._time.stalled_ms(now) - self._stalled_before_ms
        put_off_ms = min(stalled_ms, STRETCH_MAX * self.timeout_ms)
        return self._began_ms + self.timeout_ms + put_off_ms - now

    def took_ms(self) -> int:
        """Return the milliseconds since the deadline began."""
        return self._time.now() - self._began_ms

    def stalled_ms(self) -> int:
        """Return the milliseconds for which the event loop was blocked since the deadline began."""
        return self._time.stalled_ms(self._time.now()) - self._stalled_before_ms
