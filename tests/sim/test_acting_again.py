"""What is explained when a piece of a longer timed wait comes again (INV-27)."""

from typing import Any

import pytest
from sim.acting.acting_again import Again
from sim.acting.acting_clients import Queue
from sim.acting.acting_world import ActingHistory
from sim.kernel.plan import Plan
from sim.kernel.violation import Violation
from sim.kernel.workload import TOPICS

from epochmq.broker.internal_writes.internal_writer import Origin, WriteOutcome
from epochmq.broker.pop.pop_records import CheckPoint, check_point_draft
from epochmq.broker.serving.roles import Role
from epochmq.client.core.pop_state import PopHandle
from epochmq.model.names import TIMER_TOPIC
from epochmq.model.property_names import FIRST_POP_TIME
from epochmq.store.draft import Draft


class Member:
    """A broker that nothing runs on; two of them are never equal."""

    def __init__(self, history: ActingHistory, name: str, role: Role) -> None:
        self.host = history.world.hosts[name]
        self.group = history.group_of(name)
        self.role = role


class Stage:
    """Message 0 waits in group `a`; `a1` acts and hands pieces of the wait to `b0`."""

    def __init__(self) -> None:
        self.history = ActingHistory(Plan("acting", 0))
        self.again = Again(self.history)
        self.history.book.call("timer", Queue("a", TOPICS[0], 0))
        self.giver = self.member("a1", Role.ACTING_MASTER)
        self.taker = self.member("b0", Role.MASTER)

    def member(self, name: str, role: Role) -> Any:
        return Member(self.history, name, role)

    def puts(self, broker: Any, piece: int) -> object:
        batch = object()
        self.again.puts(broker, [draft_of(piece)], Origin.TIMER, batch)
        return batch

    def answered(self, batch: object) -> None:
        self.again.put([WriteOutcome.STORED], batch)

    def arrives(self, piece: int) -> None:
        self.again.arrives(self.taker, [draft_of(piece)])

    def restarts(self) -> None:
        """The taker is another process."""
        self.taker = self.member("b0", Role.MASTER)

    def rolls(self, piece: int) -> None:
        """The taker's wait for a piece is over."""
        batch = self.puts(self.taker, piece)
        self.arrives(piece)
        self.answered(batch)


def draft_of(piece: int) -> Draft:
    text = f"TIMER_ROLL_TIMES\x01{piece}".encode()
    return Draft(topic=TIMER_TOPIC, queue_id=0, body=b"0:", properties=text)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_piece_whose_taker_died_before_it_answered_is_two_messages(stage: Stage) -> None:
    batch = stage.puts(stage.giver, 1)
    stage.arrives(1)
    stage.restarts()
    stage.arrives(1)
    stage.answered(batch)
    stage.rolls(2)
    stage.rolls(2)
    with pytest.raises(Violation, match="a piece of message 0 is handed on again"):
        stage.rolls(2)


def test_a_piece_that_came_once_is_one_message(stage: Stage) -> None:
    batch = stage.puts(stage.giver, 1)
    stage.arrives(1)
    stage.answered(batch)
    stage.rolls(2)
    with pytest.raises(Violation, match="a piece of message 0 is handed on again"):
        stage.rolls(2)


def test_a_piece_that_was_held_is_not_two_messages(stage: Stage) -> None:
    batch = stage.puts(stage.giver, 1)
    stage.arrives(1)
    stage.answered(batch)
    stage.restarts()
    stage.arrives(1)
    stage.rolls(2)
    with pytest.raises(Violation, match="a piece of message 0 is handed on again"):
        stage.rolls(2)


def test_a_master_that_lives_stores_a_piece_once(stage: Stage) -> None:
    stage.puts(stage.giver, 1)
    stage.arrives(1)
    with pytest.raises(Violation, match="a piece of message 0 is handed over again, and stored"):
        stage.arrives(1)


def popped_by(stage: Stage, *names: str) -> PopHandle:
    """Message 1 is popped by these brokers in one millisecond; a client hears of the first pop and
    acknowledges in time. The last broker has it come back."""
    queue = Queue("b", TOPICS[0], 0)
    number = stage.history.book.call("plain", queue).number
    pop = CheckPoint(queue.topic, "g", 0, 3, 1000, 300, [0], broker_name="b")
    for name in names:
        member = stage.member(name, Role.MASTER)
        stage.again.puts(member, [check_point_draft(pop, "REVIVE", 0, 1000)], Origin.POP, object())
    handle = PopHandle(3, 1000, 300, 0, "0", "b", 0, 3)
    stage.again.popped(number, handle, names[0], 0)
    stage.again.acked_pop(number, handle, 0)
    back = Draft(
        topic="%RETRY%g+T",
        queue_id=0,
        body=f"{number}:".encode(),
        properties=f"{FIRST_POP_TIME}\x011000".encode(),
    )
    batch = object()
    stage.again.puts(stage.member(names[-1], Role.MASTER), [back], Origin.REVIVE, batch)
    stage.again.put([WriteOutcome.STORED], batch)
    again = PopHandle(0, 2000, 300, 0, "2", "b", 0, 0)
    stage.again.popped(number, again, names[-1], 0)
    return again


def test_a_message_that_was_acknowledged_is_not_popped_again(stage: Stage) -> None:
    with pytest.raises(Violation, match="is popped again"):
        popped_by(stage, "b1")


def test_a_pop_in_the_same_millisecond_at_another_broker_was_not_acknowledged(stage: Stage) -> None:
    popped_by(stage, "b1", "b0")
