"""A whole Raft node: core, journal and outbox, without waiting and without I/O of its own.

The service and the simulator use it in the same way: they pass bytes, ticks and commands, execute
the effects of `pop_effects`, run the call of `pending_sync` anywhere, and report its end with
`synced`. Records that arrive during a sync are collected for the next one (group commit).
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from epochmq.base import limits
from epochmq.base.errors import PeerError, check
from epochmq.base.ports import Rng
from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.raft.joining import Configured, draw_incarnation
from epochmq.raft.membership import ChangeKind
from epochmq.raft.options import RaftOptions
from epochmq.raft.outbox import Outbox, RaftRole, Ready
from epochmq.raft.raft_core import RaftCore
from epochmq.raft.raft_journal import Journal
from epochmq.raft.raft_messages import EntryKind, LogEntry, VotersAndLearners, decode, encode


@dataclass(frozen=True, slots=True)
class SendBytes:
    """Send bytes to another node; they may be lost."""

    node_id: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Apply:
    """A command is decided. Indexes rise with gaps, because not every entry is a command."""

    index: int
    term: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Restore:
    """Replace the state machine by `snapshot`, its state after `index`."""

    index: int
    snapshot: bytes


@dataclass(frozen=True, slots=True)
class ReadReady:
    """The state machine now holds everything that was decided when the read was requested."""

    token: int


@dataclass(frozen=True, slots=True)
class ReadFailed:
    """This node does not lead (any more); the caller must ask the leader."""

    token: int


@dataclass(frozen=True, slots=True)
class BecameLeader:
    """This node leads, and has applied everything that was decided before its term."""

    term: int


@dataclass(frozen=True, slots=True)
class LostLeadership:
    """The leadership of `BecameLeader` is over; open proposals may still be decided."""

    term: int


@dataclass(frozen=True, slots=True)
class MembersChanged:
    """Another membership is in force; its nodes need connections."""

    members: VotersAndLearners


Effect = (
    SendBytes
    | Apply
    | Restore
    | ReadReady
    | ReadFailed
    | BecameLeader
    | LostLeadership
    | MembersChanged
)


class RaftNode:
    """One node of the group."""

    def __init__(self, core: RaftCore, journal: Journal, safe: Safeguards = SAFE) -> None:
        self.core = core
        self._journal = journal
        self._safe = safe
        self._effects: list[Effect] = []
        self._outbox = Outbox(safe)
        self._number = 0
        """Number of the newest batch."""
        self._urgent = 0
        """Number of the newest batch that must be synced."""
        self._synced = 0
        """All batches up to this number are on the device."""
        self._syncing: int | None = None
        """The running sync covers batches up to this number; None if no sync is running."""
        self._unsynced: deque[tuple[int, Ready]] = deque()
        self._reads: deque[tuple[int, int]] = deque()
        """(index that must be applied, token)"""
        self._told_term: int | None = None
        """The term for which `BecameLeader` was reported."""
        self._applied = core.log.applied
        self._members = core.members
        self._confirmed = core.confirmation.given
        self._promises = (core.term, core.vote)
        snapshot = core.log.snapshot
        if snapshot.index > 0:
            self._effects.append(Restore(snapshot.index, snapshot.data))
        self._pump()

    @classmethod
    def open(
        cls,
        own_id: str,
        journal: Journal,
        bootstrap: VotersAndLearners,
        options: RaftOptions,
        rng: Rng,
        now: int,
        safe: Safeguards = SAFE,
        configured: Configured | None = None,
    ) -> "RaftNode":
        """Make the node from its journal; a new journal starts with the members `bootstrap`.

        A node that joins a group starts without members and learns them. A node that is
        `configured` as a member and has an empty disk also waits for confirmation.

        Raises:
            StoreDamaged: the journal cannot be trusted.
            StoreInUse: another process uses the journal.
        """
        incarnation = "" if bootstrap.voters or configured is None else draw_incarnation(rng)
        saved = journal.load(bootstrap, incarnation)
        return cls(RaftCore(own_id, saved, options, rng, now, safe, configured), journal, safe)

    # What there is to see ---------------------------------------------------------------------

    @property
    def leader_id(self) -> str | None:
        return self.core.leader_id

    @property
    def term(self) -> int:
        return self.core.term

    @property
    def is_leader(self) -> bool:
        """Whether it leads and `BecameLeader` was reported."""
        return self._told_term == self.core.term and self.core.leader is not None

    @property
    def lease_until_ms(self) -> int:
        """The time until which no other node can lead; 0 without a lease. Read it again at each
        use.
        """
        return self.core.lease_until_ms if self.is_leader else 0

    @property
    def members(self) -> VotersAndLearners:
        return self.core.members

    @property
    def confirmed(self) -> bool:
        """False: its disk was empty, and it has no vote until the group confirms the disk."""
        return self.core.confirmation.given

    @property
    def applied_index(self) -> int:
        """The highest index for which effects were returned."""
        return self._applied

    def next_deadline(self) -> int:
        return self.core.next_deadline()

    @property
    def journal_bytes(self) -> int:
        """Size of the journal."""
        return self._journal.end

    def statistics(self) -> dict[str, object]:
        return {**self.core.statistics(), "journalBytes": self._journal.end}

    # Input ------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: int, sender: str | None = None) -> None:
        """Handle bytes from another node.

        Args:
            data: one message.
            now: monotonic milliseconds.
            sender: the node that must have sent it; None accepts any.

        Raises:
            PeerError: the bytes are not a valid message, or come from another node.
        """
        message = decode(data)
        if sender not in (None, message.sender):
            raise PeerError(f"Raft message of {message.sender} over a connection of {sender}")
        self.core.step(message, now)
        self._pump()

    def tick(self, now: int) -> None:
        """Do what is due; call it at `next_deadline`. An earlier call does no harm."""
        self.core.tick(now)
        self._pump()

    def clock_stood_still(self, now: int) -> None:
        """Note that the clock did not count some time; see `RaftCore.clock_stood_still`."""
        self.core.clock_stood_still(now)
        self._pump()

    def propose(self, data: bytes) -> int | None:
        """Propose a command. Return its index, or None if this node does not lead.

        The command is decided when `Apply` has this index and the present term. It is lost when
        `Apply` has this index and another term.
        """
        index = self.core.propose(data)
        self._pump()
        return index

    def propose_change(self, kind: ChangeKind, node_id: str) -> int | None:
        """Propose a membership change; see `RaftCore.propose_change`."""
        index = self.core.propose_change(kind, node_id)
        self._pump()
        return index

    def read_index(self, token: int, now: int) -> None:
        """Request `ReadReady(token)` or `ReadFailed(token)`."""
        self.core.read_index(token.to_bytes(8, "big"), now)
        self._pump()

    def transfer_to(self, node_id: str) -> bool:
        """Hand the leadership over. Return False if that is not possible."""
        possible = self.core.transfer_to(node_id)
        self._pump()
        return possible

    def compact(self, index: int, snapshot: bytes) -> bool:
        """Replace all entries up to `index`, which is applied, by the state machine after it.

        The journal shrinks with the next sync.

        Returns:
            False, and the log stays as it is, if the snapshot exceeds `RAFT_SNAPSHOT_BYTES_MAX`, or
            if this node began with an empty disk and does not know the members at that index.
        """
        if len(snapshot) > limits.RAFT_SNAPSHOT_BYTES_MAX or not self.core.knows_members_at(index):
            return False
        self.core.compact(index, snapshot)
        self._rewrite()
        return True

    def _rewrite(self) -> None:
        """Write the whole journal again with the next sync, from the state of the core."""
        self._journal.rewrite(self.core.saved())
        self._number += 1
        self._urgent = self._number

    # The disk ---------------------------------------------------------------------------------

    def pending_sync(self) -> Callable[[], None] | None:
        """Return a blocking call to run elsewhere; None if no data waits or a call is running.

        If the call raises an error, the node must stop: the data may be lost.
        """
        if self._syncing is not None or not self._journal.must_sync:
            return None
        self._syncing = self._number
        return self._journal.pop_writes()

    def synced(self, now: int) -> None:
        """Note that the call of `pending_sync` has finished."""
        assert self._syncing is not None
        self._synced, self._syncing = max(self._synced, self._syncing), None
        if self._safe.persist_before_reply:
            self._report_written()
        self._pump()

    def _report_written(self) -> None:
        """Report to the core which batches are on the device."""
        while self._unsynced and self._unsynced[0][0] <= self._synced:
            _number, ready = self._unsynced.popleft()
            if ready.snapshot is not None:
                self._restore(ready)
            self.core.advance(ready)

    # Effects ----------------------------------------------------------------------------------

    def pop_effects(self) -> list[Effect]:
        """Return the effects to execute now, in order."""
        effects, self._effects = self._effects, []
        return effects

    def _pump(self) -> None:
        """Convert the work of the core into effects."""
        while self.core.has_ready():
            self._write_batch(self.core.ready())
        if self._confirmed != self.core.confirmation.given:
            self._confirmed = self.core.confirmation.given
            self._rewrite()
        if self._members != self.core.members:
            self._members = self.core.members
            self._effects.append(MembersChanged(self._members))
        self._effects += [
            SendBytes(message.to, encode(message))
            for message in self._outbox.pop_ready(self._synced)
        ]
        self._tell_of_leadership()
        self._answer_reads()

    def _write_batch(self, ready: Ready) -> None:
        self._number += 1
        if ready.must_sync:
            self._urgent = self._number
        promises = (self.core.term, self.core.vote)
        self._journal.save(ready)
        self._outbox.put(ready, self._number, self._urgent, promised=promises != self._promises)
        self._promises = promises
        if ready.must_sync:
            self._unsynced.append((self._number, ready))
        for read in ready.read_states:
            token = int.from_bytes(read.context, "big")
            if read.index is None:
                self._effects.append(ReadFailed(token))
            else:
                self._reads.append((read.index, token))
        self._apply(ready.committed)
        if not self._safe.persist_before_reply:
            self._synced = self._number
            self._report_written()

    def _apply(self, entries: tuple[LogEntry, ...]) -> None:
        for entry in entries:
            check(entry.index == self._applied + 1, "INV-04 applied in order, without gaps")
            self._applied = entry.index
            if entry.kind is EntryKind.DATA:
                self._effects.append(Apply(entry.index, entry.term, entry.data))

    def _restore(self, ready: Ready) -> None:
        snapshot = ready.snapshot
        assert snapshot is not None
        check(snapshot.index > self._applied, "INV-05 applied never goes back")
        self._applied = snapshot.index
        self._effects.append(Restore(snapshot.index, snapshot.data))

    def _tell_of_leadership(self) -> None:
        leader = self.core.leader
        if self._told_term is not None and (leader is None or self.core.term != self._told_term):
            self._effects.append(LostLeadership(self._told_term))
            self._told_term = None
        if leader is not None and self._told_term is None and self._applied >= leader.first_index:
            check(self.core.role is RaftRole.LEADER, "INV-01 who leads is leader")
            self._told_term = self.core.term
            self._effects.append(BecameLeader(self._told_term))

    def _answer_reads(self) -> None:
        while self._reads and self._reads[0][0] <= self._applied:
            self._effects.append(ReadReady(self._reads.popleft()[1]))
