"""1003 of 5.1.1 and later: coming online with a number."""

import msgspec
import pytest
from tests.controller.world import KEY, REGISTER, Broker, World, brokers, fields, live_on


def test_the_answer_names_the_living_master_and_brings_the_set() -> None:
    world = World()
    brokers(world, 1)
    late = Broker(world, 2)
    late.apply()
    reply = late.register()
    assert reply.code == 0
    assert fields(reply) == {
        "clusterName": "c",
        "brokerName": "b",
        "masterBrokerId": "1",
        "masterAddress": "10.0.0.1:10911",
        "masterEpoch": "1",
        "syncStateSetEpoch": "1",
        "masterHaAddress": "10.0.0.1:10912",
    }
    body = msgspec.json.decode(bytes(reply.body))  # type: ignore[arg-type]
    assert body == {"syncStateSet": [1], "syncStateSetEpoch": 1}


def test_what_is_registered_is_recorded() -> None:
    world = World()
    broker = Broker(world, 1, learner=True)
    broker.floor = 2
    broker.apply()
    broker.register()
    replica = world.group.replicas[1]
    assert replica.ha_address == "10.0.0.1:10912"
    assert (replica.session, replica.incarnation) == ("s1", "i1")
    assert (replica.learner, replica.floor) == (True, 2)


def test_a_number_that_the_controllers_forgot_is_adopted() -> None:
    """Defects, part 2.9: upstream answers 2010 for ever."""
    world = World()
    broker = Broker(world, 3)
    assert broker.register().code == 0
    group = world.group
    assert group.adopted
    assert group.replicas[3].address == broker.address
    assert group.master is None


def test_an_impossible_number() -> None:
    world = World()
    for number in (0, -1, 2**62):
        broker = Broker(world, number)
        assert broker.register().code == 2014
    assert KEY not in world.leader.machine.groups


def test_a_moved_broker_keeps_its_number() -> None:
    world = World()
    found = brokers(world)
    found[1].address = "10.7.7.7:10911"
    assert found[1].register().code == 0
    assert world.group.replicas[2].address == "10.7.7.7:10911"
    assert world.group.members == [1, 2, 3]


def test_the_same_process_again_changes_nothing() -> None:
    world = World()
    found = brokers(world)
    applied = world.leader.machine.applied
    assert fields(found[0].register())["masterBrokerId"] == "1"
    assert world.leader.machine.applied == applied
    assert world.group.epoch == 1


def test_a_master_that_registers_again_does_not_go_on_under_its_old_epoch() -> None:
    """Defects, part 2.4: the epoch's start must stay unique."""
    world = World()
    found = brokers(world, 1)
    found[0].session = "second life"
    found[0].close(refused=True)
    reply = found[0].register()
    assert "masterBrokerId" not in fields(reply)
    world.run(1)
    assert (world.group.master, world.group.epoch) == (1, 2)
    assert found[0].elect().code == 2011


def test_a_new_process_waits_while_the_one_before_may_hold_a_lease() -> None:
    """A closed connection is not a death: the process may be cut off, and acknowledge."""
    world = World()
    found = brokers(world)
    found[0].beat()
    found[0].close()
    clone = Broker(world, 1)
    clone.session, clone.connection = "second life", 200
    reply = clone.register()
    assert reply.code == 2014
    assert "register again" in (reply.remark or "")
    live_on(world, found[1:], 2_000)
    assert (world.group.master, world.group.epoch) == (1, 1)
    live_on(world, found[1:], 200)
    assert world.group.epoch == 2
    assert clone.register().code == 0


@pytest.mark.parametrize("stock", [True, False])
def test_a_late_registration_does_not_end_a_leased_master(stock: bool) -> None:
    world = World()
    found = brokers(world)
    found[0].beat()
    found[0].close()
    before = Broker(world, 1, stock=stock)
    before.session, before.connection = "first life", 90
    assert before.register().code == 2014
    assert (world.group.master, world.group.epoch) == (1, 1)
    assert world.group.replicas[1].session == "s1"


def test_a_late_registration_of_the_same_process_changes_nothing() -> None:
    world = World()
    found = brokers(world)
    older, found[1].connection = found[1].connection, 200
    found[1].beat()
    found[1].close()
    found[1].connection, found[1].floor = older, 3
    assert found[1].register().code == 1
    assert world.group.replicas[2].floor == 0
    live = world.leader.core.context.live.get(KEY, 2)
    assert live is not None
    assert live.closed


def test_a_stock_master_that_registers_again_neither() -> None:
    world = World()
    found = brokers(world, 1, stock=True)
    assert "masterBrokerId" not in fields(found[0].register())
    reply = found[0].elect()
    assert reply.code == 0
    assert fields(reply)["masterEpoch"] == "2"


def test_an_unclean_restart_of_a_slave_takes_it_out_of_the_set() -> None:
    world = World()
    found = brokers(world)
    found[1].close(refused=True)
    found[1].session, found[1].clean = "again", False
    assert found[1].register().code == 0
    assert world.group.members == [1, 3]
    assert world.group.replicas[2].unclean
    found[1].beat()
    assert world.group.replicas[2].unclean
    assert found[0].alter([1, 2, 3]).code == 0
    found[1].beat()
    assert not world.group.replicas[2].unclean
    assert world.group.members == [1, 2, 3]


def test_a_new_process_is_not_elected_for_the_log_of_the_one_before() -> None:
    world = World()
    found = brokers(world)
    found[1].offset = 900
    for broker in found:
        broker.beat()
    found[1].close(refused=True)
    found[1].session, found[1].offset = "again", 10
    found[1].register()
    found[0].close(refused=True)
    world.run(1)
    assert world.group.master == 3


def test_a_second_living_process_with_the_same_number_is_refused() -> None:
    """Defects, part 2.13: a copied volume."""
    world = World()
    found = brokers(world)
    clone = Broker(world, 2)
    clone.session, clone.connection, clone.address = "clone", 200, "10.6.6.6:10911"
    assert clone.register().code == 2014
    assert clone.beat().code == 2014
    assert world.group.replicas[2].address == found[1].address
    found[1].close()
    assert clone.register().code == 0


def test_another_incarnation_of_a_dead_broker_must_catch_up_first() -> None:
    world = World()
    found = brokers(world)
    other = Broker(world, 2)
    other.incarnation, other.session, other.connection = "other disk", "x", 200
    assert other.register().code == 2014
    live_on(world, [found[0], found[2]], 11_000, every=1_000)
    assert other.register().code == 0
    assert world.group.replicas[2].unclean
    assert world.group.members == [1, 3]


def test_what_is_missing_is_named() -> None:
    world = World()
    reply = world.ask(REGISTER, {"clusterName": "c", "brokerName": "b", "brokerId": "1"})
    assert reply.code == 1
    assert "brokerAddress" in str(reply.remark)
