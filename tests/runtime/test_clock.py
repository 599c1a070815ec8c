import time

from epochmq.runtime.clock import RealClock


def test_both_clocks_are_in_milliseconds() -> None:
    clock = RealClock()
    before, wall_before = clock.now_ms(), clock.wall_ms()
    assert before <= clock.now_ms()
    assert abs(wall_before - time.time() * 1000) < 5_000
