"""`epochmq group create`, `delete`, `reset-offset`."""

import pytest
from tests.admin.world import TOPIC, World


def test_a_groups_life(world: World) -> None:
    ran = world.run("group", "create", "g1", "--retries", "3", "--ordered", "-o", "json")
    assert ran.rows == [{"group": "g1", "broker": "broker-a"}]
    (row,) = world.run("group", "show", "g1", "-o", "json").rows
    assert (row["retryMaxTimes"], row["consumeMessageOrderly"]) == (3, True)
    assert world.run("group", "create", "g1").code == 2
    rows = world.run("group", "reset-offset", "g1", "-t", TOPIC, "--to", "last", "-o", "json").rows
    assert [(row["queue"], row["offset"]) for row in rows] == [(0, 3), (1, 3)]
    ran = world.run("group", "delete", "g1", answer="n\n")
    assert (ran.code, "what waits for a retry" in ran.err) == (1, True)
    assert world.run("group", "delete", "g1", "--yes").lines[-1].split() == ["g1", "broker-a"]
    assert world.run("group", "show", "g1").code == 5


def test_unknown_names(world: World) -> None:
    assert world.run("group", "delete", "nosuch", "--yes").code == 5
    for names in (("nosuch", "-t", TOPIC), ("billing", "-t", "nosuch")):
        assert world.run("group", "reset-offset", *names, "--to", "first").code == 5


@pytest.mark.parametrize(
    "args",
    [
        ("create", "a b"),
        ("create", "g", "--retries", "x"),
        ("reset-offset", "billing", "-t", TOPIC),
        ("reset-offset", "billing", "-t", TOPIC, "--to", "soon"),
    ],
)
def test_wrong_use(world: World, args: tuple[str, ...]) -> None:
    ran = world.run("group", *args)
    assert ran.code == 2
    assert "--from" not in ran.err
