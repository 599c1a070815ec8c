"""Random histories of whole groups: controllers, stores, replication, producers and readers."""

from collections import Counter

import pytest
from sim.group.group_world import KINDS
from tests.sim.histories import name, play_all, seed_chunks
from tests.tiers import choose

SEEN: Counter[str] = Counter()
WHOLE = choose(sample=75, soak=5000)


@pytest.mark.parametrize("seeds", seed_chunks("group", sample=75, soak=5000), ids=name)
def test_histories(seeds: list[int]) -> None:
    SEEN.update(play_all("group", seeds))


def test_masters_changed_under_every_kind_of_fault() -> None:
    """INV-91; asserts nothing where only some of the histories were played."""
    if SEEN["histories"] >= WHOLE:
        assert SEEN["covered.became_master"] > SEEN["histories"]
        assert {f"fault.{kind}" for kind in KINDS} <= set(SEEN)
