"""The course of the demo on a cluster that is up, with few flights made here."""

from itertools import count
from pathlib import Path

import pytest
from tests.admin.world import World

from epochmq.base.errors import EnvironmentFault
from examples.demo import run as module
from examples.demo.flights import Flight
from examples.demo.run import Demo, Display, Plan


def made(total: int) -> list[Flight]:
    numbers = {carrier: count() for carrier in ("AA", "UA", "DL")}
    return [
        Flight(carrier, next(numbers[carrier]), b'{"n":%d}' % index)
        for index, carrier in zip(range(total), ("AA", "UA", "DL") * total, strict=False)
    ]


async def test_nothing_is_lost_though_one_is_killed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DOWN_S", 0.2)
    plan = Plan(world.cluster.namesrv_addr, tmp_path, made(600), 600, 2_000)
    outcome = await Demo(plan, Display(600, bars=False)).run()
    assert outcome.verdict.problems == []
    assert (outcome.verdict.sent, outcome.verdict.received, outcome.verdict.keys) == (600, 600, 3)
    assert outcome.down_s > 0.2
    assert (outcome.flood_count, outcome.steady_count) == (480, 120)
    assert outcome.steady_end_to_end.percentile(0.5) > 0


async def test_a_member_that_ends_by_itself_is_told(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GROUP", "not a group")
    plan = Plan(world.cluster.namesrv_addr, tmp_path, made(100), 100, 1_000)
    with pytest.raises(EnvironmentFault, match=r"member-\d.1 ended by itself: .*forbidden"):
        await Demo(plan, Display(100, bars=False)).run()
