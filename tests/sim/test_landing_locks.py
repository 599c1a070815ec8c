"""Histories of strict locks while masters, stand-ins and name servers come and go."""

from collections import Counter

import pytest
from sim.locks_world import KINDS
from tests.sim.landing import name, parts, play_all

COUNT = 250
SEEN: Counter[str] = Counter()


@pytest.mark.parametrize("seeds", parts("locks", COUNT), ids=name)
def test_histories(seeds: list[int]) -> None:
    SEEN.update(play_all("locks", seeds))


def test_slaves_stood_in_and_locks_changed_hands() -> None:
    """INV-91; says nothing where only some of the histories were played."""
    if SEEN["histories"] >= COUNT:
        assert SEEN["covered.locked"] > 10 * COUNT
        for kind in ("unlocked", "committed", "undone"):
            assert SEEN[f"covered.{kind}"] > COUNT, kind
        for kind in ("acting_master", "second_try", "commit_refused", "notice"):
            assert SEEN[f"covered.{kind}"] > COUNT // 10, kind
        assert {f"fault.{kind}" for kind in KINDS} <= set(SEEN)
