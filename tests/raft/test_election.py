"""Ballots, election timeouts, and refusal of votes while a leader is heard."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.raft.cluster import FixedRng

from epochmq.base.safeguards import SAFE
from epochmq.raft.election import Ballot, ElectionTimer, reached_by_quorum
from epochmq.raft.options import RaftOptions
from epochmq.raft.raft_messages import VotersAndLearners

FIVE = VotersAndLearners(("n0", "n1", "n2", "n3", "n4"), ("x",))


def test_a_majority_wins_or_loses() -> None:
    ballot = Ballot(FIVE)
    for voter in ("n0", "n1"):
        ballot.record(voter, True)
    assert not ballot.won
    ballot.record("x", True)
    ballot.record("stranger", True)
    assert not ballot.won, "learners and strangers have no vote"
    ballot.record("n2", True)
    assert ballot.won
    ballot = Ballot(FIVE)
    for voter in ("n0", "n1", "n2"):
        assert not ballot.lost
        ballot.record(voter, False)
    assert ballot.lost


def test_the_first_word_stands() -> None:
    ballot = Ballot(VotersAndLearners(("n0",)))
    ballot.record("n0", False)
    ballot.record("n0", True)
    assert not ballot.won


def test_a_drawn_timeout_is_between_one_and_two_election_timeouts() -> None:
    options = RaftOptions()
    for share, wanted in ((0, 1000), (999, 1999)):
        timer = ElectionTimer(options, FixedRng(share), 0, restarted=False)
        assert timer.deadline == wanted


def test_loyalty() -> None:
    timer = ElectionTimer(RaftOptions(), FixedRng(0), 0, restarted=False)
    assert not timer.is_loyal(0, SAFE)
    timer.heard_leader(500)
    assert timer.is_loyal(1499, SAFE)
    assert not timer.is_loyal(1500, SAFE)
    assert not timer.is_loyal(1499, replace(SAFE, check_quorum=False))
    restarted = ElectionTimer(RaftOptions(), FixedRng(0), 100, restarted=True)
    assert restarted.is_loyal(1099, SAFE)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=7))
def test_reached_by_quorum_against_counting(values: list[int]) -> None:
    members = VotersAndLearners(tuple(f"n{i}" for i in range(len(values))))
    slow = max(v for v in range(10) if sum(x >= v for x in values) >= members.quorum)
    assert reached_by_quorum(members, values) == slow
