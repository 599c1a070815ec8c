"""Deadlines that do not count the time in which this process kept its event loop from running.

Answers that wait in the socket meanwhile are read only afterwards: to call their server unreachable
would be wrong. While a deadline runs, a timer looks how late the loop calls it.
"""

import asyncio
from collections.abc import Callable

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
