"""Histories of groups without controllers, whose slaves stand in for their masters."""

from collections import Counter

import pytest
from tests.sim.landing import name, parts, play_all

COUNT = 150
SEEN: Counter[str] = Counter()


@pytest.mark.parametrize("seeds", parts("acting", COUNT), ids=name)
def test_histories(seeds: list[int]) -> None:
    SEEN.update(play_all("acting", seeds))


def test_slaves_stood_in_handed_over_and_died_doing_it() -> None:
    """INV-91; says nothing where only some of the histories were played."""
    if SEEN["histories"] >= COUNT:
        for kind in ("stood_in", "handed_over", "online"):
            assert SEEN[f"covered.{kind}"] >= COUNT // 4, kind
        for kind in ("delayed", "timer", "transaction", "pop"):
            assert SEEN[f"covered.escaped.{kind}"] >= COUNT // 50, kind
        assert SEEN["covered.died_handing_over"] >= 1
