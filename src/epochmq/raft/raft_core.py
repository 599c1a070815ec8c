"""The Raft core of one node: it decides, without I/O (after etcd/raft).

Methods take `now` in monotonic milliseconds and change the state. `ready` returns the work that
follows; `advance` reports it as done. A second batch may be taken while the first is being written.
`advance` is called in the order of the batches that must be synced.
"""

from collections.abc import Callable, Iterable
from typing import Any

from epochmq.base import limits
from epochmq.base.errors import OurBug, PeerError, StoreDamaged, UsageError, check
from epochmq.base.ports import Rng
from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.raft.election import Ballot, ElectionTimer
from epochmq.raft.joining import Configured, Confirmation
from epochmq.raft.leader import Leader
from epochmq.raft.membership import ChangeKind, MembershipLog, changed
from epochmq.raft.options import RaftOptions
from epochmq.raft.outbox import RaftRole, Ready, SavedState
from epochmq.raft.raft_log import RaftLog
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
    RaftMessage,
    Snapshot,
    TimeoutNow,
    Vote,
    VoteReply,
    VotersAndLearners,
    Welcome,
    decode_members,
    encode_members,
)
from epochmq.raft.read_index import ReadState

APPLY_COUNT_MAX = 1024
"""Entries that one batch gives to the state machine."""


class RaftCore:
    """One node. `role`, `term`, `vote`, `leader_id`, `log` and `members` may be read by all
    callers.
    """

    def __init__(
        self,
        own_id: str,
        saved: SavedState,
        options: RaftOptions,
        rng: Rng,
        now: int,
        safe: Safeguards = SAFE,
        configured: Configured | None = None,
    ) -> None:
        self.own_id = own_id
        self.options = options
        self.role = RaftRole.FOLLOWER
        self.leader_id: str | None = None
        self.term, self.vote = saved.hard_state.term, saved.hard_state.vote
        self.log = RaftLog(saved.snapshot, saved.entries, saved.hard_state.commit)
        self.leader: Leader | None = None
        """The state that only a leader has."""
        self._membership = MembershipLog(saved.snapshot.members, saved.entries)
        self._safe = safe
        self._now = now
        self._timer = ElectionTimer(options, rng, now, restarted=self.term > 0)
        self._ballot: Ballot | None = None
        self.confirmation = Confirmation(
            own_id, saved, configured, self.log, self._membership, self._send, now
        )
        """Whether the group has confirmed this disk; else it has no vote."""
        self._handed_out = self._hard_state()
        self._messages: list[AnyMessage] = []
        self._read_states: list[ReadState] = []
        self._received: Snapshot | None = None
        self._handlers: dict[type[RaftMessage], Callable[[Any], None]] = {
            Vote: self._on_vote,
            VoteReply: self._on_vote_reply,
            AppendEntries: self._on_append,
            AppendReply: self._on_append_reply,
            Heartbeat: self._on_heartbeat,
            HeartbeatReply: self._on_heartbeat_reply,
            Install: self._on_install,
            TimeoutNow: self._on_timeout_now,
            Join: self.confirmation.on_join,
            Welcome: self.confirmation.on_welcome,
        }

    @property
    def members(self) -> VotersAndLearners:
        return self._membership.now

    @property
    def changed_at(self) -> int:
        """Index of the newest membership change in the log."""
        return self._membership.changed_at

    @property
    def lease_until_ms(self) -> int:
        """Until when no other node can lead, by this node's clock; 0 without a lease.

        Callers must read it again at each use, because a lease may end early.
        """
        return 0 if self.leader is None else self.leader.lease_until_ms(self._now)

    # Time -------------------------------------------------------------------------------------

    def next_deadline(self) -> int:
        """Return when `tick` must be called."""
        if self.leader is not None:
            return self.leader.next_deadline(self._now, check_quorum=self._safe.check_quorum)
        return self.confirmation.next_deadline(self._timer.deadline)

    def tick(self, now: int) -> None:
        """Do what is due at `now`."""
        self._now = max(now, self._now)
        if self.leader is None:
            self.confirmation.tick(self._now, self.options.election_timeout_ms)
            if self._now >= self._timer.deadline:
                self._campaign()
        elif self._safe.check_quorum and self.leader.is_deserted(self._now):
            self._become_follower(self.term, None)
        else:
            self.leader.tick(self._now)
            self._confirm_reads()

    def clock_stood_still(self, now: int) -> None:
        """Note that time passed which `now` does not count: a lease may be over and is renewed.

        Promises of this node to others last longer then, which does no harm.
        """
        self._now = max(now, self._now)
        if self.leader is not None:
            self.leader.drop_lease(self._now)

    # Requests of this node's own --------------------------------------------------------------

    def propose(self, data: bytes) -> int | None:
        """Append `data`. Return its index, or None if this node does not lead or is handing over.

        The entry is decided when an entry with this index and this term is applied; else it is
        lost. Raises `UsageError` if `data` exceeds the limit.
        """
        if len(data) > limits.RAFT_ENTRY_BYTES_MAX:
            raise UsageError(f"a command of {len(data)} bytes is over the limit")
        if self.leader is None or self.leader.transferee is not None:
            return None
        return self._append_own(EntryKind.DATA, data)

    def propose_change(self, kind: ChangeKind, node: str) -> int | None:
        """Append a membership that differs by one node. Return its index; None if not leading.

        A voter that has not caught up becomes a learner first; the leader makes it a voter by a
        second change. Raises `UsageError` while the change before, or an entry of this term, is not
        committed: two leaders could change the group independently (the single-server bug, 2015).
        """
        if self.leader is None or self.leader.transferee is not None:
            return None
        if not self._may_change(self.leader):
            raise UsageError("the group cannot change yet: an earlier entry is not committed")
        caught_up = self.leader.has_caught_up(node)
        after = changed(self.members, kind, node, caught_up=caught_up)
        return self._append_own(EntryKind.CHANGE, encode_members(after))

    def _may_change(self, leader: Leader) -> bool:
        """Whether the change before and an entry of this term are committed."""
        return self.log.commit >= max(leader.first_index, self._membership.changed_at)

    def read_index(self, context: bytes, now: int) -> None:
        """Request a `ReadState` with `context`: the index from which a read is up to date."""
        self._now = max(now, self._now)
        if self.leader is None or len(self.leader.reads) >= limits.RAFT_PENDING_READS_MAX:
            self._read_states.append(ReadState(context, None))
        elif not self._safe.read_index_barrier:
            self._read_states.append(ReadState(context, self.log.commit))
        else:
            self.leader.read(context, self._now)
            self._confirm_reads()

    def transfer_to(self, node: str) -> bool:
        """Hand over to `node` once it has all entries; given up after an election timeout.

        Until then nothing is proposed. This leader has no lease any more in this term.
        """
        if self.leader is None or node not in self.members.voters or node == self.own_id:
            return False
        self.leader.transfer_to(node, self._now)
        return True

    def knows_members_at(self, index: int) -> bool:
        """False on a disk that was empty at first, before its first membership change."""
        return bool(self._membership.at(index).voters)

    def compact(self, index: int, data: bytes) -> Snapshot:
        """Replace the entries up to `index` by `data`, the state machine after it."""
        snapshot = self.log.compact(index, self._membership.at(index), data)
        self._membership.compacted(index)
        return snapshot

    def saved(self) -> SavedState:
        """Return everything that a journal must hold now."""
        return SavedState(
            self._hard_state(),
            self.log.snapshot,
            tuple(self.log.entries),
            self.confirmation.incarnation,
            self.confirmation.given,
        )

    # Batches ----------------------------------------------------------------------------------

    def has_ready(self) -> bool:
        """Whether `ready` would return any work."""
        return bool(
            self._messages
            or self._read_states
            or self._received
            or self.log.has_unwritten
            or self.log.applied < self.log.applicable
            or self._hard_state() != self._handed_out
        )

    def ready(self) -> Ready:
        """Return the next batch of work."""
        if self.leader is not None:
            self.leader.flush(self._now)
        before, state = self._handed_out, self._hard_state()
        check(state.term >= before.term and state.commit >= before.commit, "INV-05 never back")
        if state.term == before.term and self._safe.one_vote_a_term:
            check(before.vote in (None, state.vote), "INV-01 one vote a term")
        entries = self.log.pop_unwritten() if self.log.has_unwritten else ()
        promised = (state.term, state.vote) != (before.term, before.vote)
        ready = Ready(
            hard_state=state if state != before else None,
            entries=entries,
            snapshot=self._received,
            messages=tuple(self._messages),
            committed=self.log.pop_committed(APPLY_COUNT_MAX),
            read_states=tuple(self._read_states),
            must_sync=promised or bool(entries) or self._received is not None,
        )
        self._handed_out, self._received = state, None
        self._messages.clear()
        self._read_states.clear()
        return ready

    def advance(self, ready: Ready) -> None:
        """Note that `ready`, which must be synced, and all batches before it are on the device."""
        if ready.entries:
            self.log.written()
            self._maybe_commit()
        state = ready.hard_state
        if state is None or self.role is not RaftRole.CANDIDATE:
            return
        if (state.term, state.vote) == (self.term, self.own_id):
            self._count_vote(self.own_id, True)

    def _hard_state(self) -> HardState:
        return HardState(self.term, self.vote, self.log.commit)

    # Messages ---------------------------------------------------------------------------------

    def step(self, message: AnyMessage, now: int) -> None:
        """Handle a message. Raises `PeerError` for one that is not for this node or is invalid."""
        self._now = max(now, self._now)
        if message.to != self.own_id or message.sender == self.own_id:
            raise PeerError(
                f"Raft message from {message.sender} to {message.to} came to {self.own_id}"
            )
        if isinstance(message, Vote) and not message.transfer and self._is_loyal():
            return
        if message.term > min(self.term + limits.RAFT_TERM_STEP_MAX, limits.RAFT_TERM_MAX):
            raise PeerError(f"Raft message of term {message.term} at a node in term {self.term}")
        if isinstance(message, Join | Welcome):
            self._handlers[type(message)](message)
            return
        if message.term < self.term:
            self._answer_old_term(message)
            return
        if message.term > self.term and not _is_about_next_term(message):
            self._become_follower(message.term, None)
        self._handlers[type(message)](message)

    def _is_loyal(self) -> bool:
        """Whether a leader's lease may depend on this node, so that it must not vote."""
        if self.leader is not None:
            return self._safe.check_quorum
        return self._timer.is_loyal(self._now, self._safe)

    def _answer_old_term(self, message: AnyMessage) -> None:
        """Tell the sender that its term is over, as a deposed leader or a candidate."""
        if isinstance(message, AppendEntries | Heartbeat | Install):
            self._send(AppendReply(self.own_id, message.sender, self.term, 0, refused=True))
        elif isinstance(message, Vote):
            self._send(VoteReply(self.own_id, message.sender, self.term, False, message.pre))

    def _send(self, message: AnyMessage) -> None:
        self._messages.append(message)

    # Elections --------------------------------------------------------------------------------

    def _campaign(self) -> None:
        self._timer.restart(self._now)
        if not self._may_stand():
            return
        if not self._safe.pre_vote:
            self._stand(transfer=False)
            return
        self.role, self.leader_id = RaftRole.PRE_CANDIDATE, None
        self._ask_for_votes(self.term + 1, pre=True, transfer=False)

    def _may_stand(self) -> bool:
        """Whether this node may start an election: as a voter, now or before an uncommitted change.

        Such a node may be the only one that can win, because its log is the longest (thesis 4.2.2).
        """
        if not self.confirmation.given:
            return False
        changed_at = self._membership.changed_at
        if changed_at > self.log.commit:
            before = self._membership.at(changed_at - 1)
            return self.own_id in (*self.members.voters, *before.voters)
        return self.own_id in self.members.voters

    def _stand(self, *, transfer: bool) -> None:
        self.term += 1
        self.vote = self.own_id
        self.role, self.leader_id = RaftRole.CANDIDATE, None
        self._timer.restart(self._now)
        self._ask_for_votes(self.term, pre=False, transfer=transfer)

    def _ask_for_votes(self, term: int, *, pre: bool, transfer: bool) -> None:
        self._ballot = Ballot(self.members)
        last = (self.log.last_index, self.log.last_term)
        for node in self.members.voters:
            if node != self.own_id:
                self._send(Vote(self.own_id, node, term, *last, pre, transfer))
        if pre:
            self._count_vote(self.own_id, True)  # a real vote counts when it is on the device

    def _on_vote(self, request: Vote) -> None:
        fresh = self.log.is_fresh(request.last_index, request.last_term)
        granted = self._is_free_for(request) and (fresh or not self._safe.log_freshness_check)
        if granted and not request.pre:
            self.vote = request.sender
            self._timer.restart(self._now)
        term = request.term if granted else self.term
        self._send(VoteReply(self.own_id, request.sender, term, granted, request.pre))

    def _is_free_for(self, request: Vote) -> bool:
        if not self.confirmation.given:
            return False
        if request.pre:
            return request.term > self.term
        if not self._safe.one_vote_a_term:
            return True
        return self.vote == request.sender or (self.vote is None and self.leader_id is None)

    def _on_vote_reply(self, reply: VoteReply) -> None:
        asking = RaftRole.PRE_CANDIDATE if reply.pre else RaftRole.CANDIDATE
        term = self.term + 1 if reply.pre and reply.granted else self.term
        if self.role is asking and reply.term == term:
            self._count_vote(reply.sender, reply.granted)

    def _count_vote(self, voter: str, granted: bool) -> None:
        assert self._ballot is not None
        self._ballot.record(voter, granted)
        if self._ballot.won:
            if self.role is RaftRole.PRE_CANDIDATE:
                self._stand(transfer=False)
            else:
                self._become_leader()
        elif self._ballot.lost:
            self._become_follower(self.term, None)

    def _on_timeout_now(self, message: TimeoutNow) -> None:
        if self.leader is None and self.confirmation.given and self.own_id in self.members.voters:
            self._stand(transfer=True)

    def _become_leader(self) -> None:
        check(self.role is RaftRole.CANDIDATE, "INV-01 only a candidate becomes leader")
        self.role, self.leader_id, self._ballot = RaftRole.LEADER, self.own_id, None
        self.leader = Leader(self.own_id, self.term, self.log, self.options, self._send, self._now)
        self.leader.replication.follow(self.members, self._now)
        self._append_own(EntryKind.NO_OP, b"")
        self.leader.heartbeat(self._now)

    def _become_follower(self, term: int, leader: str | None) -> None:
        check(term >= self.term, "INV-05 a term never goes back")
        if term > self.term:
            self.term, self.vote = term, None
        if self.leader is not None:
            self._read_states += self.leader.reads.fail()
            self.leader = None
        if self.role is not RaftRole.FOLLOWER:
            self._timer.restart(self._now)
        self.role, self.leader_id, self._ballot = RaftRole.FOLLOWER, leader, None

    # Leading ----------------------------------------------------------------------------------

    def _append_own(self, kind: EntryKind, data: bytes) -> int:
        assert self.leader is not None
        entry = LogEntry(self.term, self.log.last_index + 1, kind, data)
        self.log.append((entry,))
        if self._membership.appended((entry,)):
            self.leader.replication.follow(self.members, self._now)
        return entry.index

    def _on_append_reply(self, reply: AppendReply) -> None:
        if self.leader is None or not self._is_known(reply):
            return
        if self.leader.replication.on_append_reply(reply, self._now):
            self._maybe_commit()
        if self.leader is not None:
            self.leader.maybe_hand_over(self._now)

    def _on_heartbeat_reply(self, reply: HeartbeatReply) -> None:
        if self.leader is None:
            return
        if self._is_known(reply):
            self.leader.replication.on_heartbeat_reply(reply, self._now)
            self._confirm_reads()
        after = self.leader.members_after(reply, self.members)
        if after is not None and self._may_change(self.leader):
            self._append_own(EntryKind.CHANGE, encode_members(after))

    def _is_known(self, reply: AppendReply | HeartbeatReply) -> bool:
        """Whether the answer comes from the disk that the group knows."""
        return reply.incarnation == self.members.incarnation_of(reply.sender)

    def _confirm_reads(self) -> None:
        assert self.leader is not None
        self._read_states += self.leader.confirmed_reads(self._now)

    def _maybe_commit(self) -> None:
        """Commit what a majority has, if the newest of it is of this term (5.4.2)."""
        if self.leader is None:
            return
        index = self.leader.replication.matched(self.log.stable)
        own_term = self.log.term_at(index) == self.term
        if index <= self.log.commit or not (own_term or not self._safe.commit_only_own_term):
            return
        self.log.commit_to(index)
        if index >= self._membership.changed_at and self.own_id not in self.members.voters:
            self._become_follower(self.term, None)
            return
        self.leader.committed(self._now)
        self._confirm_reads()

    # Following --------------------------------------------------------------------------------

    def _follow(self, leader: str) -> None:
        check(self.leader is None, "INV-01 one leader a term")
        check(self.leader_id in (None, leader), "INV-01 one leader a term")
        if self.role is not RaftRole.FOLLOWER or self.leader_id is None:
            self._become_follower(self.term, leader)
        self._timer.heard_leader(self._now)

    def _on_append(self, append: AppendEntries) -> None:
        check_append(append)
        self._follow(append.sender)
        log = self.log
        if append.prev_index < log.commit:
            places = [(append.prev_index, append.prev_term)]
            places += [(entry.index, entry.term) for entry in append.entries]
            self._check_committed(append.sender, places)
            self._accept(append, log.commit)
            return
        if log.term_at(append.prev_index) != append.prev_term:
            hint = log.agreement(append.prev_index, append.prev_term)
            reply = AppendReply(
                self.own_id,
                append.sender,
                self.term,
                append.prev_index,
                refused=True,
                hint_index=hint[0],
                hint_term=hint[1],
                incarnation=self.confirmation.incarnation,
            )
            self._send(reply)
            return
        new = log.merge(append.prev_index, append.prev_term, append.entries)
        self._membership.appended(new)
        last = append.prev_index + len(append.entries)
        log.commit_to(min(append.commit, last))
        self.confirmation.look()
        self._accept(append, last)

    def _check_committed(self, leader: str, places: Iterable[tuple[int, int]]) -> None:
        """Check that the leader's (index, term) pairs match the committed entries."""
        for index, term in places:
            own = self.log.term_at(index)
            if self.log.snapshot.index <= index <= self.log.commit and own != term:
                raise OurBug(
                    f"invariant broken: INV-03 entry {index} is committed on {self.own_id} as one"
                    f" of term {own}, and the leader {leader} has one of term {term}. One of the"
                    " two lost what was decided: stop both, find out by the third which one, and"
                    " start that one on an empty directory"
                )

    def _accept(self, message: AppendEntries | Install, index: int) -> None:
        self._send(
            AppendReply(
                self.own_id,
                message.sender,
                self.term,
                index,
                incarnation=self.confirmation.incarnation,
            )
        )

    def _on_heartbeat(self, beat: Heartbeat) -> None:
        self._follow(beat.sender)
        if self.confirmation.given:
            self._commit_of(beat)
        self._send(
            HeartbeatReply(
                self.own_id,
                beat.sender,
                self.term,
                beat.round,
                beat.sent_at_ms,
                self.confirmation.incarnation,
            )
        )

    def _commit_of(self, beat: Heartbeat) -> None:
        """Commit what a heartbeat says; a leader names only entries that are on this disk."""
        if beat.commit > self.log.last_index:
            raise StoreDamaged(
                f"Raft node {self.own_id} once had entry {beat.commit} on its disk and now ends at"
                f" {self.log.last_index}: its journal lost data. Delete its directory and start it"
                " again: it has no vote until the leader has confirmed it and it has caught up"
            )
        self.log.commit_to(beat.commit)

    def _on_install(self, install: Install) -> None:
        self._follow(install.sender)
        snapshot = install.snapshot
        if snapshot.term > install.term:
            raise PeerError(f"Raft snapshot of term {snapshot.term} in term {install.term}")
        self._check_committed(install.sender, [(snapshot.index, snapshot.term)])
        if self.log.term_at(snapshot.index) == snapshot.term:
            self.log.commit_to(snapshot.index)
        elif snapshot.index > self.log.commit:
            self.log.restore(snapshot)
            self._membership.restored(snapshot.members)
            self._received = snapshot
        self.confirmation.look()
        self._accept(install, self.log.commit)

    def statistics(self) -> dict[str, object]:
        """Return the state of the node for operators."""
        return {
            "role": self.role.value,
            "confirmed": self.confirmation.given,
            "term": self.term,
            "leader": self.leader_id,
            "voters": list(self.members.voters),
            "learners": list(self.members.learners),
            "last": self.log.last_index,
            "stable": self.log.stable,
            "commit": self.log.commit,
            "applied": self.log.applied,
            "snapshot": self.log.snapshot.index,
            "followers": {} if self.leader is None else self.leader.matches(),
        }


def _is_about_next_term(message: AnyMessage) -> bool:
    """Whether the message is about a pre-vote, whose term no node has entered."""
    if isinstance(message, VoteReply):
        return message.pre and message.granted
    return isinstance(message, Vote) and message.pre


def check_append(append: AppendEntries) -> None:
    """Raise `PeerError` for entries that cannot follow each other or be read."""
    term = append.prev_term
    for index, entry in enumerate(append.entries, append.prev_index + 1):
        if entry.index != index or not term <= entry.term <= append.term:
            raise PeerError(f"Raft append with entry {entry.index} of term {entry.term} at {index}")
        term = entry.term
        if entry.kind is EntryKind.CHANGE:
            decode_members(entry.data)
