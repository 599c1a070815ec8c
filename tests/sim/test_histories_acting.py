"""Random histories of groups without controllers, whose slaves act as masters (RIP-32)."""

from collections import Counter

import pytest
from tests.sim.histories import name, play_all, seed_chunks
from tests.tiers import choose

SEEN: Counter[str] = Counter()
WHOLE = choose(sample=6, soak=1000)


@pytest.mark.parametrize("seeds", seed_chunks("acting", sample=6, soak=1000), ids=name)
def test_histories(seeds: list[int]) -> None:
    SEEN.update(play_all("acting", seeds))


def test_slaves_acted_as_masters_and_handed_their_messages_over() -> None:
    """INV-91; asserts nothing where only some of the histories were played."""
    if (count := SEEN["histories"]) < WHOLE:
        return
    for kind in ("stood_in", "handed_over", "online"):
        assert SEEN[f"covered.{kind}"] >= count // 4, kind
    for kind in ("delayed", "timer", "transaction", "pop"):
        assert SEEN[f"covered.escaped.{kind}"] >= count // 50, kind
    if count >= 150:
        assert SEEN["covered.died_handing_over"] >= 1
