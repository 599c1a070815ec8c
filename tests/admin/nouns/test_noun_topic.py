"""`epochmq topic`: reading."""

import pytest
from tests.admin.world import OFFLINE, TOPIC, World

from epochmq.admin.nouns.noun_topic import time_of


def test_list(world: World) -> None:
    ran = world.run("topic", "list")
    assert ran.lines[0].split() == [
        "TOPIC",
        "BROKERS",
        "READ_QUEUES",
        "WRITE_QUEUES",
        "PERM",
        "TYPE",
        "ORDERED",
    ]
    assert f"{TOPIC} broker-a 2 2 RW- - false".split() in [line.split() for line in ran.lines]
    assert not any(line.startswith(("TBW102", "%RETRY%", "broker-a ")) for line in ran.lines)
    rows = world.run("topic", "list", "--all", "-o", "json").rows
    assert {"TBW102", "DefaultCluster", TOPIC} <= {row["topic"] for row in rows}
    assert world.run("topic", "list", "-c", "Nope").code == 5


def test_show(world: World) -> None:
    (row,) = world.run("topic", "show", TOPIC, "-o", "json").rows
    assert (row["broker"], row["address"], row["read_queues"]) == ("broker-a", world.broker, 2)
    assert (row["messages"], row["perm"]) == (6, "RW-")
    assert OFFLINE in row["groups"]
    ran = world.run("topic", "show", TOPIC)
    assert "MESSAGES" in ran.lines[0]
    assert OFFLINE in ran.err


def test_route(world: World) -> None:
    (row,) = world.run("topic", "route", TOPIC, "-o", "json").rows
    assert row["addresses"] == {"0": world.broker}
    assert f"0={world.broker}" in world.run("topic", "route", TOPIC).out


def test_stats(world: World) -> None:
    rows = world.run("topic", "stats", TOPIC, "-o", "json").rows
    assert [(row["queue"], row["min_offset"], row["max_offset"]) for row in rows] == [
        (0, 0, 3),
        (1, 0, 3),
    ]
    assert world.run("topic", "stats", TOPIC).lines[0].split()[-1] == "LAST"
    assert time_of(0) is None


@pytest.mark.parametrize("verb", ["show", "route", "stats"])
def test_a_name_that_is_near(world: World, verb: str) -> None:
    ran = world.run("topic", verb, "ordres")
    assert ran.code == 5
    assert "there is no topic 'ordres' (did you mean 'orders'?)" in ran.err


def test_a_verb_that_is_near(world: World) -> None:
    ran = world.run("topic", "lst")
    assert (ran.code, "did you mean 'list'?" in ran.err) == (2, True)


def test_nobody_there(world: World) -> None:
    ran = world.run("topic", "list", "-n", "127.0.0.1:1")
    assert (ran.code, ran.out) == (3, "")
