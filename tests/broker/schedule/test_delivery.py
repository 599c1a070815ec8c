"""Delayed messages through the whole broker: in time, in order, after failures, after a restart."""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.broker.desk import Desk, send

from epochmq.broker.internal_writes.internal_writer import Origin, Outcome
from epochmq.broker.roles import Role
from epochmq.model.names import SCHEDULE_TOPIC
from epochmq.store.draft import Draft


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.topic("T")
    return desk


def put(desk: Desk, *bodies: bytes, level: int = 1) -> None:
    client = desk.client()
    client.put(*(send(body, properties={"DELAY": str(level)}) for body in bodies))
    desk.turn()


def run(desk: Desk, ms: int = 0) -> list[bytes]:
    desk.clock.step(ms)
    desk.node.delivery.tick(desk.clock.wall)
    return [message.body for message in desk.stored("T")]


def test_messages_come_when_they_are_due_and_not_before(desk: Desk) -> None:
    assert run(desk) == []  # finds all levels empty
    put(desk, b"a")
    assert run(desk, 0) == []  # looks when it is due
    assert desk.node.delivery.next_deadline() == desk.clock.wall + 1000
    desk.clock.step(400)
    put(desk, b"b")
    assert run(desk, 599) == []
    assert run(desk, 1) == [b"a"]
    assert desk.node.delivery.next_deadline() == desk.clock.wall + 400
    assert run(desk, 399) == [b"a"]
    assert run(desk, 1) == [b"a", b"b"]
    assert desk.node.schedule.progress()[1] == 2


def test_more_than_a_batch_is_delivered_in_order(desk: Desk) -> None:
    many = [b"%d" % number for number in range(100)]
    put(desk, *many)
    run(desk, 1000)
    for _ in range(5):
        found = run(desk)
    assert found == many


def test_levels_are_independent(desk: Desk) -> None:
    put(desk, b"late", level=2)
    put(desk, b"soon", level=1)
    assert run(desk, 1000) == [b"soon"]
    assert run(desk, 4000) == [b"soon", b"late"]


class Moody:
    """An outlet's route that answers as it is told."""

    def __init__(self, desk: Desk, *answers: Outcome) -> None:
        self.inner = desk.node.internal_writer.route
        self.answers = list(answers)
        self.tried: list[bytes] = []

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Any) -> None:
        outcomes = []
        for draft in drafts:
            self.tried.append(draft.body)
            outcome = self.answers.pop(0) if self.answers else Outcome.STORED
            if outcome is Outcome.STORED:
                self.inner.put([draft], origin, wall, lambda _: None)
            outcomes.append(outcome)
        done(outcomes)


def test_a_refused_delivery_is_repeated_from_where_it_stopped(desk: Desk) -> None:
    put(desk, b"a", b"b", b"c")
    route = desk.node.internal_writer.route = Moody(
        desk, Outcome.STORED, Outcome.LATER, Outcome.LATER
    )
    assert run(desk, 1000) == [b"a"]
    assert desk.node.schedule.progress()[1] == 1
    assert run(desk, 999) == [b"a"]
    assert run(desk, 1) == [b"a", b"b", b"c"]
    assert route.tried == [b"a", b"b", b"c", b"b", b"c"]
    assert desk.node.schedule.progress()[1] == 3


def test_the_first_one_refused(desk: Desk) -> None:
    put(desk, b"a")
    desk.node.internal_writer.route = Moody(desk, Outcome.LATER)
    assert run(desk, 1000) == []
    assert run(desk, 1000) == [b"a"]


def test_an_illegal_one_is_discarded_loudly(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    put(desk, b"a", b"b")
    desk.node.internal_writer.route = Moody(desk, Outcome.ILLEGAL)
    assert run(desk, 1000) == [b"b"]
    assert desk.node.delivery.statistics()["discarded"] == 1
    assert "discarded" in caplog.text


def test_one_that_belongs_nowhere_is_discarded(desk: Desk) -> None:
    desk.store.append([Draft(SCHEDULE_TOPIC, 0, b"?", b"DELAY\x011")], desk.clock.wall)
    put(desk, b"a")
    assert run(desk, 1000) == [b"a"]
    desk.store.append([Draft(SCHEDULE_TOPIC, 0, b"?", b"DELAY\x011")], desk.clock.wall)
    run(desk, 1000)
    assert desk.node.delivery.statistics()["discarded"] == 2
    assert desk.node.schedule.progress()[1] == 3


def test_a_progress_outside_the_queue_is_brought_back(desk: Desk) -> None:
    put(desk, b"a")
    desk.node.schedule.restore({1: 50})
    desk.node.delivery.clamp()
    assert desk.node.schedule.progress()[1] == 1
    desk.node.schedule.restore({1: 50})
    run(desk)
    assert desk.node.schedule.progress()[1] == 1
    put(desk, b"b")
    assert run(desk, 1000) == [b"b"]


def test_after_a_restart_nothing_is_lost(desk: Desk) -> None:
    put(desk, b"a", b"b")
    desk.store.close(desk.clock.wall)
    other = Desk(disk=desk.disk)
    other.node.delivery.clamp()
    other.clock.step(1000)
    other.node.delivery.tick(other.clock.wall)
    assert [message.body for message in other.stored("T")] == [b"a", b"b"]


def test_with_synchronous_flush_the_progress_waits_for_the_sync() -> None:
    desk = Desk(flush_disk_type="SYNC_FLUSH")
    desk.topic("T")
    put(desk, b"a")
    desk.store.sync()
    run(desk, 1000)
    assert desk.node.schedule.progress()[1] == 0
    run(desk, 1000)  # busy: not delivered twice
    desk.store.sync()
    assert desk.node.schedule.progress()[1] == 1
    assert run(desk) == [b"a"]


def test_what_comes_of_it_after_a_change_of_role_moves_nothing(desk: Desk) -> None:
    """The progress may have been copied from another broker by then, and be further."""
    later: list[Any] = []
    inner = desk.node.internal_writer.route

    class Slow:
        def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Any) -> None:
            later.append(lambda: inner.put(drafts, origin, wall, done))

    desk.node.internal_writer.route = Slow()
    put(desk, b"a")
    run(desk, 1000)
    desk.node.take_role(Role.SLAVE)
    desk.node.schedule.restore({1: 5})
    desk.node.take_role(Role.MASTER)
    (answer,) = later
    answer()
    assert desk.node.schedule.progress()[1] == 5
    assert desk.node.schedule.statistics()["busy"] == 0
