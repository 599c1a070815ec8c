"""1006: groups as the tools of both generations read them."""

import msgspec
from tests.controller.world import APPLY_ID, SYNC_STATE, World, brokers, live_on


def test_both_shapes_in_one_answer() -> None:
    world = World()
    found = brokers(world)
    assert found[0].alter([1, 2]).code == 0
    reply = world.ask(SYNC_STATE, None, b'["b","x"]')
    assert reply.code == 0

    def replica(number: int) -> dict[str, object]:
        address = found[number - 1].address
        return {"brokerName": "b", "brokerId": number, "brokerAddress": address, "alive": True}

    assert msgspec.json.decode(bytes(reply.body)) == {  # type: ignore[arg-type]
        "inSyncStateTable": {
            "b": {
                "inSyncMembers": [
                    {"address": found[0].address, "brokerId": 0},
                    {"address": found[1].address, "brokerId": 2},
                ],
                "masterAddress": found[0].address,
                "masterEpoch": 1,
                "syncStateSetEpoch": 3,
            }
        },
        "replicasInfoTable": {
            "b": {
                "masterBrokerId": 1,
                "masterAddress": found[0].address,
                "masterEpoch": 1,
                "syncStateSetEpoch": 3,
                "inSyncReplicas": [replica(1), replica(2)],
                "notInSyncReplicas": [replica(3)],
            }
        },
    }


def test_the_dead_are_shown_as_such() -> None:
    world = World()
    found = brokers(world)
    live_on(world, found[:2], 11_000, every=1_000)
    body = bytes(world.ask(SYNC_STATE, None, b'["b"]').body)  # type: ignore[arg-type]
    assert body.count(b'"alive":false') == 1


def test_without_names_nothing_is_told() -> None:
    world = World()
    assert world.ask(SYNC_STATE).code == 1
    assert world.ask(SYNC_STATE, None, b"[]").code == 1
    assert world.ask(SYNC_STATE, None, b'{"a"').code == 1


def shown_alive(world: World) -> list[int]:
    """The replicas that the leader of the controllers shows as alive."""
    body = world.ask(SYNC_STATE, None, b'["b"]').body
    state = msgspec.json.decode(bytes(body))["replicasInfoTable"]["b"]  # type: ignore[arg-type]
    replicas = state["inSyncReplicas"] + state["notInSyncReplicas"]
    return [replica["brokerId"] for replica in replicas if replica["alive"]]


def deposed(world: World) -> None:
    """The controllers' leader dies, and another one leads."""
    dead = next(name for name, node in world.nodes.items() if node is world.leader)
    world.stop(dead)
    while not any(node.core.context.leads for node in world.nodes.values()):
        world.run(10)


def test_a_new_leader_shows_brokers_with_heartbeats_as_alive() -> None:
    """Broker 3's process is gone, broker 2 fell silent: no change of leaders brings them back."""
    world = World(3)
    found = brokers(world)
    found[2].close(refused=True)
    live_on(world, found[:1], 11_000, every=1_000)
    assert shown_alive(world) == [1]
    deposed(world)
    assert shown_alive(world) == [1]
    found[1].beat_all()
    assert shown_alive(world) == [1, 2]


def test_a_leader_that_heard_of_nobody_yet_shows_nobody_as_alive() -> None:
    world = World(3)
    found = brokers(world)
    for name in list(world.nodes):
        world.stop(name)
    for name in list(world.disks):
        world.start(name)
    while not any(node.core.context.leads for node in world.nodes.values()):
        world.run(10)
    assert shown_alive(world) == []
    found[0].beat_all()
    assert found[1].register().code == 0
    assert shown_alive(world) == [1, 2], "a registration is a sign of life too"
    assert world.group.master == 1, "nobody is deposed for what is shown"


def test_of_two_groups_of_one_name_the_askers_is_told() -> None:
    world = World()
    brokers(world, 2)
    other = {"clusterName": "a", "brokerName": "b", "appliedBrokerId": "1"}
    assert world.ask(APPLY_ID, {**other, "registerCheckCode": "10.1.0.1:1;1"}, session=7).code == 0
    for cluster, ids in (("a", {1}), ("c", {1, 2})):
        body = world.ask(SYNC_STATE, {"clusterName": cluster}, b'["b"]').body
        group = msgspec.json.decode(bytes(body))["replicasInfoTable"]["b"]  # type: ignore[arg-type]
        found = group["inSyncReplicas"] + group["notInSyncReplicas"]
        assert {replica["brokerId"] for replica in found} == ids
