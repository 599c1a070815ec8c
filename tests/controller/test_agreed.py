"""Settings that do not depend on who leads."""

import dataclasses

import pytest
from tests.controller.world import World, brokers, fields, live_on


def test_the_first_leader_says_what_nobody_said() -> None:
    world = World(3)
    world.run(200)
    for node in world.nodes.values():
        assert node.machine.settings == {
            "enableElectUncleanMaster": "false",
            "leaseMillis": "2000",
        }


def test_a_longer_lease_is_known_before_it_is_given() -> None:
    world = World(3)
    found = brokers(world)
    for name in list(world.nodes):
        world.stop(name)
    world.changes["lease_millis"] = 5_000
    for name in list(world.disks):
        world.start(name)
    world.run(3_000)
    assert world.leader.core.context.agreed_lease_ms == 5_000
    found[0].beat_all()
    assert fields(found[0].beat())["leaseMillis"] == "5000"


def test_no_lease_is_given_before_it_is_agreed() -> None:
    world = World()
    found = brokers(world)
    world.leader.machine.settings.pop("leaseMillis")
    assert "leaseMillis" not in fields(found[0].beat())
    world.leader.machine.settings["leaseMillis"] = "700"
    assert fields(found[0].beat())["leaseMillis"] == "700"


def test_a_leader_with_a_shorter_lease_waits_for_the_longer_one() -> None:
    """The master was given 5 s by a leader that is gone; its successor gives 2 s."""
    world = World(3, lease_millis=5_000)
    found = brokers(world)
    live_on(world, found, 600)
    found[0].beat_all()
    granted = world.now
    for node in list(world.nodes.values())[1:]:
        context = node.core.context
        context.times.lease_ms = 2_000
        context.options = dataclasses.replace(context.options, lease_millis=2_000)
    world.stop("n0")
    epoch = 1
    while epoch == 1 and world.now < granted + 20_000:
        live_on(world, found[1:], 50, every=50)
        leading = [node for node in world.nodes.values() if node.core.context.leads]
        epoch = leading[0].machine.groups[("c", "b")].epoch if leading else 1
    assert epoch == 2
    assert world.now > granted + 5_000
    live_on(world, found[1:], 3_000)
    assert world.leader.core.context.agreed_lease_ms == 2_000


def test_a_file_that_says_otherwise_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.stop("n0")
    world.changes["enable_elect_unclean_master"] = True
    world.start("n0")
    world.run(2_000)
    assert not world.leader.core.context.unclean_allowed
    assert "whatever this one's file says" in caplog.text
