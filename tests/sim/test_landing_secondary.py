"""Histories of groups with delayed, timed and transactional messages, and POP."""

from collections import Counter

import pytest
from tests.sim.landing import name, parts, play_all

COUNT = 44
SEEN: Counter[str] = Counter()


@pytest.mark.parametrize("seeds", parts("secondary", COUNT), ids=name)
def test_histories(seeds: list[int]) -> None:
    SEEN.update(play_all("secondary", seeds))


def test_messages_were_delayed_and_masters_changed() -> None:
    """INV-91; says nothing where only some of the histories were played."""
    if SEEN["histories"] >= COUNT:
        for kind in ("delayed", "half", "popped"):
            assert SEEN[f"covered.{kind}"] > 10 * COUNT, kind
        assert SEEN["covered.checked"] > COUNT
        assert SEEN["covered.became_master"] > COUNT
