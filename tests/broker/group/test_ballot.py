"""One request at the broker that counts: what is asked, won, undone and tried again."""

from epochmq.broker.consume.queue_locks import Attempt, QueueLocks
from epochmq.broker.group.lock_ballot import AGAIN_WITHIN_MS, LockRequest
from epochmq.model.topic import MessageQueue

A, B, C = (MessageQueue("T", "b", queue) for queue in range(3))
FIRST, SECOND = Attempt("0", 1), Attempt("0", 2)


def asking(locks: QueueLocks, now: int = 0) -> LockRequest:
    return LockRequest(locks, "g", "one", [A, B, C], 2, now)


def test_what_is_asked_won_and_undone() -> None:
    locks = QueueLocks()
    locks.lock("g", [C], "two", 0)
    run = asking(locks)
    assert run.begin([1, 2], FIRST, 0) == [A, B, C]
    assert locks.dirty
    run.ballot.voted(1, [A], exact=True)
    run.ballot.silent(2)
    assert run.ballot.decided
    assert run.end(0) == {2: [B, C]}
    assert run.granted == [A]
    assert (locks.owner("g", A, 0), locks.owner("g", B, 0)) == ("one", None)


def test_a_second_ballot_is_for_what_the_first_did_not_bring() -> None:
    locks = QueueLocks()
    run = asking(locks, 1_000)
    run.begin([1], FIRST, 1_000)
    run.ballot.voted(1, [A], exact=True)
    run.end(0)
    late = 1_000 + AGAIN_WITHIN_MS
    assert run.tries_again(late)
    assert not run.tries_again(late + 1)
    assert run.begin([1], SECOND, late) == [B, C]
    run.ballot.voted(1, [B], exact=True)
    run.end(0)
    assert run.granted == [A, B]
    assert not run.tries_again(late)


def test_no_second_ballot_where_nobody_voted_for_another() -> None:
    run = asking(QueueLocks())
    run.begin([1], FIRST, 0)
    run.ballot.silent(1)
    assert run.end(0) == {1: [A, B, C]}
    assert not run.tries_again(0)
    assert run.granted == []


def test_a_renewal_that_fails_ends_nothing() -> None:
    locks = QueueLocks()
    locks.lock("g", [A], "one", 0, FIRST)
    run = LockRequest(locks, "g", "one", [A], 2, 10_000)
    run.begin([1], SECOND, 10_000)
    run.ballot.silent(1)
    assert run.end(0) == {}  # not of a member that might undo too much
    assert locks.owner("g", A, locks.life_ms) == "one"
    assert locks.owner("g", A, locks.life_ms + 1) is None


def test_the_others_are_a_majority_without_a_vote_that_nobody_claims_any_more() -> None:
    locks = QueueLocks()
    locks.lock("g", [A, B], "two", 0)
    locks.dirty = False
    run = LockRequest(locks, "g", "one", [A, B], 2, 10)
    assert run.begin([1, 2], FIRST, 10) == [A, B]
    assert not locks.dirty
    for member in (1, 2):
        run.ballot.voted(member, [A], exact=True)
    assert run.end(20) == {}
    assert run.granted == [A]
    assert (locks.owner("g", A, 20), locks.owner("g", B, 20)) == ("one", "two")
    assert locks.owner("g", A, 20 + locks.life_ms) == "one"
    assert locks.dirty


def test_with_too_few_others_an_own_vote_for_somebody_else_decides() -> None:
    locks = QueueLocks()
    locks.lock("g", [A], "two", 0)
    run = LockRequest(locks, "g", "one", [A], 2, 0)
    assert run.begin([1], FIRST, 0) == []
    assert run.ballot.decided
    assert run.end(0) == {}
    assert run.granted == []
