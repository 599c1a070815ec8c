"""`epochmq cluster`."""

import pytest
from tests.admin.world import World

from epochmq.base.errors import NotReachable
from epochmq.client.aio import Admin


def test_all_well(world: World) -> None:
    ran = world.run("cluster", "show", "-o", "json")
    assert ran.code == 0
    assert [(row["kind"], row["address"], row["well"]) for row in ran.rows] == [
        ("name server", world.cluster.namesrv_addr, True),
        ("broker", world.broker, True),
    ]
    assert world.run("cluster", "show").lines[0].split() == [
        "KIND",
        "NAME",
        "ADDRESS",
        "WELL",
        "PROBLEM",
    ]


def test_a_name_server_is_away(world: World) -> None:
    ran = world.run("cluster", "show", "-n", f"{world.cluster.namesrv_addr};127.0.0.1:1")
    assert (ran.code, "1 of 3 not well: name server 127.0.0.1:1" in ran.err) == (4, True)


def test_a_broker_is_not_well(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(self: Admin, address: str) -> dict[str, str]:
        raise NotReachable(f"{address} is away")

    async def inactive(self: Admin, address: str) -> dict[str, str]:
        return {"brokerActive": "false"}

    async def fenced(self: Admin, address: str) -> dict[str, str]:
        return {"epochmqProblem": "the store is fenced: fsync failed: EIO"}

    answers = ((away, "is away"), (inactive, "it is not active"), (fenced, "is fenced"))
    for answer, problem in answers:
        monkeypatch.setattr(Admin, "runtime_info", answer)
        ran = world.run("cluster", "show")
        assert (ran.code, problem in ran.err) == (4, True)


def test_brokers(world: World) -> None:
    (row,) = world.run("cluster", "brokers", "-o", "json").rows
    assert (row["cluster"], row["broker"], row["id"]) == ("DefaultCluster", "broker-a", 0)
    assert row["in_today"] + row["in_yesterday"] >= 6  # midnight (UTC) may have passed
    assert world.run("cluster", "brokers", "-c", "Nope").code == 5
