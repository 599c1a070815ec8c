"""What the parts of the core share."""

from tests.controller.world import KEY, World, brokers, live_on, options

from epochmq.controller.commands import CleanBrokerData
from epochmq.controller.desk import Desk
from epochmq.controller.effects import Propose
from epochmq.controller.machine import DONE, Machine, Outcome


def test_a_write_hears_its_outcome_once() -> None:
    desk = Desk(Machine(), options())
    heard: list[Outcome | None] = []
    desk.write(CleanBrokerData(*KEY), heard.append)
    (effect,) = desk.effects
    assert isinstance(effect, Propose)
    desk.written(effect.ticket, DONE)
    desk.written(effect.ticket, DONE)
    assert heard == [DONE]


def test_writes_under_way_fail_together() -> None:
    desk = Desk(Machine(), options())
    heard: list[Outcome | None] = []
    desk.write(CleanBrokerData(*KEY), heard.append)
    desk.write(CleanBrokerData(*KEY), heard.append)
    desk.fail_writes()
    assert heard == [None, None]


def test_alive_is_who_was_heard_of_and_until_a_timeout_has_passed_anybody_may_be() -> None:
    world = World()
    group = (brokers(world), world.group)[1]
    desk = world.leader.core.desk
    desk.live.forget(KEY, 3)
    desk.leader_since = desk.now
    assert [desk.alive(group, number) for number in (1, 2, 3)] == [True, True, False]
    for number in (1, 2, 3):
        assert desk.may_live_until(group, number) == desk.now + 10_000
    desk.live.groups[KEY][2].gone = True
    assert desk.may_live_until(group, 2) == 0
    assert not desk.alive(group, 2)
    desk.now += 10_000
    assert not desk.alive(group, 1)
    assert desk.may_live_until(group, 1) == desk.may_live_until(group, 3) == desk.now


def test_who_may_be_elected_was_heard_of_lately() -> None:
    world = World()
    found = brokers(world)
    live_on(world, found, 300)
    found[2].close()
    desk = world.leader.core.desk
    assert sorted(desk.electable(KEY)) == [1, 2]
    found[1].close(refused=True)
    found[1].stock = True
    found[1].register()
    found[1].beat()
    world.run(2_500)
    assert sorted(desk.electable(KEY)) == [2], "brokers without leases beat once a second"


def test_a_group_is_found_by_name_when_that_is_enough() -> None:
    world = World()
    brokers(world, 1)
    desk = world.leader.core.desk
    assert desk.find("c", "b", 0) is desk.find(None, "b", 0) is world.group
    assert desk.find("", "b", 0) is world.group
    assert desk.find("d", "b", 0) is None
    assert desk.find(None, "x", 0) is None


def test_the_leaders_address() -> None:
    desk = Desk(Machine(), options(count=3))
    assert desk.leader_address is None
    desk.leader_id = "n2"
    assert desk.leader_address == "10.9.0.2:9878"
    desk.leader_id = "n9"
    assert desk.leader_address is None
