"""Random histories of groups whose consumers pop in order and acknowledge many at once."""

from collections import Counter

import pytest
from tests.sim.histories import name, play_all, seed_chunks
from tests.tiers import choose

SEEN: Counter[str] = Counter()
WHOLE = choose(sample=4, soak=500)


@pytest.mark.parametrize("seeds", seed_chunks("popping", sample=4, soak=500), ids=name)
def test_histories(seeds: list[int]) -> None:
    SEEN.update(play_all("popping", seeds))


def test_ordered_batches_were_popped_and_acknowledged() -> None:
    """INV-91; asserts nothing where only some of the histories were played."""
    if (count := SEEN["histories"]) >= WHOLE:
        for kind in ("ordered", "ordered_acked", "ordered_known", "bundle_0"):
            assert SEEN[f"covered.{kind}"] > 10 * count, kind
