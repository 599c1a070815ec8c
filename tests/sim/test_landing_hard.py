"""Histories of groups without controllers whose machines, disks and clocks fail."""

from collections import Counter

import pytest
from sim.hard_world import WIPES
from tests.sim.landing import name, parts, play_all

COUNT = 100
SEEN: Counter[str] = Counter()


@pytest.mark.parametrize("seeds", parts("hard", COUNT), ids=name)
def test_histories(seeds: list[int]) -> None:
    SEEN.update(play_all("hard", seeds))


def test_power_went_disks_were_lost_and_clocks_were_set() -> None:
    """INV-91; says nothing where only some of the histories were played."""
    if SEEN["histories"] >= COUNT:
        for kind in ("stood_in", "handed_over", "online"):
            assert SEEN[f"covered.{kind}"] >= COUNT // 4, kind
        for kind in ("power", "power_master", "power_at_write", "clock_step", *WIPES):
            assert SEEN[f"fault.{kind}"] >= COUNT // 25, kind
        for kind in ("exchanged", "wiped", "escaped_near"):
            assert SEEN[f"covered.{kind}"] >= 1, kind
