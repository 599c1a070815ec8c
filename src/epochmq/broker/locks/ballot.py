"""One client's request in strict mode, at the broker that counts: two ballots at the most.

Pure: the shell names the members, sends the questions and the undoing, and knows the time. The
order is the law here (INV-31): own votes are given first, saved by the shell before anybody is
asked, and what was not won is taken back everywhere before the client is answered.

A broker whose own vote is for somebody else asks all the same where the others are a majority
without it: a master that was away may keep a vote whose owner gave the queue back meanwhile. What
they give is its own vote from then on, for it is by that vote that commits are judged (ADR 0054).
"""

from collections.abc import Collection, Iterable

from epochmq.broker.locks.queue_locks import Attempt, QueueLocks
from epochmq.broker.locks.quorum import LockBallot
from epochmq.model.queue import MessageQueue

AGAIN_WITHIN_MS = 300
"""A second try begins only this early: the client waits for a second."""
PAUSE_MS = 20, 120
"""The least and the most before the second try: two clients that began together may both have
lost (H23)."""


class LockRequest:
    """`granted` is the answer once the last ballot has ended."""

    ballot: LockBallot

    def __init__(
        self,
        locks: QueueLocks,
        group: str,
        client_id: str,
        queues: Iterable[MessageQueue],
        quorum: int,
        now: int,
    ) -> None:
        self.granted: list[MessageQueue] = []
        self._locks = locks
        self._group = group
        self._client_id = client_id
        self._left = list(queues)
        self._quorum = quorum
        self._began_ms = now
        self._ballots = 0
        self._members: Collection[int] = ()
        self._refused: Collection[MessageQueue] = ()
        self._attempt = Attempt("", 0)

    def begin(self, members: Collection[int], attempt: Attempt, now: int) -> list[MessageQueue]:
        """Give the own votes, to be saved now; what all `members` are to be asked for then."""
        locks, group, client_id, left = self._locks, self._group, self._client_id, self._left
        renewed = frozenset(q for q in left if locks.owner(group, q, now) == client_id)
        own = locks.lock(group, left, client_id, now, attempt)
        refused = [q for q in left if q not in own] if len(members) >= self._quorum else []
        self._refused = frozenset(refused)
        self._members, self._attempt = members, attempt
        self.ballot = LockBallot(own, members, self._quorum, renewed, refused)
        return own + refused

    def end(self, now: int) -> dict[int, list[MessageQueue]]:
        """The ballot is over; which member is to undo which votes. The own are set right here, to
        be saved before the client is answered."""
        self._ballots += 1
        ballot, locks = self.ballot, self._locks
        granted = ballot.granted
        self.granted += granted
        self._left = ballot.lost
        locks.undo_locks(self._group, ballot.lost, self._client_id, self._attempt)
        won = [queue for queue in granted if queue in self._refused]
        locks.follow(self._group, won, self._client_id, now, self._attempt)
        return ballot.votes_to_undo(self._members)

    def tries_again(self, now: int) -> bool:
        """Whether a second ballot may bring what the first did not; there is no third."""
        early = self._ballots == 1 and now - self._began_ms <= AGAIN_WITHIN_MS
        return early and bool(self._left) and self.ballot.contested
