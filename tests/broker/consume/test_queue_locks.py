"""Queue locks: one owner at a time, 60 s, by client id; votes that are undone and kept."""

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from epochmq.base import limits
from epochmq.broker.consume.queue_locks import LIFE_MS, Attempt, QueueLocks
from epochmq.model.topic import MessageQueue

A, B, C = (MessageQueue("T", "b", queue) for queue in range(3))


def test_first_come() -> None:
    locks = QueueLocks()
    assert locks.lock("g", [A, B], "one", 0) == [A, B]
    assert locks.lock("g", [B, C], "two", 10) == [C]
    assert locks.lock("h", [A], "two", 10) == [A]
    assert locks.owner("g", A, 10) == "one"
    assert locks.owner("g", C, 10) == "two"
    assert len(locks) == 4


def test_renewal_and_the_end_of_a_life() -> None:
    locks = QueueLocks()
    locks.lock("g", [A], "one", 0)
    assert locks.lock("g", [A], "two", LIFE_MS) == []
    locks.lock("g", [A], "one", 50_000)
    assert locks.lock("g", [A], "two", 50_000 + LIFE_MS) == []
    assert locks.lock("g", [A], "two", 50_001 + LIFE_MS) == [A]
    assert locks.owner("g", A, 50_001 + LIFE_MS) == "two"


def test_an_owner_that_comes_late_finds_its_lock() -> None:
    locks = QueueLocks()
    locks.lock("g", [A], "one", 0)
    assert locks.owner("g", A, 10 * LIFE_MS) is None
    assert locks.lock("g", [A], "one", 10 * LIFE_MS) == [A]


def test_unlock_by_the_owner_only() -> None:
    locks = QueueLocks()
    assert locks.unlock("g", [A], "one") == 0
    locks.lock("g", [A, B], "one", 0)
    assert locks.unlock("g", [A], "two") == 0
    assert locks.unlock("g", [A, C], "one") == 1
    assert locks.lock("g", [A], "two", 1) == [A]
    locks.unlock("g", [B], "one")
    locks.unlock("g", [A], "two")
    assert len(locks) == 0
    assert not locks.any_live("g", 1)


def test_a_client_that_leaves_releases_all_its_locks() -> None:
    locks = QueueLocks()
    locks.lock("g", [A, B], "one", 0)
    locks.lock("g", [C], "two", 0)
    locks.lock("h", [A], "one", 0)
    assert locks.leave("g", "one") == 2
    assert locks.lock("g", [A, B, C], "three", 1) == [A, B]
    assert locks.owner("h", A, 1) == "one"
    assert locks.leave("x", "one") == 0


def test_any_live() -> None:
    locks = QueueLocks()
    locks.lock("g", [A], "one", 0)
    assert locks.any_live("g", LIFE_MS)
    assert not locks.any_live("g", LIFE_MS + 1)
    assert not locks.any_live("h", 0)


def test_expire_forgets() -> None:
    locks = QueueLocks()
    locks.lock("g", [A], "one", 0)
    locks.lock("g", [B], "one", 100)
    locks.lock("h", [A], "one", 0)
    assert locks.expire(LIFE_MS + 50) == 2
    assert len(locks) == 1


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOCKS_PER_GROUP_MAX", 1)
    locks = QueueLocks()
    assert locks.lock("g", [A, B], "one", 0) == [A]


def test_locking_nothing_keeps_nothing() -> None:
    locks = QueueLocks()
    assert locks.lock("g", [], "one", 0) == []
    assert not locks._groups


def test_an_attempt_is_undone_and_nothing_else() -> None:
    locks = QueueLocks()
    first, second = Attempt("0", 1), Attempt("0", 2)
    locks.lock("g", [A], "one", 0, first)
    assert locks.lock("g", [A, B], "one", 10, second) == [A, B]
    locks.undo_locks("g", [A, B, C], "two", second)
    locks.undo_locks("g", [A, B], "one", first)
    assert len(locks) == 2
    locks.undo_locks("g", [A, B], "one", second)
    assert locks.owner("g", B, 10) is None
    assert locks.owner("g", A, LIFE_MS) == "one"
    assert locks.owner("g", A, LIFE_MS + 1) is None
    locks.undo_locks("h", [A], "one", second)


def test_an_undone_lock_that_had_run_out_before_is_free() -> None:
    locks = QueueLocks()
    locks.lock("g", [A], "one", 0, Attempt("0", 1))
    again = Attempt("0", 2)
    locks.lock("g", [A], "one", LIFE_MS + 1, again)
    locks.undo_locks("g", [A], "one", again)
    assert len(locks) == 0
    assert not locks._groups


def test_late_news_of_an_unlock_free_nothing_that_was_locked_since() -> None:
    locks = QueueLocks()
    locks.lock("g", [A], "one", 0, Attempt("0", 5))
    locks.lock("g", [A], "one", 0, Attempt("0", 3))  # overtaken on its way
    assert locks.unlock("g", [A], "one", Attempt("0", 4)) == 0
    assert locks.unlock("g", [A], "one", Attempt("1", 9)) == 0
    assert locks.unlock("g", [A], "one", Attempt("0", 6)) == 1
    locks.lock("g", [A, B], "one", 0)
    assert locks.unlock("g", [A], "one", Attempt("0", 1)) == 1
    assert locks.unlock("g", [B], "two", Attempt("0", 1)) == 0
    assert locks.unlock("h", [B], "one", Attempt("0", 1)) == 0


def test_a_lock_asked_through_two_brokers_is_held_by_both() -> None:
    """A client goes on at another broker; what it asked the first one for may come late."""
    locks = QueueLocks()
    locks.lock("g", [A], "one", 0, Attempt("0", 1))
    locks.dirty = False
    locks.lock("g", [A], "one", 20_000, Attempt("1", 1))
    assert locks.dirty
    locks.lock("g", [A], "one", 20_010, Attempt("0", 2))
    assert locks.unlock("g", [A], "one", Attempt("0", 3)) == 0
    assert locks.owner("g", A, 20_000 + LIFE_MS) == "one"
    assert locks.owner("g", A, 20_001 + LIFE_MS) is None
    locks.lock("g", [A], "one", 30_000, Attempt("0", 4))
    locks.undo_locks("g", [A], "one", Attempt("0", 4))
    assert locks.unlock("g", [A], "one", Attempt("1", 2)) == 1


def test_so_many_askers_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REPLICAS_MAX", 2)
    locks = QueueLocks()
    for number in range(2):
        assert locks.lock("g", [A], "one", number, Attempt(str(number), 1)) == [A]
    assert locks.lock("g", [A], "one", 2, Attempt("2", 1)) == []
    assert locks.lock("g", [A], "one", 3, Attempt("1", 2)) == [A]
    assert locks.lock("g", [A], "one", 1 + LIFE_MS, Attempt("2", 2)) == [A]


def test_votes_survive_a_restart_with_a_whole_life() -> None:
    locks = QueueLocks()
    locks.lock("g", [A], "one", 0, Attempt("0", 5))
    locks.lock("h", [B], "two", 0)
    kept = msgspec.json.decode(locks.encode())
    again = QueueLocks(start_ms=7_000)
    again.load(kept)
    assert not again.dirty
    assert again.lock("g", [A], "two", 7_000 + LIFE_MS) == []
    assert again.lock("h", [B], "two", 7_000) == [B]
    assert again.lock("g", [A], "two", 7_001 + LIFE_MS) == [A]
    with pytest.raises(msgspec.ValidationError):
        again.load({"locks": [{}]})


def test_no_attempt_frees_what_was_read_from_the_file_before_it_is_renewed() -> None:
    """The last question for it may have been a renewal, which is not in the file."""
    locks = QueueLocks()
    locks.lock("g", [A, B, C], "one", 0, Attempt("0", 5))
    again = QueueLocks()
    again.load(msgspec.json.decode(locks.encode()))
    again.undo_locks("g", [A], "one", Attempt("0", 5))
    assert again.unlock("g", [A], "one", Attempt("0", 6)) == 0
    assert again.owner("g", A, 0) == "one"
    again.lock("g", [A], "one", 0, Attempt("0", 7))
    assert again.unlock("g", [A], "one", Attempt("0", 6)) == 0
    assert again.unlock("g", [A], "one", Attempt("0", 8)) == 1
    assert again.unlock("g", [B], "one") == 1
    assert again.leave("g", "one") == 1
    row = {"group": "g", "topic": "T", "brokerName": "b", "queueId": 0, "clientId": "one"}
    again.load({"locks": [row]})  # as it was written before votes had askers
    assert again.owner("g", A, 0) == "one"


def test_following_the_other_voters_releases_the_own_vote() -> None:
    locks = QueueLocks()
    locks.lock("g", [A], "one", 0)
    locks.dirty = False
    locks.follow("g", [B], "two", 0, Attempt("0", 1))  # nobody's here
    locks.follow("h", [A], "two", 0, Attempt("0", 1))
    assert not locks.dirty
    locks.follow("g", [A], "two", 10, Attempt("0", 2))
    assert locks.dirty
    assert locks.owner("g", A, 10 + LIFE_MS) == "two"
    locks.follow("g", [A], "two", 20, Attempt("1", 1))
    locks.undo_locks("g", [A], "two", Attempt("1", 1))
    assert len(locks) == 1
    locks.undo_locks("g", [A], "two", Attempt("0", 2))
    assert len(locks) == 0


def test_another_holds() -> None:
    locks = QueueLocks()
    locks.lock("g", [A], "one", 0)
    assert locks.another_holds("g", A, "two", LIFE_MS)
    assert not locks.another_holds("g", A, "two", LIFE_MS + 1)
    assert not locks.another_holds("g", A, "one", 0)
    assert not locks.another_holds("g", B, "two", 0)


def test_only_a_new_owner_needs_saving() -> None:
    locks = QueueLocks()
    locks.lock("g", [A], "one", 0)
    assert locks.dirty
    locks.dirty = False
    locks.lock("g", [A], "one", 10)
    locks.lock("g", [A], "two", 10)
    assert not locks.dirty
    locks.lock("g", [A], "two", 11 + LIFE_MS)
    assert locks.dirty


class Model(RuleBasedStateMachine):
    """At most one client believes that it holds a queue (INV-31, one broker)."""

    queues = st.lists(st.sampled_from([A, B, C]), unique=True)
    clients = st.sampled_from(["one", "two", "three"])

    def __init__(self) -> None:
        super().__init__()
        self.locks = QueueLocks()
        self.now = 0
        self.held: dict[MessageQueue, tuple[str, int]] = {}

    @rule(queues=queues, client=clients)
    def lock(self, queues: list[MessageQueue], client: str) -> None:
        granted = self.locks.lock("g", queues, client, self.now)
        for queue in queues:
            owner, until = self.held.get(queue, (client, self.now))
            free = owner == client or until < self.now
            assert (queue in granted) is free
            if free:
                self.held[queue] = (client, self.now + LIFE_MS)

    @rule(queues=queues, client=clients)
    def unlock(self, queues: list[MessageQueue], client: str) -> None:
        self.locks.unlock("g", queues, client)
        for queue in queues:
            if self.held.get(queue, ("", 0))[0] == client:
                del self.held[queue]

    @rule(step=st.sampled_from([1, 30_000, LIFE_MS]))
    def wait(self, step: int) -> None:
        self.now += step

    @rule()
    def expire(self) -> None:
        self.locks.expire(self.now)
        self.held = {q: lock for q, lock in self.held.items() if lock[1] >= self.now}

    @invariant()
    def same_owners(self) -> None:
        for queue in (A, B, C):
            owner, until = self.held.get(queue, (None, self.now))
            expected = owner if until >= self.now else None
            assert self.locks.owner("g", queue, self.now) == expected


TestModel = Model.TestCase
