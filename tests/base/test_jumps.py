"""Both clocks compared."""

import pytest

from epochmq.base.jumps import JUMP_MS, Jumps


@pytest.mark.parametrize(
    ("wall", "jumped"), [(0, False), (JUMP_MS, False), (JUMP_MS + 1, True), (-9_000, False)]
)
def test_only_a_wall_clock_that_ran_ahead_counts(wall: int, jumped: bool) -> None:
    jumps = Jumps()
    assert not jumps.look(500, 1_700_000_000_000)
    assert not jumps.look(600, 1_700_000_000_100)
    assert jumps.look(700, 1_700_000_000_200 + wall) is jumped
    assert not jumps.look(800, 1_700_000_000_300 + wall)
    assert jumps.count == int(jumped)


def test_clocks_that_run_apart_slowly_do_no_harm() -> None:
    jumps = Jumps()
    assert not any(jumps.look(now, now + now // 20) for now in range(0, 100_000, 100))
