"""A whole node: core, journal and what waits for the disk, composed without any waiting.

The service and the simulator drive it alike: give it bytes, ticks and commands; carry out the
effects of `take`; when `pending_sync` gives a call, run it anywhere and report with `synced`.
While one sync runs, everything that arrives gathers for the next (group commit).
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
    """Bytes for another node; may be lost."""

    node_id: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Apply:
    """A command is decided. Indexes rise but have gaps: not every entry is a command."""

    index: int
    term: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Restore:
    """The state machine becomes what `snapshot` holds, which is its state after `index`."""

    index: int
    snapshot: bytes


@dataclass(frozen=True, slots=True)
class ReadReady:
    """The state machine now holds everything that was decided when the read was asked for."""

    token: int


@dataclass(frozen=True, slots=True)
class ReadFailed:
    """This node does not lead (any more): ask the leader."""

    token: int


@dataclass(frozen=True, slots=True)
class BecameLeader:
    """This node leads and has applied everything that was decided before its term."""

    term: int


@dataclass(frozen=True, slots=True)
class LostLeadership:
    """The leadership that `BecameLeader` told of is over; open proposals may still be decided."""

    term: int


@dataclass(frozen=True, slots=True)
class MembersChanged:
    """Another membership is in force: the nodes to have connections with."""

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
        """Of the newest batch."""
        self._urgent = 0
        """Of the newest batch that must be synced."""
        self._synced = 0
        """All batches up to this one are on the device."""
        self._syncing: int | None = None
        """The sync under way covers batches up to this one."""
        self._unsynced: deque[tuple[int, Ready]] = deque()
        self._reads: deque[tuple[int, int]] = deque()
        """(index that must be applied, token)"""
        self._told_term: int | None = None
        """The term of which `BecameLeader` was told."""
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
        """The node that the journal remembers; a new one starts with `bootstrap` as members.

        A node that is to join a group starts with no members and learns of them. One that is
        `configured` as a member, and has an empty disk, also waits to be confirmed.
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
        """It leads, and `BecameLeader` was told of."""
        return self._told_term == self.core.term and self.core.leader is not None

    @property
    def lease_until_ms(self) -> int:
        """While now is before this, nobody else can lead; 0 without. Ask anew at each use."""
        return self.core.lease_until_ms if self.is_leader else 0

    @property
    def members(self) -> VotersAndLearners:
        return self.core.members

    @property
    def confirmed(self) -> bool:
        """False: its disk was empty, and it has no vote until the group knows it."""
        return self.core.confirmation.given

    @property
    def applied_index(self) -> int:
        """The highest index of which effects were given."""
        return self._applied

    def next_deadline(self) -> int:
        return self.core.next_deadline()

    def statistics(self) -> dict[str, object]:
        return {**self.core.statistics(), "journalBytes": self._journal.end}

    # Input ------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: int, sender: str | None = None) -> None:
        """Bytes from another node; `PeerError` when they make no sense.

        With a `sender` they must be from that node.
        """
        message = decode(data)
        if sender not in (None, message.sender):
            raise PeerError(f"Raft message of {message.sender} over a connection of {sender}")
        self.core.step(message, now)
        self._pump()

    def tick(self, now: int) -> None:
        """Call it at `next_deadline`; earlier does no harm."""
        self.core.tick(now)
        self._pump()

    def clock_stood_still(self, now: int) -> None:
        """See `RaftCore.clock_stood_still`."""
        self.core.clock_stood_still(now)
        self._pump()

    def propose(self, data: bytes) -> int | None:
        """The index that `data` gets if it is decided in this term; None: ask the leader.

        It is decided when `Apply` has this index and this term, and lost when it has another term.
        """
        index = self.core.propose(data)
        self._pump()
        return index

    def propose_change(self, kind: ChangeKind, node_id: str) -> int | None:
        """See `RaftCore.propose_change`."""
        index = self.core.propose_change(kind, node_id)
        self._pump()
        return index

    def read_index(self, token: int, now: int) -> None:
        """Ask for `ReadReady(token)` or `ReadFailed(token)`."""
        self.core.read_index(token.to_bytes(8, "big"), now)
        self._pump()

    def transfer_to(self, node_id: str) -> bool:
        """Hand leadership over; False when that is not possible."""
        possible = self.core.transfer_to(node_id)
        self._pump()
        return possible

    def compact(self, index: int, snapshot: bytes) -> bool:
        """The state machine after `index`, which was applied, stands for all entries up to it.

        The journal shrinks with the next sync. False, and the log stays as it is: the snapshot is
        over `RAFT_SNAPSHOT_BYTES_MAX`, so it could not be sent; or this node began with an empty
        disk and does not know yet who the members were at that index.
        """
        if len(snapshot) > limits.RAFT_SNAPSHOT_BYTES_MAX or not self.core.knows_members_at(index):
            return False
        self.core.compact(index, snapshot)
        self._rewrite()
        return True

    def _rewrite(self) -> None:
        """Make the journal anew with the next sync, from all that the core has."""
        self._journal.rewrite(self.core.saved())
        self._number += 1
        self._urgent = self._number

    # The disk ---------------------------------------------------------------------------------

    def pending_sync(self) -> Callable[[], None] | None:
        """A blocking call to run elsewhere; None when nothing waits or one is running.

        When it raises, the node must be stopped: what it covered may be lost for good.
        """
        if self._syncing is not None or not self._journal.must_sync:
            return None
        self._syncing = self._number
        return self._journal.pop_writes()

    def synced(self, now: int) -> None:
        """The call that `pending_sync` gave is done."""
        assert self._syncing is not None
        self._synced, self._syncing = max(self._synced, self._syncing), None
        if self._safe.persist_before_reply:
            self._report_written()
        self._pump()

    def _report_written(self) -> None:
        """Tell the core which batches are on the device."""
        while self._unsynced and self._unsynced[0][0] <= self._synced:
            _number, ready = self._unsynced.popleft()
            if ready.snapshot is not None:
                self._restore(ready)
            self.core.advance(ready)

    # Effects ----------------------------------------------------------------------------------

    def pop_effects(self) -> list[Effect]:
        """Effects to carry out now, in their order."""
        effects, self._effects = self._effects, []
        return effects

    def _pump(self) -> None:
        """Turn what the core has ready into effects."""
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
