"""1005: who leads; every controller answers."""

from tests.controller.world import INFO, METADATA, World, fields

PEERS = "n0:10.9.0.0:9878;n1:10.9.0.1:9878;n2:10.9.0.2:9878;"


def test_every_controller_names_the_leader() -> None:
    world = World(3)
    for name in world.nodes:
        assert fields(world.ask(METADATA, to=name)) == {
            "group": "g",
            "controllerLeaderId": "n0",
            "controllerLeaderAddress": "10.9.0.0:9878",
            "isLeader": "true" if name == "n0" else "false",
            "peers": PEERS,
        }


def test_without_a_leader_none_is_named() -> None:
    world = World(3)
    world.stop("n0")
    world.stop("n1")
    world.run(3_000)
    assert fields(world.ask(METADATA, to="n2")) == {
        "group": "g",
        "isLeader": "false",
        "peers": PEERS,
    }


def test_a_follower_sends_to_the_leader() -> None:
    world = World(3)
    reply = world.ask(INFO, {"brokerName": "b"}, to="n2")
    assert reply.code == 2007
    assert "10.9.0.0:9878" in str(reply.remark)
