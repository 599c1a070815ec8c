"""The core by itself, and the mistakes that others made."""

from dataclasses import replace

import pytest
from tests.raft.cluster import Cluster, FixedRng

from epochmq.base import limits
from epochmq.base.errors import OurBug, PeerError, StoreDamaged, UsageError
from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.raft.joining import Configured
from epochmq.raft.membership import ChangeKind, reborn
from epochmq.raft.options import RaftOptions
from epochmq.raft.outbox import RaftRole, Ready, SavedState
from epochmq.raft.raft_core import RaftCore, check_append
from epochmq.raft.raft_messages import (
    AnyMessage,
    AppendEntries,
    AppendReply,
    EntryKind,
    HardState,
    Heartbeat,
    HeartbeatReply,
    Install,
    Join,
    LogEntry,
    Snapshot,
    TimeoutNow,
    Vote,
    VoteReply,
    VotersAndLearners,
    Welcome,
    encode_members,
)

THREE = VotersAndLearners(("n0", "n1", "n2"))


def core_of(
    *terms: int,
    term: int = 1,
    members: VotersAndLearners = THREE,
    safe: Safeguards = SAFE,
    commit: int = 0,
) -> RaftCore:
    """n0 with entries of these terms, long after it started."""
    entries = tuple(LogEntry(t, i, EntryKind.DATA) for i, t in enumerate(terms, 1))
    saved = SavedState(HardState(term, None, commit), Snapshot(0, 0, members), entries)
    return RaftCore("n0", saved, RaftOptions(), FixedRng(0), -5000, safe)


def settle(core: RaftCore) -> list[AnyMessage]:
    """Take and acknowledge all batches; the messages in them."""
    messages: list[AnyMessage] = []
    while core.has_ready():
        ready = core.ready()
        messages += ready.messages
        if ready.must_sync:
            core.advance(ready)
    return messages


def lead(core: RaftCore, now: int = 0) -> list[AnyMessage]:
    """Let n0 win by n1's votes; what it says then."""
    core.tick(now)
    settle(core)
    core.step(VoteReply("n1", "n0", core.term + 1, True, pre=True), now)
    settle(core)
    core.step(VoteReply("n1", "n0", core.term, True), now)
    assert core.role is RaftRole.LEADER
    return settle(core)


def test_a_message_for_somebody_else_is_an_error() -> None:
    core = core_of()
    for message in (TimeoutNow("n1", "n2", 1), TimeoutNow("n0", "n0", 1)):
        with pytest.raises(PeerError):
            core.step(message, 0)


@pytest.mark.parametrize(
    "entries",
    [
        (LogEntry(1, 2, EntryKind.DATA),),
        (LogEntry(3, 1, EntryKind.DATA),),
        (LogEntry(2, 1, EntryKind.DATA), LogEntry(1, 2, EntryKind.DATA)),
        (LogEntry(1, 1, EntryKind.CHANGE, b"\xc1"),),
    ],
)
def test_entries_that_cannot_follow_each_other(entries: tuple[LogEntry, ...]) -> None:
    with pytest.raises(PeerError):
        check_append(AppendEntries("n1", "n0", 2, 0, 0, 0, entries))


def test_a_vote_goes_to_one_candidate_a_term() -> None:
    core = core_of(1)
    core.step(Vote("n1", "n0", 2, 1, 1), 0)
    core.step(Vote("n2", "n0", 2, 9, 1), 0)
    core.step(Vote("n1", "n0", 2, 1, 1), 0)
    granted = [m.granted for m in settle(core) if isinstance(m, VoteReply)]
    assert granted == [True, False, True]


def test_votes_go_to_fresh_logs_only() -> None:
    core = core_of(1, 2)
    core.step(Vote("n1", "n0", 3, 9, 1), 0)
    core.step(Vote("n2", "n0", 3, 1, 2), 0)
    assert not any(m.granted for m in settle(core) if isinstance(m, VoteReply))
    off = core_of(1, 2, safe=replace(SAFE, log_freshness_check=False))
    off.step(Vote("n1", "n0", 3, 9, 1), 0)
    assert off.vote == "n1"


def test_a_pre_vote_promises_nothing() -> None:
    core = core_of(1)
    core.step(Vote("n1", "n0", 7, 1, 1, pre=True), 0)
    core.step(Vote("n2", "n0", 7, 1, 1, pre=True), 0)
    replies = settle(core)
    assert replies == [VoteReply("n0", to, 7, True, True) for to in ("n1", "n2")]
    assert (core.term, core.vote) == (1, None)


def test_a_pre_vote_for_the_present_term_is_refused_with_it() -> None:
    core = core_of(term=5)
    core.step(Vote("n1", "n0", 5, 9, 9, pre=True), 0)
    core.step(Vote("n1", "n0", 4, 9, 9, pre=True), 0)
    assert settle(core) == [VoteReply("n0", "n1", 5, False, True)] * 2


def test_a_refusal_from_a_later_term_is_believed() -> None:
    core = core_of()
    core.tick(0)
    core.step(VoteReply("n1", "n0", 9, False, pre=True), 0)
    assert (core.term, core.role) == (9, RaftRole.FOLLOWER)


def test_answers_of_another_election_count_for_nothing() -> None:
    core = core_of()
    core.tick(0)
    core.step(VoteReply("n1", "n0", 1, True), 0)
    core.step(VoteReply("n1", "n0", 9, True, pre=True), 0)
    assert core.role is RaftRole.PRE_CANDIDATE
    core.step(VoteReply("n1", "n0", 2, True, pre=True), 0)
    core.step(VoteReply("n1", "n0", 2, True, pre=True), 0)
    assert core.role is RaftRole.CANDIDATE, "pre-votes are not votes"


def test_a_lost_election_waits_for_the_next_timeout() -> None:
    core = core_of()
    core.tick(0)
    core.step(VoteReply("n1", "n0", 1, False, pre=True), 0)
    core.step(VoteReply("n2", "n0", 1, False, pre=True), 0)
    assert core.role is RaftRole.FOLLOWER
    assert core.next_deadline() == 1000


def test_an_own_vote_counts_when_it_is_on_the_device() -> None:
    core = core_of(members=VotersAndLearners(("n0",)))
    core.tick(0)
    ready = core.ready()
    assert core.role is RaftRole.CANDIDATE
    assert ready.must_sync
    core.advance(ready)
    assert core.role is RaftRole.LEADER


def test_without_pre_vote_it_stands_at_once() -> None:
    core = core_of(safe=replace(SAFE, pre_vote=False))
    core.tick(0)
    assert (core.role, core.term) == (RaftRole.CANDIDATE, 2)


def test_only_own_terms_entries_are_committed_by_counting() -> None:
    """Raft 5.4.2."""
    core = core_of(1)
    lead(core)
    core.step(AppendReply("n1", "n0", 2, 1), 0)
    assert core.log.commit == 0
    core.step(AppendReply("n1", "n0", 2, 2), 0)
    assert core.log.commit == 2
    off = core_of(1, safe=replace(SAFE, commit_only_own_term=False))
    lead(off)
    off.step(AppendReply("n1", "n0", 2, 1), 0)
    assert off.log.commit == 1


def test_an_ack_beyond_the_end_commits_nothing_that_is_not_there() -> None:
    """rocketmq#3015, for Raft."""
    core = core_of(1)
    lead(core)
    core.step(AppendReply("n1", "n0", 2, 1 << 40), 0)
    assert core.log.commit == core.log.last_index == 2


def test_a_leader_ignores_elections_and_old_terms() -> None:
    core = core_of()
    lead(core)
    core.step(Vote("n2", "n0", 9, 9, 9), 1)
    core.step(Vote("n2", "n0", 9, 9, 9, pre=True), 1)
    core.step(HeartbeatReply("n2", "n0", 1, 1, 1), 1)
    assert (core.role, settle(core)) == (RaftRole.LEADER, [])


def test_a_follower_ignores_replies_to_leaders() -> None:
    core = core_of()
    core.step(AppendReply("n1", "n0", 1, 5), 0)
    core.step(HeartbeatReply("n1", "n0", 1, 5, 5), 0)
    assert settle(core) == []


def test_two_leaders_of_one_term_stop_the_node() -> None:
    core = core_of()
    core.step(Heartbeat("n1", "n0", 2, 0, 1, 1), 0)
    with pytest.raises(OurBug, match="INV-01"):
        core.step(Heartbeat("n2", "n0", 2, 0, 1, 1), 0)
    leader = core_of()
    lead(leader)
    with pytest.raises(OurBug, match="INV-01"):
        leader.step(Heartbeat("n2", "n0", leader.term, 0, 1, 1), 0)


def test_an_append_below_the_commit_index_is_answered_with_it() -> None:
    core = core_of(1, 1, 1, commit=3)
    core.step(AppendEntries("n1", "n0", 1, 1, 1, 3, (LogEntry(1, 2, EntryKind.DATA),)), 0)
    assert settle(core) == [AppendReply("n0", "n1", 1, 3)]


@pytest.mark.parametrize(
    "append",
    [
        AppendEntries(
            "n1", "n0", 5, 1, 1, 3, (LogEntry(1, 2, EntryKind.DATA), LogEntry(4, 3, EntryKind.DATA))
        ),
        AppendEntries("n1", "n0", 5, 2, 4, 3),
        AppendEntries(
            "n1", "n0", 5, 0, 0, 0, (LogEntry(1, 1, EntryKind.DATA), LogEntry(2, 2, EntryKind.DATA))
        ),
    ],
)
def test_a_leader_that_disagrees_with_what_is_committed_stops_the_node(
    append: AppendEntries,
) -> None:
    core = core_of(1, 1, 1, 1, commit=3)
    with pytest.raises(OurBug, match=r"INV-03 entry [23] is committed on n0 as one of term 1"):
        core.step(append, 0)
    assert settle(core)[-1:] != [AppendReply("n0", "n1", 5, 3)]


def test_a_snapshot_that_disagrees_with_what_is_committed_stops_the_node() -> None:
    core = core_of(1, 1, 1, commit=2)
    with pytest.raises(OurBug, match="INV-03 entry 1 is committed on n0"):
        core.step(Install("n1", "n0", 9, Snapshot(1, 9, THREE, b"s")), 0)


def test_terms_are_bounded() -> None:
    """Whoever could raise the term to the highest number would end all elections."""
    core = core_of(1)
    for term in (limits.RAFT_TERM_MAX + 1, (1 << 63) - 1, limits.RAFT_TERM_STEP_MAX + 2):
        for message in (
            Vote("n1", "n0", term, 9, 1, transfer=True),
            Vote("n1", "n0", term, 9, 1, pre=True),
            Heartbeat("n1", "n0", term, 0, 1, 1),
            AppendReply("n1", "n0", term, 0, True),
        ):
            with pytest.raises(PeerError, match="at a node in term 1"):
                core.step(message, 0)
    with pytest.raises(PeerError, match="Raft snapshot of term 9 in term 1"):
        core.step(Install("n1", "n0", 1, Snapshot(7, 9, THREE, b"s")), 0)
    assert core.term == 1
    core.step(Heartbeat("n1", "n0", limits.RAFT_TERM_STEP_MAX, 0, 1, 1), 0)
    assert core.term == limits.RAFT_TERM_STEP_MAX


def test_what_lies_beyond_the_commit_index_may_disagree() -> None:
    core = core_of(1, 1, 1, 1, commit=2)
    entries = (LogEntry(1, 2, EntryKind.DATA), LogEntry(4, 3, EntryKind.DATA))
    core.step(AppendEntries("n1", "n0", 5, 1, 1, 3, entries), 0)
    assert settle(core) == [AppendReply("n0", "n1", 5, 2)]


def test_a_snapshot_of_what_is_here_only_commits() -> None:
    core = core_of(1, 1, 1)
    core.step(Install("n1", "n0", 1, Snapshot(2, 1, THREE, b"s")), 0)
    assert (core.log.commit, core.log.last_index) == (2, 3)
    core.step(Install("n1", "n0", 1, Snapshot(1, 1, THREE, b"s")), 0)
    assert core.log.commit == 2
    settle(core)
    core.compact(2, b"own")
    core.step(Install("n1", "n0", 1, Snapshot(1, 1, THREE, b"s")), 0)
    assert core.log.snapshot.index == 2, "an older one is of no use"


def test_the_commit_index_stays_within_what_was_compared() -> None:
    """dledger#316: behind the append may lie entries that no leader knows."""
    core = core_of(1, 1, 1)
    core.step(AppendEntries("n1", "n0", 2, 1, 1, 3), 0)
    assert (core.log.commit, core.log.last_index) == (1, 3)


def test_a_snapshot_replaces_a_longer_log_that_disagrees() -> None:
    core = core_of(1, 1, 1)
    core.step(Install("n1", "n0", 3, Snapshot(2, 2, THREE, b"s")), 0)
    assert (core.log.commit, core.log.last_index, core.log.last_term) == (2, 2, 2)
    assert core.ready().snapshot == Snapshot(2, 2, THREE, b"s")


def test_timeout_now_is_for_voters_that_follow() -> None:
    learner = core_of(members=VotersAndLearners(("n1",), ("n0",)))
    learner.step(TimeoutNow("n1", "n0", 1), 0)
    assert learner.role is RaftRole.FOLLOWER
    leader = core_of()
    lead(leader)
    leader.step(TimeoutNow("n1", "n0", leader.term), 0)
    assert leader.role is RaftRole.LEADER


def test_a_learner_never_campaigns() -> None:
    core = core_of(members=VotersAndLearners(("n1",), ("n0",)))
    core.tick(0)
    assert (core.role, settle(core), core.next_deadline()) == (RaftRole.FOLLOWER, [], 1000)


def test_proposals_need_a_leader_that_stays() -> None:
    core = core_of()
    assert core.propose(b"x") is None
    assert core.propose_change(ChangeKind.REMOVE, "n2") is None
    with pytest.raises(UsageError):
        core.propose(bytes(limits.RAFT_ENTRY_BYTES_MAX + 1))
    lead(core)
    assert core.propose(b"x") == 2
    assert core.transfer_to("n1")
    assert core.propose(b"x") is None
    assert core.propose_change(ChangeKind.REMOVE, "n2") is None


def test_reads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RAFT_PENDING_READS_MAX", 2)
    core = core_of()
    lead(core)
    for number in range(3):
        core.read_index(b"%d" % number, 0)
    states = core.ready().read_states
    assert [(s.context, s.index) for s in states] == [(b"2", None)]


def test_without_the_barrier_reads_are_answered_at_once() -> None:
    core = core_of(safe=replace(SAFE, read_index_barrier=False))
    lead(core)
    core.read_index(b"a", 0)
    assert [s.index for s in core.ready().read_states] == [0]


def test_a_batch_is_taken_while_the_last_is_written() -> None:
    core = core_of()
    lead(core)
    core.propose(b"a")
    first = core.ready()
    core.propose(b"b")
    second = core.ready()
    assert [[e.index for e in r.entries] for r in (first, second)] == [[2], [3]]
    core.advance(first)
    assert core.log.stable == 2
    core.advance(second)
    assert core.log.stable == 3
    assert not core.has_ready()


def test_what_follows_from_a_changed_term_must_be_synced() -> None:
    core = core_of()
    core.step(Heartbeat("n1", "n0", 4, 0, 1, 1), 0)
    ready = core.ready()
    assert isinstance(ready, Ready)
    assert ready.must_sync
    assert ready.hard_state == HardState(4, None, 0)
    core.step(Heartbeat("n1", "n0", 4, 0, 2, 2), 0)
    assert not core.ready().must_sync


def test_statistics() -> None:
    core = core_of(1)
    assert core.statistics()["followers"] == {}
    lead(core)
    assert core.statistics()["role"] == "leader"
    assert core.statistics()["followers"] == {"n1": 0, "n2": 0}


# What others got wrong ----------------------------------------------------------------------------


def test_a_node_that_lags_cannot_win_and_cut_the_others() -> None:
    """dledger#52: the end's term was taken from the present term, not from the last entry."""
    cluster = Cluster("n0", "n1", "n2")
    cluster.elect("n0")
    cluster.isolate("n2")
    cluster.propose("n0", b"a")
    cluster.settle()
    cluster.crash("n0")
    cluster.heal()
    for _ in range(20):
        cluster.now += 5000
        cluster.tick("n2")
        cluster.settle()
    assert not cluster.nodes["n2"].is_leader
    cluster.run(10_000)
    assert cluster.leader is cluster.nodes["n1"]
    assert cluster.machines["n2"] == [b"a"]


def test_terms_stand_still_behind_a_one_way_cut() -> None:
    """dledger#7, 25, 37, 58."""
    cluster = Cluster("n0", "n1", "n2")
    cluster.elect("n0")
    cluster.cuts = {("n0", "n2"), ("n1", "n2")}
    cluster.run(60_000)
    assert {node.term for node in cluster.nodes.values()} == {1}
    cluster.heal()
    cluster.run(3000)
    assert cluster.leader is cluster.nodes["n0"]


def test_without_pre_vote_terms_climb_behind_a_cut() -> None:
    cluster = Cluster("n0", "n1", "n2", safe=replace(SAFE, pre_vote=False))
    cluster.elect("n0")
    cluster.isolate("n2")
    cluster.run(60_000)
    assert cluster.nodes["n2"].term > 20


def test_a_leader_whose_disk_hangs_can_be_followed_but_commits_by_the_others() -> None:
    """dledger#287: a slow disk of the leader alone stops nobody's commit, only its own apply."""
    cluster = Cluster("n0", "n1", "n2")
    cluster.elect("n0")
    cluster.autosync = False
    cluster.propose("n0", b"a")
    cluster.settle()
    for name in ("n1", "n2"):
        cluster.sync(name)
    cluster.settle()
    assert cluster.nodes["n0"].core.log.commit == 2
    assert cluster.machines["n0"] == []


def test_an_isolated_follower_catches_up_after_ten_minutes() -> None:
    """dledger#325, 331."""
    cluster = Cluster("n0", "n1", "n2")
    cluster.elect("n0")
    cluster.isolate("n2")
    for number in range(50):
        cluster.propose("n0", b"%d" % number)
    cluster.run(600_000)
    cluster.compact("n0")
    cluster.heal()
    cluster.run(1000)
    assert len(cluster.machines["n2"]) == 50


# What the dialogues play in clusters, once more for the core alone --------------------------------


def test_a_lease_is_a_leaders() -> None:
    core = core_of()
    assert core.lease_until_ms == 0
    lead(core)
    core.step(AppendReply("n1", "n0", core.term, 1), 0)
    at = core.next_deadline()
    core.tick(at)
    for beat in settle(core):
        if isinstance(beat, Heartbeat):
            reply = HeartbeatReply(beat.to, "n0", core.term, beat.round, beat.sent_at_ms)
            core.step(reply, at + 1)
    assert core.lease_until_ms > at


def test_time_before_the_deadline_changes_nothing() -> None:
    core = core_of()
    core.step(Heartbeat("n1", "n0", 1, 0, 1, 1), 0)
    settle(core)
    core.tick(1)
    assert not core.has_ready()


def test_a_leader_beats_until_it_is_deserted() -> None:
    core = core_of()
    lead(core)
    at = core.next_deadline()
    core.tick(at)
    assert {m.to for m in settle(core) if isinstance(m, Heartbeat)} == {"n1", "n2"}
    core.read_index(b"r", at)
    core.tick(at + 60_000)
    assert core.role is RaftRole.FOLLOWER
    assert [s.index for s in core.ready().read_states] == [None], "a read fails with its leader"


def test_reads_of_a_follower_fail() -> None:
    core = core_of()
    core.read_index(b"r", 0)
    assert [s.index for s in core.ready().read_states] == [None]


def test_a_read_is_answered_when_a_majority_was_heard() -> None:
    core = core_of()
    lead(core)
    core.step(AppendReply("n1", "n0", core.term, 1), 0)
    settle(core)
    core.read_index(b"r", 0)
    (beat, *_) = [m for m in core.ready().messages if isinstance(m, Heartbeat)]
    core.step(HeartbeatReply("n1", "n0", core.term, beat.round, beat.sent_at_ms), 0)
    assert [s.index for s in core.ready().read_states] == [1]


def test_one_change_of_members_at_a_time() -> None:
    core = core_of()
    lead(core)
    with pytest.raises(UsageError, match="cannot change yet"):
        core.propose_change(ChangeKind.REMOVE, "n0")
    core.step(AppendReply("n1", "n0", core.term, 1), 0)
    assert core.propose_change(ChangeKind.REMOVE, "n0") == 2
    assert core.members.voters == ("n1", "n2")
    settle(core)
    for node in ("n1", "n2"):
        core.step(AppendReply(node, "n0", core.term, 2), 0)
    assert core.role is RaftRole.FOLLOWER, "who is not a member leads no longer"


def test_a_member_may_campaign_until_its_removal_is_committed() -> None:
    removal = LogEntry(1, 1, EntryKind.CHANGE, encode_members(VotersAndLearners(("n1", "n2"))))
    for commit, role in ((0, RaftRole.PRE_CANDIDATE), (1, RaftRole.FOLLOWER)):
        saved = SavedState(HardState(1, None, commit), Snapshot(0, 0, THREE), (removal,))
        core = RaftCore("n0", saved, RaftOptions(), FixedRng(0), -5000, SAFE)
        core.tick(0)
        assert core.role is role


def test_leadership_goes_to_voters_only() -> None:
    core = core_of()
    assert not core.transfer_to("n1")
    lead(core)
    assert not core.transfer_to("n0")
    assert not core.transfer_to("n9")


def test_timeout_now_makes_a_candidate_at_once() -> None:
    core = core_of()
    core.step(TimeoutNow("n1", "n0", 1), 0)
    votes = [m for m in settle(core) if isinstance(m, Vote)]
    assert (core.role, core.term) == (RaftRole.CANDIDATE, 2)
    assert all(vote.transfer and not vote.pre for vote in votes)


def test_a_deposed_leader_is_told_so() -> None:
    core = core_of(term=5)
    core.step(Heartbeat("n1", "n0", 4, 0, 1, 1), 0)
    core.step(TimeoutNow("n1", "n0", 4), 0)
    assert settle(core) == [AppendReply("n0", "n1", 5, 0, True)]


def test_a_vote_for_oneself_of_an_earlier_term_is_none() -> None:
    core = core_of(safe=replace(SAFE, pre_vote=False))
    core.tick(0)
    late = core.ready()
    core.tick(core.next_deadline())
    core.advance(late)
    core.step(VoteReply("n1", "n0", core.term, True), 0)
    assert core.role is RaftRole.CANDIDATE, "its own vote of this term is not on the device yet"


def test_one_vote_a_term_has_a_switch() -> None:
    core = core_of(1, safe=replace(SAFE, one_vote_a_term=False))
    core.step(Vote("n1", "n0", 2, 1, 1), 0)
    core.step(Vote("n2", "n0", 2, 1, 1), 0)
    assert [m.granted for m in settle(core) if isinstance(m, VoteReply)] == [True, True]


def test_compacting_keeps_the_members() -> None:
    core = core_of(1, 1, commit=2)
    settle(core)
    snapshot = core.compact(2, b"state")
    assert (snapshot.index, snapshot.members, core.saved().snapshot) == (2, THREE, snapshot)


def test_a_snapshot_has_the_members_as_of_its_index() -> None:
    """A change behind the index may never be committed, and a snapshot is never cut."""
    core = core_of()
    lead(core)
    core.step(AppendReply("n1", "n0", core.term, 1), 0)
    settle(core)
    core.propose_change(ChangeKind.REMOVE, "n2")
    settle(core)
    assert core.members == VotersAndLearners(("n0", "n1"))
    assert core.compact(1, b"state").members == THREE
    core.step(Heartbeat("n1", "n0", core.term + 1, 0, 1, 1), 0)
    entry = LogEntry(core.term, 2, EntryKind.DATA)
    core.step(AppendEntries("n1", "n0", core.term, 1, core.term - 1, 1, (entry,)), 0)
    assert core.members == THREE, "the change was cut"
    assert core.saved().snapshot.members == THREE


def test_an_append_that_does_not_fit_is_refused_with_a_hint() -> None:
    core = core_of(1)
    core.step(AppendEntries("n1", "n0", 2, 5, 2, 0), 0)
    (reply,) = settle(core)
    assert isinstance(reply, AppendReply)
    assert reply.refused


def test_a_journal_that_lost_data_stops_the_node() -> None:
    core = core_of(1)
    with pytest.raises(StoreDamaged, match="its journal lost data"):
        core.step(Heartbeat("n1", "n0", 1, 7, 1, 1), 0)


def test_what_was_written_after_the_lead_was_lost_commits_nothing() -> None:
    core = core_of()
    lead(core)
    core.propose(b"x")
    ready = core.ready()
    core.step(Heartbeat("n1", "n0", core.term + 1, 0, 1, 1), 0)
    core.advance(ready)
    assert core.role is RaftRole.FOLLOWER
    assert core.log.commit == 0


# The node without a vote ----------------------------------------------------------------------


def empty_core() -> RaftCore:
    saved = SavedState(HardState(), Snapshot(0, 0, VotersAndLearners(())), (), "b", confirmed=False)
    return RaftCore("n1", saved, RaftOptions(), FixedRng(0), 0, configured=Configured(THREE.voters))


def test_it_neither_votes_nor_stands() -> None:
    core = empty_core()
    core.step(Vote("n2", "n1", 5, 9, 4, pre=True), 0)
    core.step(Vote("n2", "n1", 5, 9, 4), 0)
    core.step(Vote("n2", "n1", 6, 9, 4, transfer=True), 0)
    answers = [message for message in settle(core) if isinstance(message, VoteReply)]
    assert [answer.granted for answer in answers] == [False, False, False]
    entry = LogEntry(6, 1, EntryKind.CHANGE, encode_members(THREE))
    core.step(AppendEntries("n0", "n1", 6, 0, 0, 1, (entry,)), 0)
    settle(core)
    assert core.members == THREE
    core.step(TimeoutNow("n0", "n1", 6), 0)
    core.tick(60_000)
    assert core.role is RaftRole.FOLLOWER
    assert not [message for message in settle(core) if isinstance(message, Vote)]


def test_it_commits_nothing_by_a_heartbeat() -> None:
    """The leader may mean the disk that is gone, and these entries come from another leader."""
    core = empty_core()
    core.step(AppendEntries("n2", "n1", 5, 0, 0, 0, (LogEntry(5, 1, EntryKind.DATA, b"old"),)), 0)
    core.step(Heartbeat("n0", "n1", 6, 1, 1, 1), 0)
    core.step(Heartbeat("n0", "n1", 6, 9, 2, 1), 0)
    answers = [message for message in settle(core) if isinstance(message, HeartbeatReply)]
    assert core.log.commit == 0
    assert [answer.incarnation for answer in answers] == ["b", "b"]


def test_it_is_confirmed_by_what_is_committed_only() -> None:
    core = empty_core()
    again = reborn(THREE, "n1", "b")
    entry = LogEntry(5, 1, EntryKind.CHANGE, encode_members(again))
    core.step(AppendEntries("n0", "n1", 5, 0, 0, 0, (entry,)), 0)
    assert not core.confirmation.given
    core.step(AppendEntries("n0", "n1", 5, 1, 5, 1), 0)
    assert core.confirmation.given
    assert core.saved().confirmed
    other = empty_core()
    older = encode_members(reborn(THREE, "n1", "another disk"))
    core_entry = LogEntry(5, 1, EntryKind.CHANGE, older)
    other.step(AppendEntries("n0", "n1", 5, 0, 0, 1, (core_entry,)), 0)
    assert other.log.commit == 1
    assert not other.confirmation.given
    by_snapshot = empty_core()
    by_snapshot.step(Install("n0", "n1", 5, Snapshot(7, 4, again)), 0)
    assert by_snapshot.confirmation.given


def test_a_welcome_is_for_this_disk_only() -> None:
    core = empty_core()
    core.step(
        Welcome("n0", "n1", 0, VotersAndLearners(THREE.voters, incarnations=(("n1", "x"),))), 0
    )
    assert not core.confirmation.given
    core.step(
        Welcome("n0", "n1", 0, VotersAndLearners(THREE.voters, incarnations=(("n1", "b"),))), 0
    )
    assert core.confirmation.given
    core.step(Welcome("n0", "n1", 0, VotersAndLearners(("n1",), incarnations=(("n1", "b"),))), 0)
    assert core.members.voters == THREE.voters, "once is enough"


# The leader -----------------------------------------------------------------------------------


def leader_core() -> RaftCore:
    """n0 leads n1 and n2 in term 2, its no-op is committed."""
    saved = SavedState(HardState(1), Snapshot(0, 0, THREE))
    core = RaftCore("n0", saved, RaftOptions(), FixedRng(0), -5000)
    core.tick(0)
    settle(core)
    core.step(VoteReply("n2", "n0", 2, True, pre=True), 0)
    settle(core)
    core.step(VoteReply("n2", "n0", 2, True), 0)
    settle(core)
    core.step(AppendReply("n2", "n0", 2, 1), 0)
    settle(core)
    assert core.log.commit == 1
    return core


def test_what_another_disk_has_is_not_counted() -> None:
    core = leader_core()
    index = core.propose(b"x")
    assert index == 2
    settle(core)
    core.step(AppendReply("n1", "n0", 2, 2, incarnation="b"), 0)
    settle(core)
    assert core.log.commit == 1, "n1's new disk is not known"
    core.step(HeartbeatReply("n2", "n0", 2, 1, 0), 0)
    core.step(AppendReply("n2", "n0", 2, 2), 0)
    core.step(HeartbeatReply("n1", "n0", 2, 1, 0, "b"), 0)
    settle(core)
    assert core.members == VotersAndLearners(("n0", "n2"), ("n1",), (("n1", "b"),), ("n1",))
    core.step(AppendReply("n1", "n0", 2, 3), 0)
    assert core.leader is not None
    assert core.leader.matches()["n1"] == 0, "that was said by the disk that is gone"


def test_late_answers_of_an_older_disk_change_nothing() -> None:
    core = leader_core()
    core.step(HeartbeatReply("n1", "n0", 2, 1, 0, "c"), 0)
    settle(core)
    core.step(AppendReply("n2", "n0", 2, 2), 0)
    settle(core)
    assert core.members.incarnation_of("n1") == "c"
    core.step(HeartbeatReply("n1", "n0", 2, 1, 0, "b"), 0)
    core.step(HeartbeatReply("n1", "n0", 2, 1, 0), 0)
    settle(core)
    assert core.members.incarnation_of("n1") == "c"
    core.tick(200)
    core.step(HeartbeatReply("n2", "n0", 2, 2, 200), 200)
    core.step(HeartbeatReply("n1", "n0", 2, 2, 200, "d"), 200)
    assert core.members.incarnation_of("n1") == "d", "a still newer disk answered the newest beat"


def test_only_a_member_is_taken_back_and_only_when_members_may_change() -> None:
    core = leader_core()
    core.step(HeartbeatReply("n9", "n0", 2, 1, 0, "b"), 0)
    core.propose_change(ChangeKind.ADD_LEARNER, "n3")
    core.step(HeartbeatReply("n1", "n0", 2, 1, 0, "b"), 0)
    assert core.members == VotersAndLearners(THREE.voters, ("n3",)), "one change at a time"


def test_it_tells_the_others_of_its_empty_disk() -> None:
    core = empty_core()
    assert core.next_deadline() == 0
    core.tick(0)
    assert [type(message) for message in settle(core)] == [Join, Join]
    assert core.next_deadline() == 1000
    assert not core.knows_members_at(0)
    core.step(Join("n0", "n1", 0, "a", (("n0", "a"),)), 10)
    assert len(settle(core)) == 2, "that is news"
    core.step(Join("n0", "n1", 0, "a", (("n0", "a"),)), 20)
    assert settle(core) == []


def test_a_voter_that_has_caught_up_votes_again() -> None:
    core = leader_core()
    core.step(HeartbeatReply("n1", "n0", 2, 1, 0, "b"), 0)
    settle(core)
    assert core.changed_at == 2
    core.step(AppendReply("n2", "n0", 2, 2), 0)
    core.tick(200)
    settle(core)
    core.step(HeartbeatReply("n1", "n0", 2, 2, 200, "b"), 200)
    assert core.members.voters == ("n0", "n2"), "it has nothing yet"
    core.step(AppendReply("n1", "n0", 2, 2, incarnation="b"), 200)
    core.step(HeartbeatReply("n1", "n0", 2, 2, 200, "b"), 200)
    assert core.members == VotersAndLearners(THREE.voters, (), (("n1", "b"),))


def test_a_leader_whose_clock_stood_still_asks_for_its_lease_again() -> None:
    core = core_of(1)
    core.clock_stood_still(5)
    assert core.leader is None, "a follower has none"
    lead(core)
    core.clock_stood_still(10)
    assert core.leader is not None
    assert core.leader.lease_until_ms(10) == 0
    assert [one for one in settle(core) if isinstance(one, Heartbeat)]
