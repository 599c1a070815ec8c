"""Random histories of groups with delayed, timed and transactional messages, and POP."""

from collections import Counter

import pytest
from tests.sim.histories import name, play_all, seed_chunks
from tests.tiers import choose

SEEN: Counter[str] = Counter()
WHOLE = choose(sample=4, soak=500)


@pytest.mark.parametrize("seeds", seed_chunks("secondary", sample=4, soak=500), ids=name)
def test_histories(seeds: list[int]) -> None:
    SEEN.update(play_all("secondary", seeds))


def test_messages_were_delayed_and_masters_changed() -> None:
    """INV-91; asserts nothing where only some of the histories were played."""
    if (count := SEEN["histories"]) < WHOLE:
        return
    for kind in ("delayed", "half", "popped"):
        assert SEEN[f"covered.{kind}"] > 10 * count, kind
    assert SEEN["covered.checked"] > count
    assert SEEN["covered.became_master"] > count
