"""Measures the turns of an event loop, and reports those that hold everybody up.

A timer of the loop notes how late it is called, which is how long the turn before it took. The time
in which the thread waited for a processor is subtracted where the system tells it, so that a busy
machine does not count as a slow request. A thread notes which function a long turn is in.
"""

import asyncio
import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from weakref import WeakKeyDictionary

log = logging.getLogger(__name__)

SLOW_TURN_MS = 50
BEAT_MS = 20
"""How often the loop is looked at: a turn is measured to be up to this much shorter than it is."""
LOOK_MS = 100
"""How often the thread looks what a slow turn is in: each look takes the loop a moment."""
REPORT_MS = 10_000
"""One line in this time at most; it counts the slow turns that had none."""
STUCK_MS = 5_000
"""A turn that is not over after this long is reported while it lasts."""
BOUNDS_MS = (50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
"""Slow turns are counted by how many of these they exceed."""
FRAMES_SHOWN = 4

_NS = 1_000_000


class Watchdog:
    """Watches the running loop from `start` to `stop`; figures are of that time."""

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock_ns = clock_ns
        self._loop: asyncio.AbstractEventLoop
        self._timer: asyncio.TimerHandle | None = None
        self._schedstat = _Schedstat()
        self._thread_id = 0
        self._due_ns = 0
        self._cpu_ns = 0
        self._starved_ns = 0
        self._reported_ns: int | None = None
        self._unreported = 0
        self._stuck_reported_ns = 0
        self._seen_in = ""
        self._ended = threading.Event()
        self.counts = dict.fromkeys(BOUNDS_MS, 0)
        """Turns longer than each bound, in ms."""
        self.longest_ms = 0

    def start(self) -> None:
        """Watch the running loop, whose thread this is."""
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._schedstat.open()
        self._plan()
        threading.Thread(target=self._look, name="epochmq-watchdog", daemon=True).start()

    def stop(self) -> None:
        """End the timer and the thread; the figures stay."""
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()
        self._schedstat.close()

    def figures(self) -> dict[str, str]:
        """For the runtime information of a server."""
        return {
            "epochmqLoopTurnMaxMs": str(self.longest_ms),
            "epochmqLoopTurnsOverMs": ",".join(f"{ms}:{n}" for ms, n in self.counts.items()),
        }

    # In the loop's thread ----------------------------------------------------------------------

    def _plan(self) -> None:
        self._cpu_ns = time.thread_time_ns()
        self._starved_ns = self._schedstat.starved_ns()
        self._due_ns = self._clock_ns() + BEAT_MS * _NS
        self._timer = self._loop.call_later(BEAT_MS / 1000, self._beat)

    def _beat(self) -> None:
        late_ns = self._clock_ns() - self._due_ns
        if late_ns > SLOW_TURN_MS * _NS:
            starved_ns = self._schedstat.starved_ns() - self._starved_ns
            turn_ms = (late_ns - max(0, starved_ns)) // _NS
            if turn_ms > SLOW_TURN_MS:
                self.note(turn_ms, (time.thread_time_ns() - self._cpu_ns) // _NS, self._seen_in)
        self._seen_in = ""
        self._plan()

    def note(self, turn_ms: int, cpu_ms: int, seen_in: str) -> None:
        """Count a turn of `turn_ms`, and report it unless a report was made a moment ago."""
        self.longest_ms = max(self.longest_ms, turn_ms)
        for bound in BOUNDS_MS:
            if turn_ms > bound:
                self.counts[bound] += 1
        now_ns = self._clock_ns()
        if self._reported_ns is not None and now_ns - self._reported_ns < REPORT_MS * _NS:
            self._unreported += 1
            return
        self._reported_ns = now_ns
        others, self._unreported = self._unreported, 0
        log.warning(
            "a turn of the event loop took %d ms (%d ms of it computing)%s%s",
            turn_ms,
            cpu_ms,
            f", in {seen_in}" if seen_in else "",
            f"; {others} more slow turns since the last report" if others else "",
        )

    # In a thread of its own --------------------------------------------------------------------

    def _look(self) -> None:
        """Note what the loop is at while a turn is slow."""
        while not self._ended.wait(LOOK_MS / 1000):
            late_ms = (self._clock_ns() - self._due_ns) // _NS
            if late_ms < SLOW_TURN_MS:
                continue
            frame = sys._current_frames().get(self._thread_id)
            if frame is not None:
                self._seen_in = describe_frame(frame)
            if late_ms >= STUCK_MS and self._stuck_reported_ns != self._due_ns:
                self._stuck_reported_ns = self._due_ns
                log.warning("the event loop is held for %d ms, in %s", late_ms, self._seen_in)


class _Schedstat:
    """How long this thread was ready to run and had no processor, as Linux counts it."""

    def __init__(self) -> None:
        self._fd = -1

    def open(self) -> None:
        with contextlib.suppress(OSError):
            self._fd = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def starved_ns(self) -> int:
        """0 where the system does not tell."""
        if self._fd < 0:
            return 0
        try:
            return int(os.pread(self._fd, 64, 0).split()[1])
        except (OSError, ValueError, IndexError):
            return 0

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def describe_frame(frame: FrameType) -> str:
    """The innermost functions of a stack, the inner one first."""
    shown: list[str] = []
    at: FrameType | None = frame
    while at is not None and len(shown) < FRAMES_SHOWN:
        code = at.f_code
        place = "/".join(code.co_filename.split("/")[-2:])
        shown.append(f"{code.co_name} ({place}:{at.f_lineno})")
        at = at.f_back
    return " < ".join(shown)


_watchdogs: WeakKeyDictionary[asyncio.AbstractEventLoop, Watchdog] = WeakKeyDictionary()


@contextlib.contextmanager
def watch_loop() -> Iterator[Watchdog]:
    """Watch the running loop while the block runs."""
    watchdog = Watchdog()
    watchdog.start()
    _watchdogs[asyncio.get_running_loop()] = watchdog
    try:
        yield watchdog
    finally:
        watchdog.stop()


def loop_figures() -> dict[str, str]:
    """Figures of the running loop; none where nobody watches it."""
    watchdog = _watchdogs.get(asyncio.get_running_loop())
    return {} if watchdog is None else watchdog.figures()
