"""Bounds what is sent and not answered yet; who finds it full waits, first come first served.

Of very many places not all are given at once: more than this process, the network and the broker
get through in time would end in time-outs, and trying all of them again makes it worse. So the
number begins at `FIRST`, and grows and shrinks by how soon sends are done.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from epochmq.base.errors import UsageError

FIRST = 1_000
"""So many places are there from the start; fewer only when fewer are wanted."""
PROMPT = 4
"""A send that took no more than this part of its time makes room for one more."""
LATE = 2
"""One that took more than this part of it takes one place away."""


class InFlight:
    """Places for sends: as many as `count_max`, and as many bytes as `bytes_max`.

    A send larger than `bytes_max` gets a place when it is alone.
    """

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._count_max = count_max
        self._open = min(count_max, FIRST)
        """How many places there are now."""
        self._bytes_max = bytes_max
        self._count = 0
        self._bytes = 0
        self._waiting: OrderedDict[asyncio.Future[None], int] = OrderedDict()
        self._closed = False

    def enter_at_once(self, size: int) -> bool:
        """Whether there was a place; if so it must be given back by `leave`."""
        if self._closed:
            raise _closed()
        if self._waiting or not self._has_room(size):
            return False
        self._reserve(size)
        return True

    async def enter(self, size: int) -> None:
        """Wait for a place; every `enter` that returned must be followed by `leave`."""
        if self.enter_at_once(size):
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = size
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._waiting.pop(waiter, None)
                self._admit()  # it may have been a large one that held smaller ones up
            elif waiter.exception() is None:
                self.leave(size)
            raise

    def done(self, size: int, took_ms: int, timeout_ms: int) -> None:
        """Give the place back after a send that took so much of its time."""
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

    def close(self) -> None:
        """Give no more places to those who wait: they get a `UsageError`."""
        self._closed = True
        waiting, self._waiting = self._waiting, OrderedDict()
        for waiter in waiting:
            if not waiter.done():
                waiter.set_exception(_closed())

    def statistics(self) -> dict[str, int]:
        """What has a place now, and what waits for one."""
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


def _closed() -> UsageError:
    return UsageError("this client was closed before the message was sent; create a new one")


# Loop time -----------------------------------------------------------------------------------
# Deadlines that do not count the time in which this process kept its event loop from running.
#
# Answers that wait in the socket meanwhile are read only afterwards: to call their server
# unreachable would be wrong. While a deadline runs, a timer looks how late the loop calls it.


TICK_MS = 50
STALL_MS = 100
"""What is late by less counts as ordinary load."""
STRETCH_MAX = 3
"""A deadline is put off by so many times its length at most."""


class LoopTime:
    """How long the loop was kept from running, as far as deadlines ran meanwhile."""

    __slots__ = ("_expected_ms", "_running", "_stalled_ms", "_timer", "now")

    def __init__(self, now: Callable[[], int]) -> None:
        self.now = now
        self._stalled_ms = 0
        self._expected_ms = 0
        self._running = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, timeout_ms: int) -> "Deadline":
        """A deadline from now on; every `begin` must be followed by `end`."""
        now = self.now()
        self._running += 1
        if self._running == 1:
            self._expected_ms = now + TICK_MS
            self._set_timer()
        return Deadline(self, now, timeout_ms, self.stalled_ms(now))

    def end(self) -> None:
        """A deadline is not needed any more."""
        self._running -= 1
        if not self._running and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def stalled_ms(self, now: int) -> int:
        """All stalls so far, a present one too."""
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
    """`left_ms` of `timeout_ms`, stalls of the own loop taken off."""

    __slots__ = ("_began_ms", "_stalled_before_ms", "_time", "timeout_ms")

    def __init__(self, time: LoopTime, now: int, timeout_ms: int, stalled_before_ms: int) -> None:
        self._time = time
        self._began_ms = now
        self._stalled_before_ms = stalled_before_ms
        self.timeout_ms = timeout_ms

    def left_ms(self) -> int:
        """Milliseconds until it is over; 0 or less when it is."""
        now = self._time.now()
        stalled_ms = self._time.stalled_ms(now) - self._stalled_before_ms
        put_off_ms = min(stalled_ms, STRETCH_MAX * self.timeout_ms)
        return self._began_ms + self.timeout_ms + put_off_ms - now

    def took_ms(self) -> int:
        """How long ago this began."""
        return self._time.now() - self._began_ms

    def stalled_ms(self) -> int:
        """How long the loop was kept from running since this began."""
        return self._time.stalled_ms(self._time.now()) - self._stalled_before_ms
