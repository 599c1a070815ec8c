"""One half of 1,500 histories of whole groups; two files, as a landing runs files in parallel."""

from collections import Counter

import pytest
from sim.group_world import KINDS
from tests.sim.landing import name, parts, play_all

SEEN: Counter[str] = Counter()


@pytest.mark.parametrize("seeds", parts("group", 1500, 0, 2), ids=name)
def test_histories(seeds: list[int]) -> None:
    marks = play_all("group", seeds)
    assert marks["covered.became_master"] > 50
    SEEN.update(marks)


def test_every_kind_of_fault_fired() -> None:
    """INV-91; says nothing where only some of the histories were played."""
    if SEEN["histories"] >= 700:
        assert {f"fault.{kind}" for kind in KINDS} <= set(SEEN)
