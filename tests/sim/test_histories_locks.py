"""Random histories of strict locks while masters, acting masters and name servers fail."""

from collections import Counter

import pytest
from sim.locks.locks_world import KINDS
from tests.sim.histories import name, play_all, seed_chunks
from tests.tiers import choose

SEEN: Counter[str] = Counter()
WHOLE = choose(sample=30, soak=5000)


@pytest.mark.parametrize("seeds", seed_chunks("locks", sample=30, soak=5000), ids=name)
def test_histories(seeds: list[int]) -> None:
    SEEN.update(play_all("locks", seeds))


def test_slaves_acted_as_masters_and_locks_changed_hands() -> None:
    """INV-91; asserts nothing where only some of the histories were played."""
    if (count := SEEN["histories"]) < WHOLE:
        return
    assert SEEN["covered.locked"] > 10 * count
    for kind in ("unlocked", "committed", "undone"):
        assert SEEN[f"covered.{kind}"] > count, kind
    for kind in ("acting_master", "second_try", "commit_refused", "notice"):
        assert SEEN[f"covered.{kind}"] > count // 10, kind
    assert {f"fault.{kind}" for kind in KINDS} <= set(SEEN)
