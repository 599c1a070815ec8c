"""Random histories of one store under crashes, and every crash point of short scripts."""

import pytest
from sim.store.store_sweep import sweep
from tests.sim.histories import name, play_all, seed_chunks
from tests.tiers import FIRST_SEED, choose

SCRIPTS = range(FIRST_SEED, FIRST_SEED + choose(sample=20, soak=1000))


@pytest.mark.parametrize("seeds", seed_chunks("store", sample=40, soak=5000), ids=name)
def test_histories(seeds: list[int]) -> None:
    marks = play_all("store", seeds)
    assert len(seeds) < 20 or marks["fault.power_at_write"] > 4


@pytest.mark.parametrize("first", SCRIPTS[::20])
def test_every_crash_point(first: int) -> None:
    operations = [sweep(seed) for seed in range(first, first + 20)]
    assert min(operations) > 10
