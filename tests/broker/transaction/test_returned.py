"""A master that returns takes for ended what its stand-in ended, and nothing else (ADR 0063)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.broker.desk import Desk
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

from epochmq.broker.internal_writes.internal_writer import Done, Origin, Outcome
from epochmq.broker.offsets import ended_transactions as bound
from epochmq.broker.offsets.ended_transactions import ENDED_FIELD
from epochmq.broker.roles import Role
from epochmq.broker.transaction.half import GROUP
from epochmq.model.names import HALF_TOPIC, OP_HALF_TOPIC
from epochmq.store.draft import Draft
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command

SILENT_MS = 8_000
"""Then a stand-in hands a transaction over."""


class Elsewhere:
    """Another group, which holds all it is given."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.outcome = Outcome.STORED

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
        self.bodies += [bytes(draft.body) for draft in drafts]
        done([self.outcome] * len(drafts))


def sent(desk: Desk, count: int, *, immune: int = 0) -> list[Command]:
    """So many half messages; the first `immune` are left alone for a day."""
    waits = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "86400"}
    return [
        desk.client().ask(
            half(b"%d" % n, f"{KEY}{n}", properties=waits if n < immune else {})
        )
        for n in range(count)
    ]  # fmt: skip


def stand_in(desk: Desk) -> Elsewhere:
    """What was the master's log is its slave's, and that stands in."""
    away = Elsewhere()
    desk.node.take_role(Role.ACTING_MASTER)
    desk.node.ways_out.away = away
    tick(desk)
    return away


def handed_over(desk: Desk) -> dict[str, Any]:
    """The stand-in steps down; what it tells the master."""
    desk.node.transactions.hand_over(desk.clock.now, desk.clock.wall)
    desk.node.take_role(Role.SLAVE)
    tick(desk)
    return desk.node.offsets.content()


def takes(desk: Desk, content: dict[str, Any]) -> None:
    """A master comes back through its group."""
    desk.node.take_role(Role.PRE_ONLINE)
    tick(desk)
    desk.node.offsets.merge(content, desk.clock.wall)
    desk.node.take_role(Role.MASTER)
    tick(desk)


def master(desk: Desk) -> Desk:
    """The old one with the same log, and nothing of what happened since."""
    old = restarted(desk, keep_offsets=False)
    old.node.adopt_options(replace(old.options, enable_slave_acting_master=True))
    return old


def is_open(desk: Desk) -> int:
    return desk.node.transactions.statistics()["open"]


def progress(desk: Desk) -> int:
    return desk.node.offsets.get(GROUP, HALF_TOPIC, 0)


@pytest.fixture
def desk() -> Desk:
    return made()


def test_what_ended_out_of_order_is_over(desk: Desk) -> None:
    answers = sent(desk, 3, immune=1)
    away = stand_in(desk)
    assert desk.client().ask(end(answers[1])).code == ResponseCode.SUCCESS
    desk.client().put(end(answers[2], ROLLBACK, oneway=True))
    desk.turn()
    content = handed_over(desk)
    assert away.bodies == [b"1"]
    assert content["offsetTable"][f"{HALF_TOPIC}@{GROUP}"] == {0: 0}
    assert content[ENDED_FIELD].keys() == {1, 2}

    desk = master(desk)
    assert is_open(desk) == 3
    takes(desk, content)
    assert is_open(desk) == 1
    for answer in answers[1:]:
        refused = desk.client().ask(end(answer))
        assert "it is not known here how the transaction ends" in (refused.remark or "")
    assert desk.client().ask(end(answers[0])).code == ResponseCode.SUCCESS
    assert bodies(desk) == [b"0"]
    assert desk.node.offsets.ended.marks
    tick(desk, 3_000)
    tick(desk)
    assert progress(desk) == 3
    assert [op.body for op in desk.stored(OP_HALF_TOPIC)] == [b"0,"], "it names its own"
    assert desk.node.offsets.ended.marks == {}


def test_what_was_handed_over_is_over(desk: Desk) -> None:
    sent(desk, 3, immune=1)
    away = stand_in(desk)
    tick(desk, SILENT_MS)
    assert away.bodies == [b"1", b"2"]
    content = handed_over(desk)
    desk = master(desk)
    takes(desk, content)
    assert is_open(desk) == 1


def test_what_could_not_be_written_elsewhere_is_open(desk: Desk) -> None:
    answers = sent(desk, 2, immune=1)
    away = stand_in(desk)
    away.outcome = Outcome.LATER
    assert desk.client().ask(end(answers[1])).code == ResponseCode.SERVICE_NOT_AVAILABLE
    content = handed_over(desk)
    assert ENDED_FIELD not in content
    desk = master(desk)
    takes(desk, content)
    assert is_open(desk) == 2


def test_it_is_told_at_once_and_before_an_op_message_would_be_due(desk: Desk) -> None:
    """A stand-in that is killed has it in the table that is saved next."""
    answers = sent(desk, 2, immune=1)
    stand_in(desk)
    desk.client().ask(end(answers[1]))
    assert desk.node.offsets.content()[ENDED_FIELD].keys() == {1}
    assert desk.node.offsets.dirty


def test_a_stand_in_that_is_restarted_knows_it_too(desk: Desk) -> None:
    answers = sent(desk, 2, immune=1)
    stand_in(desk)
    desk.client().ask(end(answers[1]))
    desk = restarted(desk)
    away = stand_in(desk)
    assert is_open(desk) == 1
    tick(desk, SILENT_MS)
    assert away.bodies == []
    assert handed_over(desk)[ENDED_FIELD].keys() == {1}


def test_a_master_at_work_is_told_late(desk: Desk) -> None:
    """It skipped pre-online, and takes over while it serves (`pre_online/late`)."""
    answers = sent(desk, 3, immune=1)
    stand_in(desk)
    for answer in answers[1:]:
        desk.client().ask(end(answer))
    content = handed_over(desk)
    desk = master(desk)
    assert is_open(desk) == 3
    desk.client().ask(end(answers[2], ROLLBACK))
    desk.node.offsets.merge(content, desk.clock.wall)
    tick(desk)
    assert is_open(desk) == 1
    assert desk.node.transactions.statistics()["window"] == 1
    desk.node.offsets.merge(content, desk.clock.wall)
    tick(desk)
    assert is_open(desk) == 1


def test_a_copy_that_the_stand_in_never_saw_is_over_as_well(desk: Desk) -> None:
    """The old master wrote it, and died: it comes with the end of its log."""
    answers = sent(desk, 2)
    slave = restarted(desk)
    stand_in(slave)
    for answer in answers:
        slave.client().ask(end(answer))
    content = handed_over(slave)
    assert content["offsetTable"][f"{HALF_TOPIC}@{GROUP}"] == {0: 2}
    asked = producer(desk)
    tick(desk, 31_000)
    assert asked.session.take_outbox()
    assert len(desk.stored(HALF_TOPIC)) == 4
    takes(desk, content)
    assert is_open(desk) == 0
    assert progress(desk) == 4
    assert desk.node.offsets.ended.marks == {}


def test_another_transaction_at_the_same_place_is_not_over(desk: Desk) -> None:
    """A log that lost its end with the power, and was written on (H9)."""
    answers = sent(desk, 2, immune=1)
    stand_in(desk)
    desk.client().ask(end(answers[1]))
    content = handed_over(desk)
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
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bound, "ENDED_HALVES_MAX", 1)
    answers = sent(desk, 4, immune=1)
    away = stand_in(desk)
    client = desk.client()
    assert client.ask(end(answers[1])).code == ResponseCode.SUCCESS
    client.put(end(answers[2]))
    desk.turn()
    tick(desk, SILENT_MS)
    assert [answer.code for answer in client.take()] == [ResponseCode.SYSTEM_BUSY]
    assert away.bodies == [b"1"]
    assert is_open(desk) == 3
    assert desk.client().ask(end(answers[0])).code == ResponseCode.SUCCESS
    for _ in range(4):
        tick(desk, 1_000)
    assert away.bodies == [b"1", b"0", b"2", b"3"]
    assert len(handed_over(desk)[ENDED_FIELD]) == 1
    assert progress(desk) == 4


def test_several_that_are_under_way_count(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bound, "ENDED_HALVES_MAX", 1)
    answers = sent(desk, 3, immune=1)
    away = stand_in(desk)
    client = desk.client()
    client.put(end(answers[1]), end(answers[2]))
    desk.turn()
    assert away.bodies == [b"1"]
    assert desk.node.offsets.ended.marks.keys() == {1}


def test_a_half_message_that_is_gone_is_not_marked(desk: Desk) -> None:
    answers = sent(desk, 2, immune=1)
    away = stand_in(desk)
    put = away.put
    gone = desk.store

    def put_and_lose(drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
        gone.message_at = lambda offset, size=None: None  # type: ignore[method-assign]
        put(drafts, origin, wall, done)

    away.put = put_and_lose  # type: ignore[method-assign]
    assert desk.client().ask(end(answers[1])).code == ResponseCode.SUCCESS
    assert desk.node.offsets.ended.marks == {}


def test_a_master_marks_nothing(desk: Desk) -> None:
    answers = sent(desk, 2, immune=1)
    desk.client().ask(end(answers[1]))
    assert ENDED_FIELD not in desk.node.offsets.content()
