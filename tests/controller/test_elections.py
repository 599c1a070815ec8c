"""The watch over masters: when an election begins, and what it must not do."""

import pytest
from tests.controller.world import KEY, Broker, World, brokers, live_on

from epochmq.controller.commands import ElectMaster, decode
from epochmq.controller.controller_effects import ProposeCommand
from epochmq.controller.elect import By


@pytest.fixture
def found() -> list[Broker]:
    return brokers(World())


def silent_until_elected(world: World, living: list[Broker], limit_ms: int = 20_000) -> int:
    """How long it takes until the epoch rises while only these send heartbeats."""
    began, epoch = world.now, world.group.epoch
    while world.group.epoch == epoch and world.now < began + limit_ms:
        live_on(world, living, 10, every=10)
    return world.now - began


def test_a_killed_master_is_replaced_at_once(found: list[Broker]) -> None:
    world = found[0].world
    live_on(world, found, 1_000)
    found[0].close(refused=True)
    world.run(1)
    assert (world.group.master, world.group.epoch, world.group.members) == (2, 2, [2, 3])


def test_a_closed_connection_alone_waits_the_lease_out(found: list[Broker]) -> None:
    """Defects, part 3.1: it may be acknowledging still."""
    world = found[0].world
    live_on(world, found, 900)
    found[0].beat()
    found[0].close()
    assert 2_100 <= silent_until_elected(world, found[1:]) <= 2_120


def test_a_silent_master_keeps_its_lease_to_the_end(found: list[Broker]) -> None:
    world = found[0].world
    live_on(world, found, 900)
    found[0].beat()
    assert 2_100 <= silent_until_elected(world, found[1:]) <= 2_120
    assert world.group.master == 2


def test_a_silent_stock_master_has_its_timeout() -> None:
    found = brokers(World(), stock=True)
    world = found[0].world
    live_on(world, found, 1_000)
    assert 9_600 <= silent_until_elected(world, found[1:]) <= 10_100


def test_a_closed_stock_master_that_may_live_has_less() -> None:
    found = brokers(World(), stock=True)
    world = found[0].world
    live_on(world, found, 1_000)
    found[0].close()
    assert 1_600 <= silent_until_elected(world, found[1:]) <= 2_100


def test_a_master_that_reconnects_stays(found: list[Broker]) -> None:
    """rocketmq#11045: its old connection closes after the new one spoke."""
    world = found[0].world
    old = found[0].connection
    found[0].connection = 777
    found[0].beat_all()
    world.refusing.add(found[0].address)
    for name, node in world.nodes.items():
        node.channel_closed(old, world.now)
        world._carry_out(name)
    live_on(world, found, 3_000)
    assert (world.group.master, world.group.epoch) == (1, 1)


def test_no_epoch_is_spent_while_nobody_can_be_elected(found: list[Broker]) -> None:
    """rocketmq#6505"""
    world = found[0].world
    found[0].alter([1])
    found[0].close(refused=True)
    live_on(world, found[1:], 15_000)
    group = world.group
    assert (group.master, group.epoch, group.members) == (1, 1, [1])
    assert KEY in world.leader.core.elections.headless


def test_a_member_that_returns_is_elected_at_once(found: list[Broker]) -> None:
    """rocketmq#5009"""
    world = found[0].world
    for broker in found:
        broker.close(refused=True)
    world.run(5_000)
    assert world.group.epoch == 1
    world.refusing.clear()
    found[2].beat()
    world.run(1)
    assert (world.group.master, world.group.epoch) == (3, 2)


def test_a_group_without_any_master_is_retried_too(found: list[Broker]) -> None:
    world = found[0].world
    found[0].close(refused=True)
    found[1].close(refused=True)
    found[2].close(refused=True)
    world.refusing.clear()
    found[0].session, found[0].clean = "new", False
    found[0].register()
    live_on(world, found[:1], 1_500)
    assert world.group.master is None, "it lost its tail, and the others may return"
    found[1].beat()
    world.run(1)
    assert world.group.master == 2


def test_the_new_epoch_is_above_every_epoch_reported(found: list[Broker]) -> None:
    world = found[0].world
    found[2].epoch = 41
    found[2].beat()
    found[0].close(refused=True)
    world.run(1)
    assert (world.group.master, world.group.epoch) == (3, 42)


def test_the_longest_log_wins(found: list[Broker]) -> None:
    world = found[0].world
    found[1].offset, found[2].offset = 1 << 20, 5 << 30
    found[1].beat()
    found[2].beat()
    found[0].close(refused=True)
    world.run(1)
    assert world.group.master == 3


def test_no_lease_is_given_while_the_master_may_change(found: list[Broker]) -> None:
    world = found[0].world
    core = world.leader.core
    core.elections.transfer(KEY, By(2), 10**9)
    assert core.elections.under_way(KEY)
    assert core.elections.stepping_down(KEY)


# A new leader ---------------------------------------------------------------------------------


def test_a_new_leader_gives_everybody_time(found: list[Broker]) -> None:
    """Defects, parts 2.14 and 3.2; rocketmq#5712."""
    world = World(3)
    group = brokers(world)
    live_on(world, group, 600)
    for name in list(world.nodes):
        world.stop(name)
    for name in list(world.disks):
        world.start(name)
    while not any(node.core.context.leads for node in world.nodes.values()):
        world.run(10)
    # A slave is heard of first; the master may hold a lease and needs time to find us.
    assert silent_until_elected(world, group[1:], 9_900) >= 9_900
    group[0].beat_all()
    live_on(world, group, 1_000)
    assert (world.group.master, world.group.epoch) == (1, 1)


def test_a_controller_failover_does_not_touch_the_groups() -> None:
    world = World(3)
    group = brokers(world)
    live_on(world, group, 1_000)
    leader = next(name for name, node in world.nodes.items() if node is world.leader)
    world.stop(leader)
    live_on(world, group, 5_000)
    assert world.leader.core.context.leads
    assert (world.group.master, world.group.epoch, world.group.members) == (1, 1, [1, 2, 3])


def test_controller_and_master_die_together() -> None:
    world = World(3)
    group = brokers(world)
    live_on(world, group, 1_000)
    leader = next(name for name, node in world.nodes.items() if node is world.leader)
    world.stop(leader)
    group[0].close(refused=True)
    live_on(world, group[1:], 1_500)
    assert (world.group.master, world.group.epoch) == (2, 2)


def test_a_new_leader_honours_the_lease_of_a_cut_off_master() -> None:
    """The master's last lease came from the old leader; the new one knows nothing of it."""
    world = World(3)
    group = brokers(world)
    live_on(world, group, 1_000)
    group[0].beat_all()
    granted = world.now
    world.stop("n0")
    for broker in group:
        broker.close()
    while world.group.epoch == 1 if _leading(world) else True:
        live_on(world, group[1:], 10, every=10)
    assert world.now >= granted + 2_000


def _leading(world: World) -> bool:
    return any(node.core.context.leads for node in world.nodes.values())


# The first election ---------------------------------------------------------------------------


def online(world: World, number: int, offset: int = 0, *, learner: bool = False) -> Broker:
    broker = Broker(world, number, learner=learner)
    broker.apply()
    broker.register()
    broker.offset, broker.epoch = offset, 1 if offset else 0
    broker.beat_all()
    return broker


def test_brokers_with_data_are_all_heard_before_the_first_election() -> None:
    """Defects, part 3.14."""
    world = World()
    first = online(world, 1, 100)
    token_at = world.now
    second = online(world, 2, 900)
    reply = first.elect()
    assert world.now - token_at >= 1_400
    assert (world.group.master, world.group.epoch) == (2, 2)
    assert reply.code == 0
    assert second.elect().code == 2011


def test_without_data_there_is_nothing_to_wait_for() -> None:
    world = World()
    online(world, 1)
    began = world.now
    assert online(world, 2).elect().code == 0
    assert world.now - began <= 20
    assert world.group.master == 2


def test_a_learner_is_not_the_first_master() -> None:
    """rocketmq#10013"""
    world = World()
    learner = online(world, 1, learner=True)
    assert learner.elect().code == 2012
    online(world, 2)
    world.run(2_000)
    assert world.group.master == 2


def test_a_group_is_elected_though_nobody_asks() -> None:
    world = World()
    online(world, 1)
    world.run(1_600)
    assert world.group.master == 1


def test_a_wiped_controller_takes_running_brokers_back() -> None:
    """Defects, part 2.9: the same numbers, higher epochs, and the longest log."""
    world = World()
    group = [Broker(world, number) for number in (1, 2, 3)]
    for broker in group:
        broker.epoch, broker.offset = 7, 100 * broker.id
        assert broker.beat().code == 2010
        assert broker.register().code == 0
        broker.beat()
    live_on(world, group, 2_000)
    assert (world.group.master, world.group.epoch, world.group.next_id) == (3, 8, 4)


def test_a_wiped_controller_waits_for_all_that_must_exist(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    third = Broker(world, 3)
    third.epoch, third.offset = 7, 100
    third.register()
    live_on(world, [third], 10_000)
    assert world.group.master is None
    assert "not all of its brokers are back" in caplog.text
    pair = [Broker(world, 1), Broker(world, 2)]
    for broker in pair:
        broker.epoch, broker.offset = 7, 300
        broker.register()
    live_on(world, [third, *pair], 3_000)
    assert (world.group.master, world.group.epoch) == (1, 8)


def test_what_a_forgotten_broker_told_before_it_registered_does_not_count() -> None:
    """S29: it left its epoch only then, and may have acknowledged more meanwhile."""
    world = World()
    group = [Broker(world, number) for number in (1, 2, 3)]
    for broker in group:
        broker.epoch, broker.offset = 7, 100
        assert broker.beat().code == 2010
        assert broker.register().code == 0
    live_on(world, group[:1], 2_000)
    assert world.group.master is None
    group[1].offset = 300
    live_on(world, group, 1_000)
    assert world.group.master == 2


def test_an_operator_may_choose_instead_of_waiting() -> None:
    world = World()
    third = Broker(world, 3)
    third.epoch, third.offset = 7, 100
    third.register()
    third.beat()
    ext = {"clusterName": "c", "brokerName": "b", "brokerId": "3", "designateElect": "true"}
    assert world.ask(1002, ext).code == 0
    assert (world.group.master, world.group.epoch) == (3, 8)


# Cost -----------------------------------------------------------------------------------------


def test_heartbeats_do_not_touch_the_heap(found: list[Broker]) -> None:
    elections = found[0].world.leader.core.elections
    for _ in range(200):
        for broker in found:
            broker.beat()
    assert len(elections._heap) <= 3


def test_the_choice_is_in_the_command(found: list[Broker]) -> None:
    world = found[0].world
    proposed: list[ElectMaster] = []
    core = world.leader.core
    take = core.pop_effects

    def watched() -> list[object]:
        effects = take()
        for effect in effects:
            if isinstance(effect, ProposeCommand):
                event = decode(effect.data)
                if isinstance(event, ElectMaster):
                    proposed.append(event)
        return effects  # type: ignore[return-value]

    core.pop_effects = watched  # type: ignore[assignment,method-assign]
    found[0].close(refused=True)
    world.run(1)
    assert [(event.master, event.members, event.new_epoch) for event in proposed] == [
        (2, (2, 3), 2)
    ]


@pytest.mark.parametrize("number", [3, 77])
def test_a_forged_report_does_not_drive_the_epoch_out_of_range(
    found: list[Broker], number: int
) -> None:
    world = found[0].world
    liar = Broker(world, number)
    liar.epoch = 2**31 - 1 if number == 3 else 2**30 - 1
    liar.beat()
    live_on(world, found[:2], 300)
    found[0].close(refused=True)
    world.run(1)
    assert world.group.epoch == 2
