"""Watchdog of an event loop: measures its turns, and reports slow turns that delay all others.

A timer of the loop measures how late it is called; this is the duration of the turn before it. The
time in which the thread waited for a processor is subtracted where the system reports it, so that a
busy machine does not look like a slow request. A second thread notes which function a slow turn is
in.
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
"""Timer interval: the measured duration of a turn is too short by up to this time."""
LOOK_MS = 100
"""Interval at which the thread looks at the running function; each look costs a little time."""
REPORT_MS = 10_000
"""At most one report in this time; the next report counts the slow turns without one."""
STUCK_MS = 5_000
"""A turn that lasts this long is reported before it ends."""
BOUNDS_MS = (50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
"""Slow turns are counted by how many of these limits they exceed."""
FRAMES_SHOWN = 4

_NS = 1_000_000


class Watchdog:
    """Watches the running loop from `start` to `stop`; the figures are of that time."""

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
        self.counts: dict[int, int] = dict.fromkeys(BOUNDS_MS, 0)
        """Number of turns longer than each limit in ms."""
        self.longest_ms: int = 0

    def start(self) -> None:
        """Watch the running loop; call it in the thread of that loop."""
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._schedstat.open()
        self._plan()
        threading.Thread(target=self._look, name="epochmq-watchdog", daemon=True).start()

    def stop(self) -> None:
        """Stop the timer and the thread; the figures stay."""
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()
        self._schedstat.close()

    def figures(self) -> dict[str, str]:
        """Return the figures for a server's runtime information."""
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
        """Count a turn of `turn_ms`, and log it unless another was logged in `REPORT_MS`.

        `cpu_ms` is its processor time, `seen_in` the functions that the second thread saw.
        """
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
            "a turn of the event loop took %(turn_ms)d ms (%(cpu_ms)d ms of it"
            " computing)%(seen_in)s%(others)s",
            {
                "turn_ms": turn_ms,
                "cpu_ms": cpu_ms,
                "seen_in": f", in {seen_in}" if seen_in else "",
                "others": f"; {others} more slow turns since the last report" if others else "",
            },
        )

    # In a thread of its own --------------------------------------------------------------------

    def _look(self) -> None:
        """Note which function the loop runs while a turn is slow.

        The loop's own code after a slow callback does not replace the callback, nor does the
        timer of this watchdog, which is the next to run.
        """
        while not self._ended.wait(LOOK_MS / 1000):
            late_ms = (self._clock_ns() - self._due_ns) // _NS
            if late_ms < SLOW_TURN_MS:
                continue
            frame = sys._current_frames().get(self._thread_id)
            if frame is not None and (in_callback(frame) or not self._seen_in):
                self._seen_in = describe_frame(frame)
            if late_ms >= STUCK_MS and self._stuck_reported_ns != self._due_ns:
                self._stuck_reported_ns = self._due_ns
                log.warning(
                    "the event loop is held for %(late_ms)d ms, in %(seen_in)s",
                    {"late_ms": late_ms, "seen_in": self._seen_in},
                )


class _Schedstat:
    """Reads how long this thread was ready to run without a processor (Linux schedstat)."""

    def __init__(self) -> None:
        self._fd = -1

    def open(self) -> None:
        with contextlib.suppress(OSError):
            self._fd = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def starved_ns(self) -> int:
        """Return that time in ns; 0 when the system does not report it."""
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


def in_callback(frame: FrameType) -> bool:
    """Return whether this stack of an event loop's thread runs a callback of the loop.

    The stack of a loop in C, such as uvloop's, has no frame of the loop: between callbacks it ends
    where `asyncio.Runner` has called the loop.
    """
    if frame.f_code.co_filename == asyncio.runners.__file__:
        return False
    at: FrameType | None = frame
    while at is not None:
        if at.f_code in _NO_CALLBACK:
            return False
        if at.f_code is asyncio.Handle._run.__code__:
            return True
        at = at.f_back
    return True


_NO_CALLBACK = (
    asyncio.BaseEventLoop._run_once.__code__,  # type: ignore[attr-defined]
    Watchdog._beat.__code__,
)
"""Code that runs in the loop's thread and is never what a slow turn is about."""


def describe_frame(frame: FrameType) -> str:
    """Return the innermost functions of a stack as text, the innermost first."""
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
    """Return the figures of the running loop; empty when it is not watched."""
    watchdog = _watchdogs.get(asyncio.get_running_loop())
    return {} if watchdog is None else watchdog.figures()
