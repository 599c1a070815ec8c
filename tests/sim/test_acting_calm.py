"""What explains a repeat: when a group was calm, and who was hit before that."""

from types import SimpleNamespace
from typing import Any

import pytest
from sim.acting.acting_calm import GRACE_US, Calm
from sim.acting.acting_world import ActingHistory
from sim.kernel.plan import Plan
from sim.kernel.world import SECOND

from epochmq.broker.serving.roles import Role

COPIED_US, SAVED_US = SECOND, 2 * SECOND


class Stage:
    """A group `a` of two brokers, calm from second 1 on; nothing of it runs."""

    def __init__(self) -> None:
        self.history = ActingHistory(Plan("acting", 0))
        self.world, self.net = self.history.world, self.history.net
        self.calm = Calm(self.history)
        self.at(1)
        for name in self.world.hosts:
            self.world.hosts[name].process = SimpleNamespace()  # type: ignore[assignment]
        for name in ("a0", "a1"):
            self.takes("MASTER" if name == "a0" else "SLAVE", name)
        self.calm.look()

    def at(self, second: float) -> None:
        self.world.time_us = int(second * SECOND)

    def takes(self, role: str, name: str, before: str = "PRE_ONLINE") -> None:
        broker: Any = SimpleNamespace(host=self.world.hosts[name])
        self.calm.took_role(broker, Role[before], Role[role])

    def lost(self, name: str, since: float) -> bool:
        now = self.world.time_us
        return self.calm.took_along(
            name, int(since * SECOND), now, copied_us=COPIED_US, saved_us=SAVED_US
        )


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_group_without_faults_loses_nothing(stage: Stage) -> None:
    stage.at(9)
    assert not stage.lost("a0", 5)


def test_a_death_takes_along_what_was_not_copied_yet(stage: Stage) -> None:
    stage.at(6)
    stage.world.kill(stage.world.hosts["a0"])
    stage.at(9)
    assert stage.lost("a0", 5.5)
    assert not stage.lost("a0", 4.9)


def test_nothing_is_copied_while_a_member_is_away(stage: Stage) -> None:
    stage.at(3)
    stage.world.kill(stage.world.hosts["a1"])
    stage.at(8)
    stage.world.kill(stage.world.hosts["a0"])
    assert stage.lost("a0", 4)


def test_when_all_die_only_what_was_saved_is_left(stage: Stage) -> None:
    stage.at(6)
    for name in ("a0", "a1"):
        stage.world.kill(stage.world.hosts[name])
    assert stage.lost("a0", 4)  # copied, and saved by nobody
    assert not stage.lost("a0", 2.9)


def test_a_cut_between_members_hits_both_and_calm_begins_later(stage: Stage) -> None:
    stage.at(4)
    stage.net.cut("a0", "a1")
    stage.at(5)
    stage.net.heal("a0", "a1")
    stage.at(9)
    assert stage.lost("a0", 3.5)
    assert stage.lost("a1", 4.5)
    assert not stage.lost("a0", 5.1)
    begin = 5 * SECOND
    assert not stage.calm.was_calm("a", begin, begin + GRACE_US, COPIED_US)
    assert stage.calm.was_calm("a", begin, begin + GRACE_US + COPIED_US, COPIED_US)


def test_a_cut_elsewhere_hits_nobody_here(stage: Stage) -> None:
    stage.at(4)
    stage.net.cut("a0", "b0")
    stage.net.cut("p0", "a1")
    assert not stage.lost("a0", 3.5)
    assert not stage.lost("a1", 3.5)
    assert stage.calm.anything(3 * SECOND, 5 * SECOND)
    assert not stage.calm.anything(2 * SECOND, 3 * SECOND)


def test_one_that_was_away_is_stale_until_it_comes_back_through_its_group(stage: Stage) -> None:
    host = stage.world.hosts["a0"]
    stage.at(4)
    stage.world.pause(host)
    stage.at(6)
    stage.world.resume(host)
    stage.at(7)
    assert stage.calm.is_stale("a0", 5 * SECOND)
    assert not stage.calm.is_stale("a1", 5 * SECOND)
    stage.takes("PRE_ONLINE", "a0", before="MASTER")
    stage.at(8)
    stage.takes("MASTER", "a0")
    assert not stage.calm.is_stale("a0", 5 * SECOND)


def test_a_master_that_resigned_may_hold_what_was_not_copied(stage: Stage) -> None:
    stage.at(6)
    stage.takes("PRE_ONLINE", "a0", before="MASTER")
    stage.at(9)

    def gave_up(since: float) -> bool:
        now = stage.world.time_us
        return stage.calm.gave_up("a0", int(since * SECOND), now, COPIED_US)

    assert gave_up(5.5)
    assert not gave_up(4.9)  # copied before
    assert not gave_up(6.5)  # after it
    assert not stage.calm.gave_up("a1", int(5.5 * SECOND), stage.world.time_us, COPIED_US)
    assert not stage.lost("a0", 5.5)  # nobody was hit
