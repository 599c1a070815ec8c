"""Random histories of Raft groups."""

from collections import Counter

import pytest
from tests.sim.histories import name, play_all, seed_chunks
from tests.tiers import choose

SEEN: Counter[str] = Counter()
WHOLE = choose(sample=50, soak=10_000)


@pytest.mark.parametrize("seeds", seed_chunks("raft", sample=50, soak=10_000), ids=name)
def test_histories(seeds: list[int]) -> None:
    SEEN.update(play_all("raft", seeds))


def test_leaders_were_elected_and_snapshots_restored() -> None:
    """INV-91; asserts nothing where only some of the histories were played."""
    if (count := SEEN["histories"]) >= WHOLE:
        assert SEEN["covered.elected"] > count
        assert SEEN["covered.restored"] > count // 10
        assert SEEN["covered.read"] > 10 * count
