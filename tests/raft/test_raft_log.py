"""The log in memory, against a list."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from epochmq.base.errors import OurBug
from epochmq.raft.raft_log import RaftLog
from epochmq.raft.raft_messages import EntryKind, LogEntry, Snapshot, VotersAndLearners

MEMBERS = VotersAndLearners(("n0",))


def entry(index: int, term: int = 1, data: bytes = b"") -> LogEntry:
    return LogEntry(term, index, EntryKind.DATA, data)


def log_of(*terms: int, snapshot: int = 0, commit: int = 0) -> RaftLog:
    entries = [entry(snapshot + 1 + i, term) for i, term in enumerate(terms)]
    return RaftLog(Snapshot(snapshot, 1 if snapshot else 0, MEMBERS), entries, commit)


def test_ends() -> None:
    assert (log_of().last_index, log_of().last_term) == (0, 0)
    log = log_of(2, 3, snapshot=10)
    assert (log.last_index, log.last_term) == (12, 3)
    assert [log.term_at(i) for i in (9, 10, 11, 12, 13)] == [None, 1, 2, 3, None]


def test_fresh_means_term_first_then_length() -> None:
    log = log_of(1, 2)
    assert log.is_fresh(2, 2)
    assert log.is_fresh(1, 3)
    assert not log.is_fresh(9, 1)
    assert not log.is_fresh(1, 2)


def test_what_is_here_already_stays() -> None:
    log = log_of(1, 1, 1)
    assert log.merge(0, 0, [entry(1), entry(2)]) == ()
    assert log.last_index == 3
    assert log.merge(1, 1, [entry(2), entry(3, 2), entry(4, 2)]) == (entry(3, 2), entry(4, 2))
    assert [log.term_at(i) for i in (2, 3, 4)] == [1, 2, 2]


def test_a_committed_entry_is_never_cut() -> None:
    """dledger#316."""
    log = log_of(1, 1, commit=2)
    with pytest.raises(OurBug, match="INV-03"):
        log.merge(1, 1, [entry(2, 2)])
    with pytest.raises(OurBug, match="INV-05"):
        log.commit_to(3)


def test_agreement_skips_whole_terms() -> None:
    log = log_of(1, 1, 3, 3, 3)
    assert log.agreement(5, 2) == (2, 1)
    assert log.agreement(9, 3) == (5, 3)
    assert log.agreement(4, 0) == (0, 0)
    assert log_of(2, snapshot=10).agreement(5, 9) == (5, 0)


def test_after_is_bounded_but_gives_at_least_one() -> None:
    log = RaftLog(Snapshot(0, 0, MEMBERS), [entry(i, data=bytes(100)) for i in range(1, 9)])
    assert len(log.after(0, 1, 100)) == 1
    assert len(log.after(0, 250, 100)) == 2
    assert len(log.after(3, 1 << 20, 2)) == 2
    assert log.after(8, 1, 1) == ()


def test_stable_only_what_was_written_and_not_replaced_since() -> None:
    """Entries that were cut and came again the same are not stable by the first write."""
    log = log_of()
    log.append([entry(1), entry(2)])
    assert log.pop_unwritten() == (entry(1), entry(2))
    log.append([entry(2, 2)])
    log.append([entry(2)])
    assert log.pop_unwritten() == (entry(2),)
    log.written()
    assert log.stable == 1
    log.written()
    assert log.stable == 2


def test_applied_only_what_is_committed_and_stable() -> None:
    log = log_of()
    log.append([entry(1), entry(2), entry(3)])
    log.commit_to(3)
    assert log.pop_committed(10) == ()
    log.pop_unwritten()
    log.written()
    assert log.pop_committed(2) == (entry(1), entry(2))
    assert log.pop_committed(2) == (entry(3),)
    assert log.applied == 3


def test_restore_and_compact() -> None:
    log = log_of(1, 1, 1, commit=3)
    log.pop_committed(2)
    with pytest.raises(OurBug, match="INV-04"):
        log.compact(3, MEMBERS, b"")
    log.compact(2, MEMBERS, b"s")
    assert (log.snapshot.index, log.last_index) == (2, 3)
    assert log.pop_committed(5) == (entry(3),)
    with pytest.raises(OurBug, match="INV-05"):
        log.restore(Snapshot(3, 1, MEMBERS))
    log.restore(Snapshot(9, 4, MEMBERS))
    assert (log.last_index, log.last_term, log.commit, log.applied) == (9, 4, 9, 9)
    assert not log.has_unwritten


class AgainstAList(RuleBasedStateMachine):
    """Appends, cuts and compactions in any order give what a plain list gives."""

    def __init__(self) -> None:
        super().__init__()
        self.log = log_of()
        self.model: list[int] = [0]
        """Index -> term."""
        self.writes: deque[list[int]] = deque()
        """Of each write under way: what the model was."""
        self.device: list[int] = [0]

    @rule(term=st.integers(1, 3), count=st.integers(1, 4), back=st.integers(0, 5))
    def merge(self, term: int, count: int, back: int) -> None:
        prev = max(self.log.commit, len(self.model) - 1 - back)
        self.log.merge(prev, self.model[prev], [entry(prev + 1 + i, term) for i in range(count)])
        for i in range(count):
            index = prev + 1 + i
            if index < len(self.model) and self.model[index] == term:
                continue
            self.model[index:] = [term] * (count - i)
            break

    @precondition(lambda self: self.log.has_unwritten)
    @rule()
    def write(self) -> None:
        entries = self.log.pop_unwritten()
        before = self.writes[-1] if self.writes else self.device
        self.writes.append(before[: entries[0].index] + [e.term for e in entries])

    @precondition(lambda self: self.writes)
    @rule()
    def written(self) -> None:
        self.log.written()
        self.device = self.writes.popleft()

    @rule(index=st.integers(0, 20))
    def commit(self, index: int) -> None:
        self.log.commit_to(min(index, self.log.last_index))
        self.log.pop_committed(3)

    @precondition(lambda self: self.log.applied > self.log.snapshot.index)
    @rule()
    def compact(self) -> None:
        self.log.compact(self.log.applied, MEMBERS, b"")

    @invariant()
    def agrees(self) -> None:
        log = self.log
        assert log.last_index == len(self.model) - 1
        for index in range(log.snapshot.index, len(self.model)):
            assert log.term_at(index) == self.model[index]
        assert log.applied <= log.stable <= log.last_index
        assert log.applied <= log.commit
        assert self.device[: log.stable + 1] == self.model[: log.stable + 1]


TestAgainstAList = AgainstAList.TestCase


@given(st.lists(st.integers(1, 5)), st.integers(0, 12), st.integers(0, 6))
def test_agreement_against_a_slow_search(terms: list[int], index: int, term: int) -> None:
    terms.sort()
    log = log_of(*terms)
    slow = [i for i in range(1, min(index, len(terms)) + 1) if terms[i - 1] <= term]
    assert log.agreement(index, term)[0] == (slow[-1] if slow else 0)
