"""Histories of groups whose consumers also pop in order, and acknowledge many messages at once."""

from collections import Counter

import pytest
from tests.sim.landing import name, parts, play_all

COUNT = 24
SEEN: Counter[str] = Counter()


@pytest.mark.parametrize("seeds", parts("popping", COUNT), ids=name)
def test_histories(seeds: list[int]) -> None:
    SEEN.update(play_all("popping", seeds))


def test_batches_were_out_known_and_acknowledged() -> None:
    """INV-91; says nothing where only some of the histories were played."""
    if SEEN["histories"] >= COUNT:
        for kind in ("ordered", "ordered_acked", "ordered_known", "bundle_0"):
            assert SEEN[f"covered.{kind}"] > 10 * COUNT, kind
