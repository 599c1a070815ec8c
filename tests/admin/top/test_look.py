"""`top` on a broker without controllers, and without a name server."""

import json
from typing import cast

from tests.admin.world import World

from epochmq.admin.top.look import Looker
from epochmq.admin.top.screen import rows
from epochmq.base.errors import NotReachable
from epochmq.client.aio import Admin
from epochmq.model.topic import BrokerData


def test_a_broker_alone(world: World) -> None:
    ran = world.run("top", "--once", "-o", "json")
    assert ran.code == 0, ran.err
    (row,) = map(json.loads, ran.lines)
    assert (row["group"], row["role"], row["address"]) == ("broker-a", "master", world.broker)
    assert "ADDRESS" in world.run("top", "--once").out


class Pair:
    """As much of `Admin` as a look needs: a pair without controllers whose slave died."""

    async def broker_groups(self) -> dict[str, BrokerData]:
        return {"b": BrokerData("c", "b", {0: "m:1", 1: "s:1"})}

    async def broker_config(self, address: str) -> dict[str, str]:
        return {}

    async def runtime_info(self, address: str) -> dict[str, str]:
        if address == "s:1":
            raise NotReachable("s:1 does not answer")
        return {"epochmqRole": "MASTER", "commitLogMaxOffset": "77"}


async def test_a_broker_that_does_not_answer_is_dead_and_no_set_is_invented() -> None:
    view = await Looker(cast(Admin, Pair())).look()
    first, second = rows(view)
    assert (first["role"], first["end"], first["in_sync"]) == ("master", 77, None)
    assert (second["role"], second["end"], second["in_sync"]) == ("dead", None, None)


def test_no_name_server(world: World) -> None:
    ran = world.run("top", "--once", "-n", "127.0.0.1:1")
    assert (ran.code, "no name server answers" in ran.err) == (0, True)
