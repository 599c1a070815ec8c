"""Random histories of controllers and the memberships of brokers."""

from collections import Counter

import pytest
from sim.controller.cluster import CONTROLLER_KINDS as KINDS
from tests.sim.histories import name, play_all, seed_chunks
from tests.tiers import choose

SEEN: Counter[str] = Counter()
WHOLE = choose(sample=50, soak=5000)


@pytest.mark.parametrize("seeds", seed_chunks("controller", sample=50, soak=5000), ids=name)
def test_histories(seeds: list[int]) -> None:
    SEEN.update(play_all("controller", seeds))


def test_masters_were_elected_under_every_kind_of_fault() -> None:
    """INV-91; asserts nothing where only some of the histories were played."""
    if SEEN["histories"] >= WHOLE:
        assert SEEN["covered.elected"] > SEEN["histories"] // 2
        assert {f"fault.{kind}" for kind in KINDS} <= set(SEEN)
