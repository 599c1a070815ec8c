"""`top` on a broker without controllers, and without a name server."""

import json

from tests.admin.world import World


def test_a_broker_alone(world: World) -> None:
    ran = world.run("top", "--once", "-o", "json")
    assert ran.code == 0, ran.err
    (row,) = map(json.loads, ran.lines)
    assert (row["group"], row["role"], row["address"]) == ("broker-a", "master", world.broker)
    assert "ADDRESS" in world.run("top", "--once").out


def test_no_name_server(world: World) -> None:
    ran = world.run("top", "--once", "-n", "127.0.0.1:1")
    assert (ran.code, "no name server answers" in ran.err) == (0, True)
