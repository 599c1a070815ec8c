import asyncio
import logging
import selectors
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

import pytest
import uvloop

from epochmq.runtime import watchdog
from epochmq.runtime.watchdog import (
    BEAT_MS,
    Watchdog,
    describe_frame,
    in_callback,
    loop_figures,
    watch_loop,
)


class Looks:
    """The looks of a watchdog's thread: each tells the waiting loop that it began."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = 0
        monkeypatch.setattr(watchdog, "in_callback", self._in_callback)
        monkeypatch.setattr(watchdog, "LOOK_MS", 10)

    def _in_callback(self, frame: FrameType) -> bool:
        self.begun += 1
        return in_callback(frame)

    def hold_the_loop(self, seconds: float) -> None:
        """Compute for `seconds`, and until the thread has noted this function."""
        noted = self.begun + 2  # the second look begins when the first is noted
        end = time.thread_time() + seconds
        while time.thread_time() < end or self.begun < noted:
            pass


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


async def test_a_slow_turn_is_counted_and_reported_with_what_ran(
    caplog: pytest.LogCaptureFixture, looks: Looks
) -> None:
    with caplog.at_level(logging.WARNING), watch_loop() as watched:
        await asyncio.sleep(2 * BEAT_MS / 1000)
        looks.hold_the_loop(0.3)
        await asyncio.sleep(2 * BEAT_MS / 1000)
        assert watched.longest_ms > 200
        assert watched.counts[200] >= 1
        assert loop_figures()["epochmqLoopTurnMaxMs"] == str(watched.longest_ms)
    assert "hold_the_loop" in caplog.text


async def test_the_own_timer_is_not_what_ran(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs next after a slow callback, while the thread still looks."""
    read = watchdog._Schedstat.starved_ns
    slow = False
    seen: list[str] = []

    def note(_watchdog: Watchdog, turn_ms: int, cpu_ms: int, seen_in: str) -> None:
        seen.append(seen_in)

    def starved_ns(schedstat: watchdog._Schedstat) -> int:
        nonlocal slow
        if slow:
            slow = False
            noted = looks.begun + 2
            while looks.begun < noted:
                pass
        return read(schedstat)

    monkeypatch.setattr(watchdog._Schedstat, "starved_ns", starved_ns)
    monkeypatch.setattr(Watchdog, "note", note)
    with watch_loop():
        await asyncio.sleep(2 * BEAT_MS / 1000)
        slow = True
        looks.hold_the_loop(0.1)
        await asyncio.sleep(2 * BEAT_MS / 1000)
    assert [each for each in seen if each.startswith("hold_the_loop")], seen


class SlowSelector(selectors.SelectSelector):
    """Returns late after a callback that asked for it, when the thread has looked at it."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: Looks | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        looks, self.looks = self.looks, None
        if looks is not None:
            looks.hold_the_loop(0)
        return super().select(timeout)


def test_the_loop_itself_is_not_reported_for_the_callback_before_it(
    caplog: pytest.LogCaptureFixture, looks: Looks
) -> None:
    selector = SlowSelector()

    async def run() -> None:
        with watch_loop():
            await asyncio.sleep(2 * BEAT_MS / 1000)
            looks.hold_the_loop(0.3)
            selector.looks = looks
            await asyncio.sleep(2 * BEAT_MS / 1000)

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(run())
    assert "in hold_the_loop" in caplog.text
    assert "select" not in caplog.text


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_callbacks_are_told_from_the_loop(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    def wait_idle(thread_id: int) -> bool:
        end = time.monotonic() + 30
        while in_callback(sys._current_frames()[thread_id]) and time.monotonic() < end:
            time.sleep(0.001)
        return time.monotonic() < end

    async def run() -> None:
        assert in_callback(sys._getframe())
        assert await asyncio.to_thread(wait_idle, threading.get_ident())

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(run())


async def test_waiting_is_no_slow_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    # What the machine does meanwhile must not decide: the clock that is looked at stands still.
    stands = time.monotonic_ns()
    watched = Watchdog(lambda: stands)
    watched.start()
    await asyncio.sleep(4 * BEAT_MS / 1000)
    watched.stop()
    assert watched.longest_ms == 0


def test_one_line_in_a_while_that_counts_the_others(caplog: pytest.LogCaptureFixture) -> None:
    now = [0]
    watched = Watchdog(lambda: now[0])
    for _ in range(5):
        watched.note(120, 100, "")
    now[0] += watchdog.REPORT_MS * 1_000_000
    watched.note(60, 50, "read (store/read.py:7)")
    assert len(caplog.records) == 2
    assert "took 120 ms (100 ms of it computing)" in caplog.messages[0]
    assert "in read (store/read.py:7); 4 more slow turns" in caplog.messages[1]
    assert watched.counts == {**dict.fromkeys(watchdog.BOUNDS_MS, 0), 50: 6, 100: 5}


def test_a_turn_that_does_not_end_is_reported_while_it_lasts(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hold() -> None:
        with watch_loop():
            await asyncio.sleep(2 * BEAT_MS / 1000)
            hold_until("the event loop is held", caplog)

    monkeypatch.setattr(watchdog, "STUCK_MS", 100)
    asyncio.run(hold())
    assert "hold_until" in caplog.text


def hold_until(text: str, caplog: pytest.LogCaptureFixture) -> None:
    end = time.monotonic() + 30
    while text not in caplog.text and time.monotonic() < end:
        time.sleep(0.01)


async def test_nobody_watches() -> None:
    assert loop_figures() == {}


def test_a_stack_is_shown_from_its_inner_end() -> None:
    def inner() -> str:
        return describe_frame(sys._getframe())

    shown = inner()
    assert shown.startswith("inner (runtime/test_watchdog.py:")
    assert "< test_a_stack_is_shown_from_its_inner_end (" in shown
