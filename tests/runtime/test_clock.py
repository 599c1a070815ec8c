import time

import pytest

from epochmq.runtime import clock as clocks
from epochmq.runtime.clock import RealClock, steady_ns
from epochmq.runtime.turn import Turn


def test_both_clocks_are_in_milliseconds() -> None:
    clock = RealClock()
    before, wall_before = clock.now_ms(), clock.wall_ms()
    assert before <= clock.now_ms()
    assert abs(wall_before - time.time() * 1000) < 5_000


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="no such clock on this system")
def test_deadlines_count_the_time_of_suspension() -> None:
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert before <= steady_ns() <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)


async def test_a_turn_and_the_clock_count_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that slept for an hour: both say so."""
    slept = 3_600_000_000_000
    monkeypatch.setattr(clocks, "steady_ns", lambda: steady_ns() + slept)
    monkeypatch.setattr("epochmq.runtime.turn.steady_ns", lambda: steady_ns() + slept)
    turn = Turn()
    turn._schedule()
    assert abs(turn.now - RealClock().now_ms()) < 1_000
    assert turn.now * 1_000_000 > steady_ns() + slept // 2


@pytest.mark.parametrize("fails", [False, True])
def test_without_that_clock_there_is_the_other(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    if fails:
        monkeypatch.setattr(time, "CLOCK_BOOTTIME", 12345, raising=False)
    else:
        monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    assert clocks._counting_suspension() is time.monotonic_ns
