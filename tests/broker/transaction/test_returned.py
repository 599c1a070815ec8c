"""For a returning master exactly what the acting master ended is ended (ADR 0063)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.broker.become import become
from tests.broker.broker_harness import BrokerHarness
from tests.broker.transaction.around import (
    COMMIT,
    KEY,
    ROLLBACK,
    bodies,
    end,
    half,
    made,
    producer,
    restarted,
    tick,
)

from epochmq.broker.consume import ended_transactions as bound
from epochmq.broker.consume.ended_transactions import ENDED_FIELD
from epochmq.broker.internal_writes.internal_writer import Done, Origin, WriteOutcome
from epochmq.broker.serving.roles import Role
from epochmq.broker.transaction.half_messages import GROUP
from epochmq.model.names import HALF_TOPIC, OP_HALF_TOPIC
from epochmq.store.draft import Draft
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command

SILENT_MS = 8_000
"""Then an acting master hands a transaction over."""


class Elsewhere:
    """Another group, which holds all it is given."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.outcome = WriteOutcome.STORED

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
        self.bodies += [bytes(draft.body) for draft in drafts]
        done([self.outcome] * len(drafts))


def sent(harness: BrokerHarness, count: int, *, immune: int = 0) -> list[Command]:
    """So many half messages; the first `immune` are left alone for a day."""
    waits = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "86400"}
    return [
        harness.client().ask(
            half(b"%d" % n, f"{KEY}{n}", properties=waits if n < immune else {})
        )
        for n in range(count)
    ]  # fmt: skip


def stand_in(harness: BrokerHarness) -> Elsewhere:
    """What was the master's log is its slave's, and the slave acts as master."""
    away = Elsewhere()
    become(harness.node, Role.ACTING_MASTER)
    harness.node.ways_out.use(away)
    tick(harness)
    return away


def handed_over(harness: BrokerHarness) -> dict[str, Any]:
    """The acting master steps down; what it tells the master."""
    harness.node.transactions.hand_over(harness.clock.now, harness.clock.wall)
    become(harness.node, Role.SLAVE)
    tick(harness)
    return harness.node.offsets.content()


def takes(harness: BrokerHarness, content: dict[str, Any]) -> None:
    """A master comes back through its group."""
    become(harness.node, Role.PRE_ONLINE)
    tick(harness)
    harness.node.offsets.merge(content, harness.clock.wall)
    become(harness.node, Role.MASTER)
    tick(harness)


def master(harness: BrokerHarness) -> BrokerHarness:
    """The old one with the same log, and nothing of what happened since."""
    old = restarted(harness, keep_offsets=False)
    old.node.adopt_options(replace(old.options, enable_slave_acting_master=True))
    return old


def is_open(harness: BrokerHarness) -> int:
    return harness.node.transactions.statistics()["open"]


def progress(harness: BrokerHarness) -> int:
    return harness.node.offsets.get(GROUP, HALF_TOPIC, 0)


@pytest.fixture
def harness() -> BrokerHarness:
    return made()


def test_what_ended_out_of_order_is_over(harness: BrokerHarness) -> None:
    answers = sent(harness, 3, immune=1)
    away = stand_in(harness)
    assert harness.client().ask(end(answers[1])).code == ResponseCode.SUCCESS
    harness.client().put(end(answers[2], ROLLBACK, oneway=True))
    harness.turn()
    content = handed_over(harness)
    assert away.bodies == [b"1"]
    assert content["offsetTable"][f"{HALF_TOPIC}@{GROUP}"] == {0: 0}
    assert content[ENDED_FIELD].keys() == {1, 2}

    harness = master(harness)
    assert is_open(harness) == 3
    takes(harness, content)
    assert is_open(harness) == 1
    for answer in answers[1:]:
        refused = harness.client().ask(end(answer))
        assert "it is not known here how the transaction ends" in (refused.remark or "")
    assert harness.client().ask(end(answers[0])).code == ResponseCode.SUCCESS
    assert bodies(harness) == [b"0"]
    assert harness.node.offsets.ended.marks
    tick(harness, 3_000)
    tick(harness)
    assert progress(harness) == 3
    assert [op.body for op in harness.stored(OP_HALF_TOPIC)] == [b"0,"], "it names its own"
    assert harness.node.offsets.ended.marks == {}


def test_what_was_handed_over_is_over(harness: BrokerHarness) -> None:
    sent(harness, 3, immune=1)
    away = stand_in(harness)
    tick(harness, SILENT_MS)
    assert away.bodies == [b"1", b"2"]
    content = handed_over(harness)
    harness = master(harness)
    takes(harness, content)
    assert is_open(harness) == 1


def test_what_could_not_be_written_elsewhere_is_open(harness: BrokerHarness) -> None:
    answers = sent(harness, 2, immune=1)
    away = stand_in(harness)
    away.outcome = WriteOutcome.LATER
    assert harness.client().ask(end(answers[1])).code == ResponseCode.SERVICE_NOT_AVAILABLE
    content = handed_over(harness)
    assert ENDED_FIELD not in content
    harness = master(harness)
    takes(harness, content)
    assert is_open(harness) == 2


def test_it_is_told_at_once_and_before_an_op_message_would_be_due(harness: BrokerHarness) -> None:
    """An acting master that is killed has it in the table that is saved next."""
    answers = sent(harness, 2, immune=1)
    stand_in(harness)
    harness.client().ask(end(answers[1]))
    assert harness.node.offsets.content()[ENDED_FIELD].keys() == {1}
    assert harness.node.offsets.dirty


def test_a_stand_in_that_is_restarted_knows_it_too(harness: BrokerHarness) -> None:
    answers = sent(harness, 2, immune=1)
    stand_in(harness)
    harness.client().ask(end(answers[1]))
    harness = restarted(harness)
    away = stand_in(harness)
    assert is_open(harness) == 1
    tick(harness, SILENT_MS)
    assert away.bodies == []
    assert handed_over(harness)[ENDED_FIELD].keys() == {1}


def test_a_master_at_work_is_told_late(harness: BrokerHarness) -> None:
    """It skipped pre-online, and takes over while it serves (`pre_online/late`)."""
    answers = sent(harness, 3, immune=1)
    stand_in(harness)
    for answer in answers[1:]:
        harness.client().ask(end(answer))
    content = handed_over(harness)
    harness = master(harness)
    assert is_open(harness) == 3
    harness.client().ask(end(answers[2], ROLLBACK))
    harness.node.offsets.merge(content, harness.clock.wall)
    tick(harness)
    assert is_open(harness) == 1
    assert harness.node.transactions.statistics()["window"] == 1
    harness.node.offsets.merge(content, harness.clock.wall)
    tick(harness)
    assert is_open(harness) == 1


def test_a_copy_that_the_stand_in_never_saw_is_over_as_well(harness: BrokerHarness) -> None:
    """The old master wrote it, and died: it comes with the end of its log."""
    answers = sent(harness, 2)
    slave = restarted(harness)
    stand_in(slave)
    for answer in answers:
        slave.client().ask(end(answer))
    content = handed_over(slave)
    assert content["offsetTable"][f"{HALF_TOPIC}@{GROUP}"] == {0: 2}
    asked = producer(harness)
    tick(harness, 31_000)
    assert asked.session.pop_outbox()
    assert len(harness.stored(HALF_TOPIC)) == 4
    takes(harness, content)
    assert is_open(harness) == 0
    assert progress(harness) == 4
    assert harness.node.offsets.ended.marks == {}


def test_another_transaction_at_the_same_place_is_not_over(harness: BrokerHarness) -> None:
    """A log that lost its end with the power, and was written on (H9)."""
    answers = sent(harness, 2, immune=1)
    stand_in(harness)
    harness.client().ask(end(answers[1]))
    content = handed_over(harness)
    other = made()
    other.client().ask(half(b"0", f"{KEY}0"))
    mine = other.client().ask(half(b"other", f"{KEY}8"))
    takes(other, content)
    assert is_open(other) == 2
    other.node.offsets.merge(content, other.clock.wall)
    tick(other)
    assert is_open(other) == 2
    assert other.client().ask(end(mine, COMMIT)).code == ResponseCode.SUCCESS
    assert bodies(other) == [b"other"]


def test_when_no_more_can_be_remembered_they_end_in_order(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bound, "ENDED_HALVES_MAX", 1)
    answers = sent(harness, 4, immune=1)
    away = stand_in(harness)
    client = harness.client()
    assert client.ask(end(answers[1])).code == ResponseCode.SUCCESS
    client.put(end(answers[2]))
    harness.turn()
    tick(harness, SILENT_MS)
    assert [answer.code for answer in client.take()] == [ResponseCode.SYSTEM_BUSY]
    assert away.bodies == [b"1"]
    assert is_open(harness) == 3
    assert harness.client().ask(end(answers[0])).code == ResponseCode.SUCCESS
    for _ in range(4):
        tick(harness, 1_000)
    assert away.bodies == [b"1", b"0", b"2", b"3"]
    assert len(handed_over(harness)[ENDED_FIELD]) == 1
    assert progress(harness) == 4


def test_several_that_are_under_way_count(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bound, "ENDED_HALVES_MAX", 1)
    answers = sent(harness, 3, immune=1)
    away = stand_in(harness)
    client = harness.client()
    client.put(end(answers[1]), end(answers[2]))
    harness.turn()
    assert away.bodies == [b"1"]
    assert harness.node.offsets.ended.marks.keys() == {1}


def test_a_half_message_that_is_gone_is_not_marked(harness: BrokerHarness) -> None:
    answers = sent(harness, 2, immune=1)
    away = stand_in(harness)
    put = away.put
    gone = harness.store

    def put_and_lose(drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
        gone.message_at = lambda offset, size=None: None  # type: ignore[method-assign]
        put(drafts, origin, wall, done)

    away.put = put_and_lose  # type: ignore[method-assign]
    assert harness.client().ask(end(answers[1])).code == ResponseCode.SUCCESS
    assert harness.node.offsets.ended.marks == {}


def test_a_master_marks_nothing(harness: BrokerHarness) -> None:
    answers = sent(harness, 2, immune=1)
    harness.client().ask(end(answers[1]))
    assert ENDED_FIELD not in harness.node.offsets.content()
