"""Counting votes: when it is decided, who has what, and who has to undo what."""

import pytest

from epochmq.base.safeguards import Safeguards
from epochmq.broker.group.lock_ballot import LockBallot, quorum_of
from epochmq.model.topic import MessageQueue

A, B, C = (MessageQueue("T", "b", queue) for queue in range(3))


@pytest.mark.parametrize(("replicas", "quorum"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_more_than_half(replicas: int, quorum: int) -> None:
    assert quorum_of(replicas) == quorum
    assert 2 * quorum > replicas
    assert quorum_of(replicas, Safeguards(lock_quorum=False)) == 1


def test_decided_as_soon_as_nothing_can_change() -> None:
    ballot = LockBallot([A, B], [1, 2], 2)
    assert not ballot.decided
    ballot.voted(1, [A], exact=True)
    assert not ballot.decided
    assert ballot.contested
    ballot.voted(2, [A, B], exact=True)
    assert ballot.decided
    assert (ballot.granted, ballot.lost) == ([A, B], [])
    assert ballot.votes_to_undo([1, 2]) == {}


def test_silence_is_no_vote_and_is_undone_all_the_same() -> None:
    ballot = LockBallot([A, B], [1, 2], 2)
    ballot.silent(1)
    ballot.voted(2, [], exact=True)
    assert ballot.decided
    assert ballot.granted == []
    assert ballot.votes_to_undo([1, 2]) == {1: [A, B]}


def test_one_that_is_not_waited_for_undoes_too() -> None:
    ballot = LockBallot([A], [1], 3)
    assert ballot.decided
    assert not ballot.contested
    assert ballot.votes_to_undo([1]) == {1: [A]}


def test_votes_for_nothing_asked_and_second_votes_count_nothing() -> None:
    ballot = LockBallot([A], [1, 2], 3)
    ballot.voted(1, [A, C], exact=True)
    ballot.voted(1, [A], exact=True)
    ballot.voted(9, [A], exact=True)
    ballot.silent(9)
    assert ballot.granted == []
    ballot.voted(2, [A], exact=False)
    assert ballot.granted == [A]


def test_undoing_a_vote_keeps_locks_that_were_held_before() -> None:
    ballot = LockBallot([A, B], [1, 2, 3], 4, renewed={A})
    ballot.voted(1, [A, B], exact=True)
    ballot.voted(2, [A, B], exact=False)
    ballot.silent(3)
    assert ballot.votes_to_undo([1, 2, 3]) == {1: [A, B], 2: [B], 3: [B]}


def test_nothing_to_vote_on() -> None:
    ballot = LockBallot([], [1], 2)
    assert ballot.decided
    assert ballot.votes_to_undo([1]) == {}


def test_without_an_own_vote_the_others_make_the_majority() -> None:
    ballot = LockBallot([], [1, 2], 2, (), [A, B])
    ballot.voted(1, [A, B], exact=True)
    assert not ballot.decided
    ballot.voted(2, [A], exact=True)
    assert (ballot.granted, ballot.lost) == ([A], [B])
    assert ballot.votes_to_undo([1, 2]) == {1: [B]}
