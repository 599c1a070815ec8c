"""Transactions that an acting master ended while older ones are open (ADR 0063)."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from epochmq.base.limits import ENDED_HALVES_MAX
from epochmq.broker.consume.consumer_offsets import TRANSACTIONS, ConsumerOffsets
from epochmq.broker.consume.ended_transactions import (
    ENDED_FIELD,
    EndedMark,
    EndedTransactions,
    marks_in,
)
from epochmq.model.names import HALF_TOPIC

ROW = f"{HALF_TOPIC}@{TRANSACTIONS}"
A, B, C = EndedMark(5, "a"), EndedMark(7, "b"), EndedMark(9, "c")


def sent(offsets: ConsumerOffsets, *rows: str) -> dict[str, Any]:
    """The whole table as another broker reads it, or these rows."""
    some = {row: offsets.table[row] for row in rows} if rows else None
    content = msgspec.json.decode(msgspec.json.encode(offsets.content(some)))
    assert isinstance(content, dict)
    return content


def at(progress: int, **marks: EndedMark) -> ConsumerOffsets:
    """A broker; `m5=` is the mark of the transaction that begins at 5."""
    offsets = ConsumerOffsets()
    offsets.commit(TRANSACTIONS, HALF_TOPIC, 0, progress)
    for name, mark in marks.items():
        offsets.note_ended(int(name[1:]), mark)
    return offsets


def test_they_are_in_the_file_and_in_the_answer_to_replicas() -> None:
    offsets = at(3, m5=A)
    assert json.loads(offsets.encode())[ENDED_FIELD] == {"5": [5, "a"]}
    again = ConsumerOffsets()
    again.load(json.loads(offsets.encode()))
    assert again.ended.marks == {5: A}
    assert ENDED_FIELD not in at(3).content(), "brokers that know nothing of them are told nothing"


def test_ended_transactions_are_sent_with_changed_offsets() -> None:
    offsets = at(3)
    offsets.commit("g", "T", 0, 1)
    before = offsets.changes.count
    offsets.note_ended(5, A)
    assert offsets.changes.since(before).rows == [ROW]
    assert offsets.content({ROW: {0: 3}})[ENDED_FIELD] == {5: A}
    assert ENDED_FIELD not in offsets.content({"T@g": {0: 1}})
    assert offsets.dirty


def test_they_may_come_before_any_progress() -> None:
    offsets = ConsumerOffsets()
    offsets.note_ended(5, A)
    assert not offsets.changes.since(0).is_delta, "the whole table is to be copied"
    assert offsets.content()[ENDED_FIELD] == {5: A}


def test_a_returning_master_knows_what_either_knows() -> None:
    master, one, other = at(3, m9=C), at(4, m5=A), at(3, m7=B)
    for member in (one, other, one):
        master.merge(sent(member), 0)
    assert master.ended.marks == {5: A, 7: B, 9: C}
    assert master.get(TRANSACTIONS, HALF_TOPIC, 0) == 4
    assert master.ended.came == 3


def test_a_member_that_knows_of_none_takes_none_away() -> None:
    master = at(3, m5=A)
    master.merge(sent(at(9)), 0)
    assert master.ended.marks == {5: A}


def test_an_ordinary_slave_has_what_its_master_has() -> None:
    slave = at(3, m5=A)
    slave.adopt(sent(at(3, m7=B)), whole=True)
    assert slave.ended.marks == {7: B}
    master = at(3)
    master.commit("g", "T", 0, 1)
    slave.adopt(sent(master, "T@g"), whole=False)
    assert slave.ended.marks == {7: B}, "this says nothing of transactions"
    slave.adopt(sent(master, ROW), whole=False)
    assert slave.ended.marks == {}


def test_an_empty_table_takes_nothing_away() -> None:
    slave = at(3, m5=A)
    slave.adopt({"offsetTable": {}}, whole=True)
    assert slave.ended.marks == {5: A}


def test_a_former_acting_master_forgets_none_that_the_master_lacks() -> None:
    """It is in debt until the master was told, or came past them by itself (RocketMQ's)."""
    slave = at(3)
    slave.keep_own()
    slave.note_ended(5, A)
    slave.note_ended(7, B)
    slave.adopt(sent(at(3)), whole=True)
    assert slave.ended.marks == {5: A, 7: B}
    assert slave.ahead is not None
    slave.adopt(sent(at(6, m7=B)), whole=True)
    assert slave.ended.marks == {7: B}
    assert slave.ahead is None


def test_a_master_without_transactions_has_come_past_none() -> None:
    slave = at(0, m5=A)
    slave.keep_own()
    master = ConsumerOffsets()
    master.commit("g", "T", 0, 1)
    slave.adopt(sent(master), whole=True)
    assert slave.ended.marks == {5: A}
    assert slave.ahead is not None


def test_what_a_restarted_stand_in_had_ended_keeps_it_in_debt() -> None:
    slave = ConsumerOffsets()
    slave.load(sent(at(3, m5=A)))
    slave.keep_own()
    master = at(3)
    master.commit("g", "T", 0, 1)
    slave.adopt(sent(master, "T@g"), whole=False)
    assert slave.ahead is not None, "that says nothing of transactions"
    slave.adopt(sent(master), whole=True)
    assert slave.ended.marks == {5: A}
    assert slave.ahead is not None


def test_they_are_forgotten_at_once_by_all() -> None:
    master = at(3, m5=A)
    slave = at(3)
    slave.adopt(sent(master), whole=True)
    before = master.changes.count
    master.forget_ended()
    changed = master.changes.since(before)
    assert changed.is_delta
    slave.adopt(sent(master, *changed.rows), whole=False)
    assert slave.ended.marks == master.ended.marks == {}


def test_there_is_room_while_some_may_go() -> None:
    ended = EndedTransactions()
    for n in range(ENDED_HALVES_MAX):
        ended.add(n, EndedMark(n, ""))
    assert not ended.has_room(0, 0)
    assert ended.has_room(2, 0)
    assert len(ended.marks) == ENDED_HALVES_MAX - 2
    assert ended.has_room(2, 1)
    assert not ended.has_room(2, 2)
    assert next(iter(ended.marks)) == 2


def test_of_too_many_the_newest_are_taken() -> None:
    ended = EndedTransactions()
    ended.merge({n: EndedMark(-n, "") for n in range(ENDED_HALVES_MAX + 2)})
    assert len(ended.marks) == ENDED_HALVES_MAX
    assert ended.marks.keys() == {*range(ENDED_HALVES_MAX)}


@pytest.mark.parametrize("what", [[1], {"a": [1, "x"]}, {"1": ["x", 1]}, {"1": 5}, {"1": [1]}])
def test_what_are_no_marks_is_refused_and_changes_nothing(what: object) -> None:
    offsets = at(3, m5=A)
    told = {"offsetTable": {ROW: {"0": 9}}, ENDED_FIELD: what}
    with pytest.raises(msgspec.ValidationError):
        offsets.merge(told, 0)
    with pytest.raises(msgspec.ValidationError):
        offsets.adopt(told, whole=True)
    assert (offsets.get(TRANSACTIONS, HALF_TOPIC, 0), offsets.ended.marks) == (3, {5: A})
    assert marks_in({}) == {}


HALVES = 8


class Group(RuleBasedStateMachine):
    """A master, and its slave as acting master, restart and tell each other at any time.

    The model is what really ended: by itself, or at one of them and saved there. `knows` is all
    that a broker has: the progress, and the marks.
    """

    @initialize()
    def begin(self) -> None:
        self.ended: set[int] = set()
        self.master, self.slave = at(0), at(0)
        self.disks = {"master": sent(self.master), "slave": sent(self.slave)}
        self.acts = False

    def knows(self, broker: ConsumerOffsets) -> set[int]:
        progress = broker.get(TRANSACTIONS, HALF_TOPIC, 0)
        return {*range(max(progress, 0)), *broker.ended.marks}

    def save(self, name: str) -> None:
        self.disks[name] = sent(getattr(self, name))

    @rule(half=st.integers(0, HALVES - 1))
    def the_stand_in_ends_one(self, half: int) -> None:
        if not self.acts:
            self.acts = True
            self.slave.keep_own()
        self.ended.add(half)
        self.slave.note_ended(half, EndedMark(half, str(half)))
        self.keep(self.slave)
        self.save("slave")

    @rule()
    def the_stand_in_is_restarted(self) -> None:
        self.slave = ConsumerOffsets()
        self.slave.load(self.disks["slave"])
        self.slave.keep_own()

    @rule()
    def the_master_dies(self) -> None:
        self.master = ConsumerOffsets()
        self.master.load(self.disks["master"])

    @rule(dies=st.booleans())
    def the_master_returns(self, dies: bool) -> None:
        """And dies before it is online, or takes everything, twice; then its slave copies it."""
        self.acts = False
        self.master.merge(sent(self.slave), 0)
        if dies:
            self.the_master_dies()
            return
        self.master.merge(sent(self.slave), 0)
        assert self.ended <= self.knows(self.master), "delivered again"
        self.keep(self.master)
        self.save("master")

    @rule(whole=st.booleans())
    def the_slave_copies(self, whole: bool) -> None:
        if not self.acts:
            rows = () if whole else (ROW,)
            self.slave.adopt(sent(self.master, *rows), whole=whole)
            self.save("slave")

    @rule(half=st.integers(0, HALVES - 1))
    def the_master_ends_one(self, half: int) -> None:
        """All up to this one; an op message says so."""
        if not self.acts:
            self.ended.update(range(half + 1))
            self.keep(self.master)
            self.save("master")

    @rule()
    def the_master_is_past_all(self) -> None:
        if not self.acts and len(self.ended) == HALVES:
            self.keep(self.master)
            self.master.forget_ended()
            self.save("master")

    def keep(self, broker: ConsumerOffsets) -> None:
        """As the harness does: up to the first that is open, as far as it is known here."""
        known, progress = self.knows(broker), 0
        own = self.ended if broker is self.master else known
        while progress in own:
            progress += 1
        before = broker.get(TRANSACTIONS, HALF_TOPIC, 0)
        broker.commit(TRANSACTIONS, HALF_TOPIC, 0, max(before, progress))

    @invariant()
    def what_is_open_is_nowhere_taken_for_ended(self) -> None:
        for broker in (self.master, self.slave):
            assert self.knows(broker) <= self.ended
            assert all(mark.name == str(half) for half, mark in broker.ended.marks.items())

    @invariant()
    def what_ended_is_known_to_one_of_them_whoever_dies(self) -> None:
        disks = [ConsumerOffsets(), ConsumerOffsets()]
        for broker, content in zip(disks, self.disks.values(), strict=True):
            broker.load(content)
        assert self.ended <= self.knows(disks[0]) | self.knows(disks[1])


TestGroup = Group.TestCase
TestGroup.settings = settings(
    stateful_step_count=30, suppress_health_check=[HealthCheck.filter_too_much]
)
