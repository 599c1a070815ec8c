"""What the parts of the core share."""

from tests.controller.world import KEY, World, brokers, live_on, options

from epochmq.controller.commands import CleanBrokerData
from epochmq.controller.controller_context import ControllerContext
from epochmq.controller.controller_effects import ProposeCommand
from epochmq.controller.machine import DONE, CommandOutcome, Machine


def test_a_write_hears_its_outcome_once() -> None:
    context = ControllerContext(Machine(), options())
    heard: list[CommandOutcome | None] = []
    context.write(CleanBrokerData(*KEY), heard.append)
    (effect,) = context.effects
    assert isinstance(effect, ProposeCommand)
    context.written(effect.ticket, DONE)
    context.written(effect.ticket, DONE)
    assert heard == [DONE]


def test_writes_under_way_fail_together() -> None:
    context = ControllerContext(Machine(), options())
    heard: list[CommandOutcome | None] = []
    context.write(CleanBrokerData(*KEY), heard.append)
    context.write(CleanBrokerData(*KEY), heard.append)
    context.fail_writes()
    assert heard == [None, None]


def test_brokers_with_heartbeats_are_alive_and_all_may_be_until_a_timeout() -> None:
    world = World()
    group = (brokers(world), world.group)[1]
    context = world.leader.core.context
    context.live.forget(KEY, 3)
    context.leader_since = context.now
    assert [context.alive(group, number) for number in (1, 2, 3)] == [True, True, False]
    for number in (1, 2, 3):
        assert context.may_live_until(group, number) == context.now + 10_000
    context.live.groups[KEY][2].gone = True
    assert context.may_live_until(group, 2) == 0
    assert not context.alive(group, 2)
    context.now += 10_000
    assert not context.alive(group, 1)
    assert context.may_live_until(group, 1) == context.may_live_until(group, 3) == context.now


def test_only_brokers_with_a_recent_heartbeat_may_be_elected() -> None:
    world = World()
    found = brokers(world)
    live_on(world, found, 300)
    found[2].close()
    context = world.leader.core.context
    assert sorted(context.electable(KEY)) == [1, 2]
    found[1].close(refused=True)
    found[1].stock = True
    found[1].register()
    found[1].beat()
    world.run(2_500)
    assert sorted(context.electable(KEY)) == [2], "brokers without leases beat once a second"


def test_a_group_is_found_by_name_when_that_is_enough() -> None:
    world = World()
    brokers(world, 1)
    context = world.leader.core.context
    assert context.find("c", "b", 0) is context.find(None, "b", 0) is world.group
    assert context.find("", "b", 0) is world.group
    assert context.find("d", "b", 0) is None
    assert context.find(None, "x", 0) is None


def test_the_leaders_address() -> None:
    context = ControllerContext(Machine(), options(count=3))
    assert context.leader_address is None
    context.leader_id = "n2"
    assert context.leader_address == "10.9.0.2:9878"
    context.leader_id = "n9"
    assert context.leader_address is None
