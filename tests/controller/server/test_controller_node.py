"""A whole controller: log, snapshot, restart, and three that agree."""

import pytest
from tests.controller.world import HEARTBEAT, KEY, Broker, World, brokers, fields, live_on, options

from epochmq.base.errors import PeerError
from epochmq.controller.commands import SetSetting, encode
from epochmq.controller.controller_effects import ProposeCommand
from epochmq.controller.server.controller_node import raft_options
from epochmq.raft.raft_node import LostLeadership


def test_what_was_committed_survives_a_restart() -> None:
    world = World()
    brokers(world)
    before = world.leader.machine.state_hash()
    world.stop("n0")
    world.start("n0")
    world.run(2_000)
    assert world.leader.machine.state_hash() == before


def test_a_long_log_becomes_a_snapshot() -> None:
    world = World(snapshot_entries=10)
    found = brokers(world)
    size = world.leader.raft.statistics()["journalBytes"]
    for round in range(30):
        assert found[0].alter([1, 2] if round % 2 == 0 else [1, 2, 3]).code == 0
        found[1].beat()
        found[2].beat()
    assert world.leader.raft.statistics()["journalBytes"] < size + 3_000
    before = world.leader.machine.state_hash()
    world.stop("n0")
    world.start("n0")
    world.run(2_000)
    assert world.leader.machine.state_hash() == before
    assert world.group.set_epoch == 32


def test_three_controllers_hold_the_same_state() -> None:
    world = World(3, snapshot_entries=10)
    found = brokers(world)
    world.stop("n2")
    for round in range(20):
        assert found[0].alter([1, 2] if round % 2 == 0 else [1, 2, 3]).code == 0
        live_on(world, found, 50)
    world.start("n2")
    world.run(3_000)
    assert len({node.machine.state_hash() for node in world.nodes.values()}) == 1


def test_requests_go_on_while_a_minority_is_down() -> None:
    world = World(3)
    found = brokers(world)
    for name in list(world.nodes):
        world.stop(name)
        live_on(world, found, 2_500)
        assert found[0].alter([1, 2]).code == 0
        assert found[0].alter([1, 2, 3]).code == 0
        world.start(name)
        live_on(world, found, 1_500)
    assert (world.group.master, world.group.epoch) == (1, 1)


def test_a_restarted_controller_loses_nothing_that_was_answered() -> None:
    """All at once, as in a power cut."""
    world = World(3)
    brokers(world)
    number = Broker(world, 4)
    assert number.apply().code == 0
    for name in list(world.nodes):
        world.stop(name)
    for name in list(world.disks):
        world.start(name)
    world.run(3_000)
    assert 4 in world.group.replicas
    assert world.group.members == [1, 2, 3]


def test_another_leaders_entry_in_the_place_of_ours_is_not_ours() -> None:
    """The index alone says nothing: what we proposed there is lost."""
    world = World()
    node = world.leader
    heard: list[object] = []
    node.core.context.write(SetSetting("", "k", value="v"), heard.append)
    (ours,) = node.core.pop_effects()
    assert isinstance(ours, ProposeCommand)
    index = node.machine.applied + 1
    node._proposed[index] = (3, ours.ticket)
    node._apply(index, 4, encode(SetSetting("", "other", value="v")), world.now)
    assert heard == [None]
    assert node.machine.settings["other"] == "v"


def test_what_was_proposed_is_forgotten_with_the_leadership() -> None:
    world = World()
    node = world.leader
    node._proposed[10**6] = (1, 1)
    node._of_raft(LostLeadership(1), world.now)
    assert node._proposed == {}


def test_garbage_of_a_stranger() -> None:
    world = World()
    with pytest.raises(PeerError):
        world.leader.receive(b"garbage", world.now)
    assert KEY not in world.leader.machine.groups


def test_a_leaders_lease_is_shorter_than_an_election() -> None:
    made = raft_options(options(election_timeout_millis=1_000, raft_heartbeat_millis=100))
    assert (made.election_timeout_ms, made.heartbeat_ms, made.lease_ms) == (1_000, 100, 600)


def test_figures() -> None:
    world = World()
    brokers(world)
    figures = world.leader.statistics()
    assert figures["groups"] == 1
    assert figures["brokers"] == 3
    assert "journalBytes" in figures


@pytest.mark.parametrize("counted_ms", [0, 1])
def test_a_leader_whose_clock_stood_still_gives_no_lease(counted_ms: int) -> None:
    """It was deposed meanwhile and does not know it; no word of the others has reached it yet.

    Where the wall clock stood still as well nothing shows it.
    """
    world = World(3)
    found = brokers(world)
    live_on(world, found, 1_000)
    found[0].beat_all()
    name, old = next((name, node) for name, node in world.nodes.items() if node is world.leader)
    stood_at, wall = world.now, 1_700_000_000_000
    assert not old.look_at_clocks(stood_at, wall)
    del world.nodes[name]
    live_on(world, found[1:], 6_000)
    assert (world.group.master, world.group.epoch) == (2, 2)
    world.nodes[name] = old
    for other in set(world.nodes) - {name}:
        world.cut |= {(name, other), (other, name)}
    now, world.now = world.now, stood_at + 1
    wall += 1 if counted_ms else now - stood_at + 1
    assert old.look_at_clocks(world.now, wall) is not bool(counted_ms)
    token = found[0].world.send(HEARTBEAT, found[0].beat_ext(), session=101, to=name)
    if counted_ms:
        assert fields(world.answers[token])["leaseMillis"] == "2000"
    else:
        assert token not in world.answers
        assert old.raft.lease_until_ms == 0


def test_a_leader_whose_clock_stood_still_vouches_again_after_one_round() -> None:
    world = World(3)
    found = brokers(world)
    live_on(world, found, 1_000)
    term, leader = world.leader.raft.term, world.leader
    leader.look_at_clocks(world.now, 0)
    world.settle()
    assert leader.raft.lease_until_ms > world.now
    assert leader.look_at_clocks(world.now, 5_000)
    assert leader.raft.lease_until_ms == 0
    assert fields(found[0].beat())["leaseMillis"] == "2000", "as soon as a majority has answered"
    assert leader.raft.term == term
    assert leader.core.context.leads


def test_one_alone_needs_no_round() -> None:
    world = World()
    found = brokers(world, 1)
    world.leader.look_at_clocks(world.now, 0)
    assert world.leader.look_at_clocks(world.now, 5_000)
    assert "leaseMillis" in fields(found[0].beat())


def test_a_follower_whose_clock_stood_still_changes_nothing() -> None:
    world = World(3)
    follower = next(node for node in world.nodes.values() if node is not world.leader)
    follower.look_at_clocks(world.now, 0)
    assert follower.look_at_clocks(world.now, 5_000)
    assert follower.pop_effects() == []
