"""What is logged of the group of controllers."""

import logging

import pytest
from sim.kernel.disk import SimDisk
from tests.controller.world import World, options

from epochmq.controller.server.controller_node import ControllerNode
from epochmq.controller.timeline import GroupWatch
from epochmq.raft.joining import draw_incarnation


class CountingRng:
    """Never the same number twice."""

    def __init__(self) -> None:
        self.drawn = 0

    def randrange(self, stop: int) -> int:
        self.drawn += 1
        return self.drawn % stop


def test_each_change_of_the_leader_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "epochmq.controller.timeline")
    world = World(3)
    assert caplog.messages.count("this controller, n0, leads the group in term 1") == 1
    assert caplog.messages.count("controller n0 (10.9.0.0:9878) leads in term 1") == 2
    world.stop("n0")
    world.run(5_000)
    assert caplog.messages.count("no leader is known in term 1") >= 1
    assert caplog.messages.count("this controller, n1, leads the group in term 2") == 1
    count = len(caplog.messages)
    world.run(5_000)
    assert len(caplog.messages) == count, "nothing changed"


@pytest.mark.parametrize("founds", [False, True])
def test_an_empty_directory_says_what_it_waits_for(
    caplog: pytest.LogCaptureFixture, founds: bool
) -> None:
    given = options("n1", 3, controller_bootstrap=founds)
    ControllerNode.open(given, SimDisk(), CountingRng(), 0)
    (line,) = caplog.messages
    assert "controller n1 has an empty directory" in line
    assert "so it has no vote and waits" in line
    assert ("--bootstrap" in line) is not founds


def test_a_member_that_lost_its_disk_is_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "epochmq.controller.timeline")
    world = World(3)
    world.stop("n1")
    world.disks["n1"] = SimDisk()
    world.start("n1")
    world.run(5_000)
    text = "controller n1 came back with an empty disk: it has no vote until it has caught up"
    assert caplog.messages.count(text) >= 2
    assert caplog.messages.count("controller n1 has caught up and votes again") >= 2
    assert caplog.messages.count("controller n1 is confirmed as a member of the group") == 1
    watch = GroupWatch(options("n1", 3), world.nodes["n1"].raft)
    caplog.clear()
    watch.look(world.nodes["n1"].raft)
    assert caplog.messages == ["controller n0 (10.9.0.0:9878) leads in term 1"]


def test_two_disks_have_two_words() -> None:
    rng = CountingRng()
    assert len({draw_incarnation(rng), draw_incarnation(rng)}) == 2
