"""500 histories of one store under crashes, and every crash point of 200 short scripts."""

import pytest
from sim.store_sweep import sweep
from tests.sim.landing import name, parts, play_all

SWEPT: list[int] = []


@pytest.mark.parametrize("seeds", parts("store", 500), ids=name)
def test_histories(seeds: list[int]) -> None:
    marks = play_all("store", seeds)
    assert marks["fault.power_at_write"] > 10


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_every_crash_point(first: int) -> None:
    operations = [sweep(seed) for seed in range(first, first + 25)]
    assert min(operations) > 10
