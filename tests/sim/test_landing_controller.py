"""1,000 histories of controllers and the memberships of brokers."""

from collections import Counter

import pytest
from sim.cluster import CONTROLLER_KINDS as KINDS
from tests.sim.landing import name, parts, play_all

SEEN: Counter[str] = Counter()


@pytest.mark.parametrize("seeds", parts("controller", 1000), ids=name)
def test_histories(seeds: list[int]) -> None:
    marks = play_all("controller", seeds)
    assert marks["covered.elected"] > 30
    SEEN.update(marks)


def test_every_kind_of_fault_fired() -> None:
    """INV-91; says nothing where only some of the histories were played."""
    if SEEN["histories"] >= 900:
        assert {f"fault.{kind}" for kind in KINDS} <= set(SEEN)
