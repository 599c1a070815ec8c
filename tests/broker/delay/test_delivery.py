"""Delayed messages through the whole broker: in time, in order, after failures, after a restart."""

from collections.abc import Sequence
from typing import Any

import pytest
from sim.kernel.disk import SimFile
from tests.broker.become import become
from tests.broker.broker_harness import BrokerHarness, send

from epochmq.broker.internal_writes.internal_writer import Origin, WriteOutcome
from epochmq.broker.serving.roles import Role
from epochmq.model.names import SCHEDULE_TOPIC
from epochmq.store import cold_reads
from epochmq.store.draft import Draft


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness()
    harness.topic("T")
    return harness


def put(harness: BrokerHarness, *bodies: bytes, level: int = 1) -> None:
    client = harness.client()
    client.put(*(send(body, properties={"DELAY": str(level)}) for body in bodies))
    harness.turn()


def run(harness: BrokerHarness, ms: int = 0) -> list[bytes]:
    harness.clock.step(ms)
    harness.node.delivery.tick(harness.clock.wall)
    return [message.body for message in harness.stored("T")]


def test_messages_come_when_they_are_due_and_not_before(harness: BrokerHarness) -> None:
    assert run(harness) == []  # finds all levels empty
    put(harness, b"a")
    assert run(harness, 0) == []  # looks when it is due
    assert harness.node.delivery.next_deadline() == harness.clock.wall + 1000
    harness.clock.step(400)
    put(harness, b"b")
    assert run(harness, 599) == []
    assert run(harness, 1) == [b"a"]
    assert harness.node.delivery.next_deadline() == harness.clock.wall + 400
    assert run(harness, 399) == [b"a"]
    assert run(harness, 1) == [b"a", b"b"]
    assert harness.node.schedule.progress()[1] == 2


def test_more_than_a_batch_is_delivered_in_order(harness: BrokerHarness) -> None:
    many = [b"%d" % number for number in range(100)]
    put(harness, *many)
    run(harness, 1000)
    for _ in range(5):
        found = run(harness)
    assert found == many


def test_levels_are_independent(harness: BrokerHarness) -> None:
    put(harness, b"late", level=2)
    put(harness, b"soon", level=1)
    assert run(harness, 1000) == [b"soon"]
    assert run(harness, 4000) == [b"soon", b"late"]


class Moody:
    """An outlet's route that answers as it is told."""

    def __init__(self, harness: BrokerHarness, *answers: WriteOutcome) -> None:
        self.inner = harness.node.internal_writer.route
        self.answers = list(answers)
        self.tried: list[bytes] = []

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Any) -> None:
        outcomes = []
        for draft in drafts:
            self.tried.append(draft.body)
            outcome = self.answers.pop(0) if self.answers else WriteOutcome.STORED
            if outcome is WriteOutcome.STORED:
                self.inner.put([draft], origin, wall, lambda _: None)
            outcomes.append(outcome)
        done(outcomes)


def test_a_refused_delivery_is_repeated_from_where_it_stopped(harness: BrokerHarness) -> None:
    put(harness, b"a", b"b", b"c")
    route = harness.node.internal_writer.route = Moody(
        harness, WriteOutcome.STORED, WriteOutcome.LATER, WriteOutcome.LATER
    )
    assert run(harness, 1000) == [b"a"]
    assert harness.node.schedule.progress()[1] == 1
    assert run(harness, 999) == [b"a"]
    assert run(harness, 1) == [b"a", b"b", b"c"]
    assert route.tried == [b"a", b"b", b"c", b"b", b"c"]
    assert harness.node.schedule.progress()[1] == 3


def test_the_first_one_refused(harness: BrokerHarness) -> None:
    put(harness, b"a")
    harness.node.internal_writer.route = Moody(harness, WriteOutcome.LATER)
    assert run(harness, 1000) == []
    assert run(harness, 1000) == [b"a"]


def test_an_illegal_one_is_discarded_loudly(
    harness: BrokerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    put(harness, b"a", b"b")
    harness.node.internal_writer.route = Moody(harness, WriteOutcome.ILLEGAL)
    assert run(harness, 1000) == [b"b"]
    assert harness.node.delivery.statistics()["discarded"] == 1
    assert "discarded" in caplog.text


def test_one_that_belongs_nowhere_is_discarded(harness: BrokerHarness) -> None:
    harness.store.append([Draft(SCHEDULE_TOPIC, 0, b"?", b"DELAY\x011")], harness.clock.wall)
    put(harness, b"a")
    assert run(harness, 1000) == [b"a"]
    harness.store.append([Draft(SCHEDULE_TOPIC, 0, b"?", b"DELAY\x011")], harness.clock.wall)
    run(harness, 1000)
    assert harness.node.delivery.statistics()["discarded"] == 2
    assert harness.node.schedule.progress()[1] == 3


def test_a_progress_outside_the_queue_is_brought_back(harness: BrokerHarness) -> None:
    put(harness, b"a")
    harness.node.schedule.restore({1: 50})
    harness.node.delivery.clamp()
    assert harness.node.schedule.progress()[1] == 1
    harness.node.schedule.restore({1: 50})
    run(harness)
    assert harness.node.schedule.progress()[1] == 1
    put(harness, b"b")
    assert run(harness, 1000) == [b"b"]


def test_after_a_restart_nothing_is_lost(harness: BrokerHarness) -> None:
    put(harness, b"a", b"b")
    harness.store.close(harness.clock.wall)
    other = BrokerHarness(disk=harness.disk)
    other.node.delivery.clamp()
    other.clock.step(1000)
    other.node.delivery.tick(other.clock.wall)
    assert [message.body for message in other.stored("T")] == [b"a", b"b"]


def test_with_synchronous_flush_the_progress_waits_for_the_sync() -> None:
    harness = BrokerHarness(flush_disk_type="SYNC_FLUSH")
    harness.topic("T")
    put(harness, b"a")
    harness.store.sync()
    run(harness, 1000)
    assert harness.node.schedule.progress()[1] == 0
    run(harness, 1000)  # busy: not delivered twice
    harness.store.sync()
    assert harness.node.schedule.progress()[1] == 1
    assert run(harness) == [b"a"]


def test_what_comes_of_it_after_a_change_of_role_moves_nothing(harness: BrokerHarness) -> None:
    """The progress may have been copied from another broker by then, and be further."""
    later: list[Any] = []
    inner = harness.node.internal_writer.route

    class Slow:
        def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Any) -> None:
            later.append(lambda: inner.put(drafts, origin, wall, done))

    harness.node.internal_writer.route = Slow()
    put(harness, b"a")
    run(harness, 1000)
    become(harness.node, Role.SLAVE)
    harness.node.schedule.restore({1: 5})
    become(harness.node, Role.MASTER)
    (answer,) = later
    answer()
    assert harness.node.schedule.progress()[1] == 5
    assert harness.node.schedule.statistics()["busy"] == 0


def test_due_messages_that_are_not_in_memory_are_read_by_another_thread(
    harness: BrokerHarness,
) -> None:
    run(harness)
    put(harness, b"a", b"b")
    put(harness, b"c", level=2)
    harness.evict()
    assert run(harness, 1000) == []
    assert run(harness, 500) == []
    reads = len(harness.held_reads)
    assert run(harness, 100) == []
    assert len(harness.held_reads) == reads  # none asks a second time
    harness.read_device()
    assert not harness.disk.evicted
    assert run(harness) == [b"a", b"b"]
    harness.read_device()
    assert run(harness, 5000) == [b"a", b"b", b"c"]


def test_what_leaves_the_memory_again_is_delivered_all_the_same(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(harness, b"a", b"b")
    monkeypatch.setattr(SimFile, "is_in_memory", lambda *_: False)
    for _ in range(20):
        run(harness, 100)
        harness.read_device()
    assert run(harness) == [b"a", b"b"]


def test_a_role_that_ends_while_the_device_is_read(harness: BrokerHarness) -> None:
    put(harness, b"a")
    harness.evict()
    run(harness, 1000)
    assert harness.held_reads
    become(harness.node, Role.SLAVE)
    become(harness.node, Role.MASTER)
    run(harness)
    harness.read_device()
    assert run(harness) == [b"a"]
    assert run(harness, 1000) == [b"a"]


def test_with_too_many_reads_the_event_loop_reads(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cold_reads, "WAITING_MAX", 0)
    put(harness, b"a")
    harness.evict()
    assert run(harness, 1000) == [b"a"]
    assert not harness.held_reads
