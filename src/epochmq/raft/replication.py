"""Replication by a Raft leader: what is sent to each follower, and what a majority has.

One object lives as long as one leadership.
"""

from collections.abc import Callable

from epochmq.base import limits
from epochmq.raft.election import reached_by_quorum
from epochmq.raft.follower_progress import AppendPace, FollowerProgress
from epochmq.raft.options import RaftOptions
from epochmq.raft.raft_log import RaftLog
from epochmq.raft.raft_messages import (
    AnyMessage,
    AppendEntries,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    Install,
    VotersAndLearners,
)


class Followers:
    """The followers of one leader, in the order of their names."""

    def __init__(
        self,
        own_id: str,
        term: int,
        log: RaftLog,
        options: RaftOptions,
        send: Callable[[AnyMessage], None],
    ) -> None:
        self._own_id = own_id
        self._term = term
        self._log = log
        self._options = options
        self._send = send
        self.followers: dict[str, FollowerProgress] = {}
        self._members = VotersAndLearners(())
        self.round = 0
        """Number of the newest round of heartbeats."""
        self._rounds_dropped = 0
        """The send times of rounds up to this number are not known."""

    def follow(self, members: VotersAndLearners, now: int) -> None:
        """Set the membership: new members are probed, removed members are forgotten.

        A member with another disk counts as new, because the data of its old disk is lost.
        """
        before, self._members = self._members, members
        others = [node for node in members.everyone if node != self._own_id]
        kept = {
            node: progress
            for node, progress in self.followers.items()
            if before.incarnation_of(node) == members.incarnation_of(node)
        }
        self.followers = {
            node: kept.get(node)
            or FollowerProgress(self._log.last_index + 1, now, known_since_round=self.round)
            for node in sorted(others)
        }

    # Sending ----------------------------------------------------------------------------------

    def send_all(self, now: int) -> None:
        """Send new entries to all followers whose window has room."""
        for node, progress in self.followers.items():
            if progress.next <= self._log.last_index:
                self.send_append(node, progress, now)

    def send_append(self, node: str, progress: FollowerProgress, now: int) -> None:
        """Send the next entries, or the snapshot if they are gone; the append may be empty."""
        if not progress.may_send(self._options):
            return
        prev_term = self._log.term_at(progress.next - 1)
        if prev_term is None:
            self._send_snapshot(node, progress, now)
            return
        prev = progress.next - 1
        entries = self._log.after(
            prev, self._options.append_bytes_max, limits.RAFT_ENTRIES_PER_MESSAGE_MAX
        )
        self._send(
            AppendEntries(
                self._own_id, node, self._term, prev, prev_term, self._log.commit, entries
            )
        )
        progress.sent(prev + len(entries), sum(len(entry.data) for entry in entries))

    def _send_snapshot(self, node: str, progress: FollowerProgress, now: int) -> None:
        """Send the snapshot to a node that needs entries which were removed (dledger#275)."""
        self._send(Install(self._own_id, node, self._term, self._log.snapshot))
        progress.sent_snapshot(self._log.snapshot.index, now)

    def heartbeat(self, now: int) -> None:
        """Start a round of heartbeats."""
        self.round += 1
        for node, progress in self.followers.items():
            commit = min(progress.match, self._log.commit)
            self._send(Heartbeat(self._own_id, node, self._term, commit, self.round, now))
            if (
                progress.pace is AppendPace.SNAPSHOT
                and now >= progress.snapshot_at + self._options.snapshot_resend_ms
            ):
                progress.probe_from(progress.match + 1)

    # Answers ----------------------------------------------------------------------------------

    def on_append_reply(self, reply: AppendReply, now: int) -> bool:
        """Handle an answer and send what follows. Return whether the follower's `match` rose."""
        progress = self.followers.get(reply.sender)
        if progress is None:
            return False
        progress.heard_at = now
        if reply.refused:
            agreed, _term = self._log.agreement(reply.hint_index, reply.hint_term)
            if progress.refused(reply.index, agreed):
                self.send_append(reply.sender, progress, now)
            return False
        news = progress.accepted(min(reply.index, self._log.last_index))
        while progress.next <= self._log.last_index and progress.may_send(self._options):
            self.send_append(reply.sender, progress, now)
        return news

    def on_heartbeat_reply(self, reply: HeartbeatReply, now: int) -> None:
        """Handle the answer to a heartbeat, and send entries that the follower lacks."""
        progress = self.followers.get(reply.sender)
        if progress is None:
            return
        progress.heard_at = now
        if progress.round < reply.round <= self.round:
            progress.round = reply.round
            if reply.round > self._rounds_dropped:
                progress.round_sent_at = min(reply.sent_at_ms, now)
        progress.answered_heartbeat(self._options)
        if progress.match < self._log.last_index:
            self.send_append(reply.sender, progress, now)

    def drop_rounds(self) -> None:
        """Forget the send times of all rounds, because the clock did not count some time."""
        self._rounds_dropped = self.round
        for progress in self.followers.values():
            progress.round_sent_at = None

    # Quorum -----------------------------------------------------------------------------------

    def _quorum(self, of: Callable[[FollowerProgress], int], own: int) -> int:
        values = [
            own if voter == self._own_id else of(self.followers[voter])
            for voter in self._members.voters
        ]
        return reached_by_quorum(self._members, values)

    def matched(self, own_stable: int) -> int:
        """Return the highest index that a majority has on its devices."""
        return self._quorum(lambda progress: progress.match, own_stable)

    def confirmed_round(self) -> int:
        """Return the newest round that a majority answered."""
        return self._quorum(lambda progress: progress.round, self.round)

    def heard_at(self, now: int) -> int:
        """Return the latest time since which a majority was heard."""
        return self._quorum(lambda progress: progress.heard_at, now)

    def round_sent_at(self, now: int) -> int | None:
        """Return when the newest heartbeat was sent that a majority answered; None before the
        first.
        """
        at = self._quorum(
            lambda progress: -1 if progress.round_sent_at is None else progress.round_sent_at, now
        )
        return at if at >= 0 else None
