"""Random histories of groups without controllers whose machines, disks and clocks fail."""

from collections import Counter

import pytest
from sim.hard.hard_world import WIPES
from tests.sim.histories import name, play_all, seed_chunks
from tests.tiers import choose

SEEN: Counter[str] = Counter()
WHOLE = choose(sample=5, soak=1000)


@pytest.mark.parametrize("seeds", seed_chunks("hard", sample=5, soak=1000), ids=name)
def test_histories(seeds: list[int]) -> None:
    SEEN.update(play_all("hard", seeds))


def test_power_failed_disks_were_lost_and_clocks_were_set() -> None:
    """INV-91; asserts nothing where only some of the histories were played."""
    if (count := SEEN["histories"]) < WHOLE:
        return
    for kind in ("stood_in", "handed_over", "online"):
        assert SEEN[f"covered.{kind}"] >= count // 4, kind
    if count >= 100:
        for kind in ("power", "power_master", "power_at_write", "clock_step", *WIPES):
            assert SEEN[f"fault.{kind}"] >= count // 25, kind
        for kind in ("exchanged", "wiped", "escaped_near"):
            assert SEEN[f"covered.{kind}"] >= 1, kind
