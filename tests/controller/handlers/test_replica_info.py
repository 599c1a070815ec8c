"""1004: who is master."""

import msgspec
from tests.controller.world import INFO, World, brokers, fields, live_on


def body(reply: object) -> object:
    return msgspec.json.decode(bytes(reply.body))  # type: ignore[attr-defined]


def test_by_number() -> None:
    world = World()
    found = brokers(world)
    reply = world.ask(INFO, {"brokerName": "b"})
    assert fields(reply) == {
        "masterBrokerId": "1",
        "masterAddress": found[0].address,
        "masterEpoch": "1",
        "masterHaAddress": "10.0.0.1:10912",
    }
    assert body(reply) == {"syncStateSet": [1, 2, 3], "syncStateSetEpoch": 2}


def test_by_address() -> None:
    world = World()
    found = brokers(world)
    reply = world.ask(INFO, {"brokerName": "b", "brokerAddress": found[1].address})
    assert fields(reply) == {
        "masterAddress": found[0].address,
        "masterEpoch": "1",
        "brokerId": "2",
    }
    addresses = [broker.address for broker in found]
    assert body(reply) == {"syncStateSet": addresses, "syncStateSetEpoch": 2}
    stranger = world.ask(INFO, {"brokerName": "b", "brokerAddress": "x:1"})
    assert fields(stranger)["brokerId"] == "-1"


def test_an_unknown_group() -> None:
    world = World()
    assert world.ask(INFO, {"brokerName": "x"}).code == 2008
    assert world.ask(INFO, {"brokerName": "x", "brokerAddress": "h:1"}).code == 2008


def test_two_clusters_with_one_name_are_told_apart() -> None:
    """Defects, part 2.18."""
    world = World()
    found = brokers(world, 1)
    names = {"clusterName": "d", "brokerName": "b"}
    world.ask(1013, {**names, "appliedBrokerId": "1", "registerCheckCode": "z:1;1"})
    assert world.ask(INFO, {"brokerName": "b"}).code == 2008, "which one?"
    reply = world.ask(INFO, {"brokerName": "b"}, session=found[0].connection)
    assert fields(reply)["masterBrokerId"] == "1"
    assert fields(world.ask(INFO, names)) == {"masterEpoch": "0"}


def test_a_group_without_a_master_shows_none_under_an_unchanged_epoch() -> None:
    world = World()
    found = brokers(world, 1)
    found[0].close(refused=True)
    found[0].session = "again"
    found[0].register()
    reply = world.ask(INFO, {"brokerName": "b"})
    assert "masterBrokerId" not in fields(reply) or fields(reply)["masterEpoch"] == "2"


def test_a_leader_that_cannot_be_sure_says_nothing() -> None:
    """A read passes a majority, or the leader's own lease (defects, part 3.8)."""
    world = World(3)
    brokers(world, 1)
    leader = world.leader
    world.cut = {("n0", "n1"), ("n0", "n2"), ("n1", "n0"), ("n2", "n0")}
    world.run(450)
    assert not leader.core.sure_to_lead()
    token = world.send(INFO, {"brokerName": "b"}, to="n0")
    world.run(2_000)
    assert world.answers[token].code == 2007
    live_on(world, [], 100)
