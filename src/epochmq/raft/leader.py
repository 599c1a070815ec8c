"""The state that a node has only while it leads: replication, reads, lease, hand-over."""

from collections.abc import Callable

from epochmq.raft.membership import ChangeKind, changed, reborn
from epochmq.raft.options import RaftOptions
from epochmq.raft.raft_log import RaftLog
from epochmq.raft.raft_messages import AnyMessage, HeartbeatReply, TimeoutNow, VotersAndLearners
from epochmq.raft.read_index import ReadIndex, ReadState
from epochmq.raft.replication import Followers


class Leader:
    """One leadership, from the won election until the node steps down."""

    def __init__(
        self,
        own_id: str,
        term: int,
        log: RaftLog,
        options: RaftOptions,
        send: Callable[[AnyMessage], None],
        now: int,
    ) -> None:
        self._own_id = own_id
        self._term = term
        self._log = log
        self._options = options
        self._send = send
        self.replication = Followers(own_id, term, log, options, send)
        self.reads = ReadIndex()
        self.first_index = log.last_index + 1
        """Index of the no-op entry; when it is committed, all entries before it are committed."""
        self.transferee: str | None = None
        """The node that shall lead next; None if there is no hand-over."""
        self._give_up_at = 0
        self._handed_over = False
        """`TimeoutNow` was sent: another node may be elected at any time, in spite of the lease."""
        self._heartbeat_at = now

    # Time -------------------------------------------------------------------------------------

    def next_deadline(self, now: int, *, check_quorum: bool) -> int:
        """Return when `tick` must be called."""
        at = self._heartbeat_at
        if check_quorum:
            at = min(at, self._deserted_at(now))
        return at if self.transferee is None else min(at, self._give_up_at)

    def is_deserted(self, now: int) -> bool:
        """Whether no majority was heard for an election timeout, so that others may have a new
        leader.
        """
        return now >= self._deserted_at(now)

    def _deserted_at(self, now: int) -> int:
        return self.replication.heard_at(now) + self._options.election_timeout_ms

    def tick(self, now: int) -> None:
        """Do what is due: heartbeats, and the end of a hand-over that takes too long."""
        if self.transferee is not None and now >= self._give_up_at:
            self.transferee = None
        if now >= self._heartbeat_at:
            self.heartbeat(now)

    def heartbeat(self, now: int) -> None:
        """Start a round of heartbeats."""
        self._heartbeat_at = now + self._options.heartbeat_ms
        self.replication.heartbeat(now)

    def flush(self, now: int) -> None:
        """Send the entries that were appended since, in as few messages as possible."""
        self.replication.send_all(now)

    # Reads and lease --------------------------------------------------------------------------

    @property
    def is_born(self) -> bool:
        """Whether an entry of this term is committed."""
        return self._log.commit >= self.first_index

    def read(self, context: bytes, now: int) -> None:
        """Start a read. Reads that arrive during a round of heartbeats share the next round."""
        if not self.is_born:
            self.reads.add_unborn(context)
            return
        under_way = self.replication.round > self.replication.confirmed_round()
        shared = bool(len(self.reads)) and under_way
        self.reads.add(context, self.replication.round + 1, self._log.commit)
        if not shared:
            self.heartbeat(now)

    def committed(self, now: int) -> None:
        """Note that the commit index rose."""
        if self.is_born:
            for context in self.reads.born():
                self.read(context, now)

    def confirmed_reads(self, now: int) -> list[ReadState]:
        """Return the reads that a majority confirmed; start the next round if a read
        waits for it.
        """
        if not len(self.reads):
            return []
        done = self.reads.confirmed(self.replication.confirmed_round())
        if self.replication.confirmed_round() == self.replication.round < self.reads.round_wanted:
            self.heartbeat(now)
            done += self.reads.confirmed(self.replication.confirmed_round())
        return done

    def lease_until_ms(self, now: int) -> int:
        """Return until when no other node can lead; 0 without a lease."""
        sent_at = self.replication.round_sent_at(now)
        if sent_at is None or self._handed_over or not self.is_born:
            return 0
        return sent_at + self._options.lease_ms

    def drop_lease(self, now: int) -> None:
        """End the lease until a majority answers a heartbeat that is sent from now on."""
        self.replication.drop_rounds()
        self.heartbeat(now)

    # Hand-over of the leadership --------------------------------------------------------------

    def transfer_to(self, node: str, now: int) -> None:
        """Start to hand the leadership over to `node`."""
        self.transferee = node
        self._give_up_at = now + self._options.election_timeout_ms
        self.replication.send_append(node, self.replication.followers[node], now)
        self.maybe_hand_over(now)

    def maybe_hand_over(self, now: int) -> None:
        """Tell the next leader to start an election, once it has all entries (else it
        would lose).
        """
        node = self.transferee
        progress = None if node is None else self.replication.followers.get(node)
        if node is None or progress is None or now >= self._give_up_at:
            return
        if progress.match == self._log.last_index:
            self._handed_over = True
            self._send(TimeoutNow(self._own_id, node, self._term))

    # Members that catch up --------------------------------------------------------------------

    def has_caught_up(self, node: str) -> bool:
        """Whether all committed entries are on the node's disk, and the group knows this disk."""
        progress = self.replication.followers.get(node)
        return progress is not None and progress.match >= self._log.commit

    def members_after(
        self, reply: HeartbeatReply, members: VotersAndLearners
    ) -> VotersAndLearners | None:
        """Return the membership that an answer to a heartbeat requires; None: no change.

        A member that answers with another disk than the group knows becomes a learner. A returning
        member becomes a voter again when it has all committed entries.
        """
        progress = self.replication.followers.get(reply.sender)
        if progress is None or self.transferee is not None:
            return None
        if reply.incarnation != members.incarnation_of(reply.sender):
            # An answer to a heartbeat that was sent before the present disk was recorded comes from
            # an older disk.
            if not reply.incarnation or reply.round <= progress.known_since_round:
                return None
            return reborn(members, reply.sender, reply.incarnation)
        if reply.sender in members.returning and self.has_caught_up(reply.sender):
            return changed(members, ChangeKind.ADD_VOTER, reply.sender)
        return None

    def matches(self) -> dict[str, int]:
        """Return, for each follower, the last index that is known there."""
        return {node: each.match for node, each in self.replication.followers.items()}
