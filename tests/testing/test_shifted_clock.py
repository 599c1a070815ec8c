"""The wall clock of a test's servers."""

from epochmq.runtime.clock import RealClock
from epochmq.testing.shifted_clock import ShiftedClock


def test_only_the_wall_clock_moves() -> None:
    clock, real = ShiftedClock(), RealClock()
    clock.advance(3_600_000)
    clock.advance(-600_000)
    assert 0 <= real.now_ms() - clock.now_ms() <= 1_000
    assert 2_999_000 <= clock.wall_ms() - real.wall_ms() <= 3_001_000
