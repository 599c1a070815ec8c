"""Queue locks in strict mode: votes of the group's members decide a client's lock request.

A request takes at most two ballots. This module does no I/O: the service names the members, sends
the requests and the undo requests, and knows the time. The order matters (INV-31): the broker gives
its own votes first and saves them before it asks any member; votes for queues that were not won are
undone everywhere before the client is answered.

A broker whose own vote belongs to another client asks the members all the same where they are a
majority without it: a master that was away may keep a vote whose owner gave the queue back
meanwhile. The members' decision then becomes its own vote, because commits are judged by that vote
(ADR 0054).
"""

import logging
from collections.abc import Callable, Collection, Iterable
from functools import partial

from epochmq.base.errors import EnvironmentFault, Refused
from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.broker.consume.queue_locks import Attempt, QueueLocks
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.state.saved_files import encode_file
from epochmq.model.topic import MessageQueue
from epochmq.wire.codes import ResponseCode
from epochmq.wire.headers.group_headers import LockBatchHeader, UnlockBatchHeader
from epochmq.wire.session import Session

# Quorum --------------------------------------------------------------------------------------
# Counts votes for queue locks: one ballot for one client's request (strict mode, ADR 0052).
#
# A client owns a queue with the votes of more than half of `totalReplicas`. That number is
# configured and does not shrink with the living members, so two clients can never both have a
# majority (INV-31).


def quorum_of(replicas: int, safe: Safeguards = SAFE) -> int:
    """Return how many votes make a lock; it is 2 of 2, so with two replicas both must live."""
    return replicas // 2 + 1 if safe.lock_quorum else 1


class LockBallot:
    """Counts the votes of one ballot: `own` are this broker's votes, `members` are asked.

    `refused`: other queues, for which this broker has no vote left; a majority may be found without
    it. `renewed`: queues that the client already held here; their votes are undone only at members
    that can undo exactly one vote.
    """

    def __init__(
        self,
        own: Iterable[MessageQueue],
        members: Iterable[int],
        quorum: int,
        renewed: Collection[MessageQueue] = (),
        refused: Iterable[MessageQueue] = (),
    ) -> None:
        self._votes = dict.fromkeys(own, 1) | dict.fromkeys(refused, 0)
        self._quorum = quorum
        self._renewed = renewed
        self._open = set(members)
        self._exact: set[int] = set()
        self._granted: dict[int, frozenset[MessageQueue]] = {}

    @property
    def decided(self) -> bool:
        """Whether no answer that is still missing can change the result."""
        left = len(self._open)
        return all(
            votes >= self._quorum or votes + left < self._quorum for votes in self._votes.values()
        )

    @property
    def granted(self) -> list[MessageQueue]:
        """The queues that the client owns by the votes so far."""
        return [queue for queue, votes in self._votes.items() if votes >= self._quorum]

    @property
    def lost(self) -> list[MessageQueue]:
        """The queues that the client does not own by the votes so far."""
        return [queue for queue, votes in self._votes.items() if votes < self._quorum]

    @property
    def contested(self) -> bool:
        """Whether a member voted for another client; a later ballot may have another result."""
        return any(granted != self._votes.keys() for granted in self._granted.values())

    def voted(self, member: int, queues: Iterable[MessageQueue], *, exact: bool) -> None:
        """Count the votes of `member`; `exact`: the member can undo exactly this vote and nothing
        more."""
        if member not in self._open:
            return
        self._open.remove(member)
        if exact:
            self._exact.add(member)
        granted = frozenset(queues) & self._votes.keys()
        self._granted[member] = granted
        for queue in granted:
            self._votes[queue] += 1

    def silent(self, member: int) -> None:
        """Count no vote for a member that did not answer usably in time; it may have voted all the
        same."""
        self._open.discard(member)

    def votes_to_undo(self, members: Iterable[int]) -> dict[int, list[MessageQueue]]:
        """Return which queues each of `members` must undo. Partial votes would keep other clients
        off for the lifetime of a lock (H23)."""
        wanted = {}
        for member in members:
            voted = self._granted.get(member, frozenset(self._votes))
            exact = member in self._exact
            queues = [q for q in self.lost if q in voted and (exact or q not in self._renewed)]
            if queues:
                wanted[member] = queues
        return wanted


# Ballot --------------------------------------------------------------------------------------


AGAIN_WITHIN_MS = 300
"""A second ballot begins only within this time (ms), because the client waits for one second."""
PAUSE_MS = 20, 120
"""The shortest and the longest pause before the second ballot (ms); two clients that began together
may both have lost (H23)."""


class LockRequest:
    """One client's request; `granted` is the answer after the last ballot."""

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
        """Give this broker's votes, which the caller saves now; return the queues to ask all
        `members` for."""
        locks, group, client_id, left = self._locks, self._group, self._client_id, self._left
        renewed = frozenset(q for q in left if locks.owner(group, q, now) == client_id)
        own = locks.lock(group, left, client_id, now, attempt)
        refused = [q for q in left if q not in own] if len(members) >= self._quorum else []
        self._refused = frozenset(refused)
        self._members, self._attempt = members, attempt
        self.ballot = LockBallot(own, members, self._quorum, renewed, refused)
        return own + refused

    def end(self, now: int) -> dict[int, list[MessageQueue]]:
        """End the ballot; return which member must undo which votes. The own votes are changed
        here, and must be saved before the client is answered."""
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
        """Return whether a second ballot may bring more; there is no third."""
        early = self._ballots == 1 and now - self._began_ms <= AGAIN_WITHIN_MS
        return early and bool(self._left) and self.ballot.contested


# Votes ---------------------------------------------------------------------------------------
# This broker's own votes in strict mode: which members it answers, how votes are saved, and
# which commits they block.


log = logging.getLogger(__name__)


def attempt_of(header: LockBatchHeader | UnlockBatchHeader) -> Attempt | None:
    """Return which member's attempt a request belongs to; None for a client's request, or a Java
    member's."""
    if header.lockAsker is None or header.lockNumber is None:
        return None
    return Attempt(header.lockAsker, header.lockNumber)


def check_same_rules(node: BrokerContext, header: LockBatchHeader) -> None:
    """Raise `Refused` for a member with other rules for counting votes: majorities might not
    overlap."""
    options = node.options
    if not options.lock_in_strict_mode:
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            "lockInStrictMode is off at this member: it gives no votes, for it forgets them when it"
            " is restarted",
        )
    if header.totalReplicas != options.total_replicas:
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"totalReplicas is {options.total_replicas} at this member, not"
            f" {header.totalReplicas}; it must be the same at all",
        )


def save_votes(node: BrokerContext, done: Callable[[Refused | None], None]) -> None:
    """Save the votes in the background, then call `done`; a promised vote must survive a crash.

    `done` gets a `Refused` when the disk does not take the votes. The vote then stays in memory and
    keeps other clients off the queue; the client gets it on its next try.
    """
    table = node.locks
    if table.dirty:
        data, table.dirty = encode_file(table), False
        write: Callable[[], None] = partial(node.disk.write_file, table.file, data, backup=True)
    else:
        write = _nothing  # keeps the order: an earlier vote may still be on its way to the disk

    def written(error: EnvironmentFault | None) -> None:
        if error is None:
            done(None)
            return
        table.dirty = True
        log.error("locks cannot be saved now: %(error)s", {"error": error})
        text = "service not available now: locks cannot be saved"
        done(Refused(ResponseCode.SERVICE_NOT_AVAILABLE, text))

    node.ports.write_in_background(write, written)


def _nothing() -> None:
    """Write nothing; only waits for earlier writes."""


def another_holds(
    node: BrokerContext, session: Session, group: str, topic: str, queue_id: int, now: int
) -> bool:
    """Return whether, in strict mode, another client than the consumer that asks owns the queue.

    A consumer that was away for longer than its lock lives may find another owner; its late commit
    would move the owner's progress back (INV-31). A client that is not a member of the group may
    commit.
    """
    if not node.options.lock_in_strict_mode:
        return False
    members = node.consumers.groups.get(group)
    member = None if members is None else members.members.get(session.id)
    if member is None:
        return False
    queue = MessageQueue(topic, node.options.broker_name, queue_id)
    return node.locks.another_holds(group, queue, member.client_id, now)
