"""One proposal at a time; a timeout decides nothing (KIP-497)."""

from tests.broker.group.dialogue import Dialogue, answer

from epochmq.broker.group.membership_effects import AGAIN_MS, Proposals, Question, SetCommitted
from epochmq.replication.replication_effects import SetProposal

FIRST = SetProposal(frozenset({1, 2}), 1, 3)
SECOND = SetProposal(frozenset({1}), 1, 3)


def test_an_answer_closes_it() -> None:
    proposals = Proposals()
    proposals.open_proposal(FIRST)
    assert proposals.due(0) is FIRST
    proposals.sent(7)
    assert proposals.due(0) is None
    assert proposals.answered(8) is None
    assert proposals.answered(7) is FIRST
    assert proposals.open is None


def test_it_is_asked_again_and_the_first_attempts_answer_still_counts() -> None:
    proposals = Proposals()
    proposals.open_proposal(FIRST)
    proposals.sent(7)
    proposals.again(7, 100)
    assert proposals.due(100 + AGAIN_MS - 1) is None
    assert proposals.due(100 + AGAIN_MS) is FIRST
    proposals.sent(8)
    assert proposals.answered(7) is FIRST


def test_another_proposal_takes_its_place() -> None:
    proposals = Proposals()
    assert proposals.open_proposal(FIRST) == []
    proposals.sent(7)
    assert proposals.open_proposal(SECOND) == [FIRST]
    assert proposals.answered(7) is None
    assert proposals.due(0) is SECOND


def test_only_a_newer_set_settles_it() -> None:
    proposals = Proposals()
    proposals.open_proposal(FIRST)
    proposals.set_committed(3)
    assert proposals.open is FIRST
    proposals.set_committed(4)
    assert proposals.open is None


def test_a_refusal_is_the_last_word_only_if_it_was_asked_once() -> None:
    """An attempt that seemed lost may still be carried out."""
    proposals = Proposals()
    proposals.open_proposal(FIRST)
    proposals.sent(7)
    assert proposals.asked_once
    proposals.again(7, 0)
    proposals.sent(8)
    assert not proposals.asked_once


def test_a_late_answer_to_an_attempt_given_up_still_counts() -> None:
    talk = Dialogue.of()
    talk.master()
    talk.take(talk.core.propose(SetProposal(frozenset({1, 2}), 1, 1), talk.now))
    first = talk.fail(Question.ALTER)
    talk.now += 100
    talk.tick()
    talk.take(talk.core.answered(first.tag, answer(0, newSyncStateSetEpoch=2), talk.now))
    assert talk.last(SetCommitted).set_epoch == 2
    talk.find("c:2", term=2)
    assert not talk.pending(Question.ALTER)
