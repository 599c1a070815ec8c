"""One client's request in strict mode, at the broker that counts: two ballots at the most.

Pure: the shell names the members, sends the questions and the undoing, and knows the time. The
order is the law here (INV-31): own votes are given first, saved by the shell before anybody is
asked, and what was not won is taken back everywhere before the client is answered.

A broker whose own vote is for somebody else asks all the same where the others are a majority
without it: a master that was away may keep a vote whose owner gave the queue back meanwhile. What
they give is its own vote from then on, for it is by that vote that commits are judged (ADR 0054).
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
# Counting votes for queue locks: one ballot for one client's request (strict mode, ADR 0052).
#
# A queue is the client's with the votes of more than half of `totalReplicas`, which is
# configured and does not shrink with the living members: two clients can never have a majority
# each (INV-31).


def quorum_of(replicas: int, safe: Safeguards = SAFE) -> int:
    """Votes that make a lock; 2 of 2, so with two replicas both must live."""
    return replicas // 2 + 1 if safe.lock_quorum else 1


class LockBallot:
    """`own` are the queues that the asking broker itself votes for, `members` those it asks.

    `refused` are others, for which it has no vote left: a majority may be found without it.
    `renewed` are queues that the client held here before: their votes are not taken back from
    members that would take back too much.
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
        """Whether no answer that is still to come can change anything."""
        left = len(self._open)
        return all(
            votes >= self._quorum or votes + left < self._quorum for votes in self._votes.values()
        )

    @property
    def granted(self) -> list[MessageQueue]:
        """What the client has, by the votes so far."""
        return [queue for queue, votes in self._votes.items() if votes >= self._quorum]

    @property
    def lost(self) -> list[MessageQueue]:
        """What it has not."""
        return [queue for queue, votes in self._votes.items() if votes < self._quorum]

    @property
    def contested(self) -> bool:
        """Whether a member voted for somebody else: at another moment it may not."""
        return any(granted != self._votes.keys() for granted in self._granted.values())

    def voted(self, member: int, queues: Iterable[MessageQueue], *, exact: bool) -> None:
        """An answer; `exact` from a member that can undo this very vote and nothing more."""
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
        """No answer in time, or one that says nothing: no vote. It may have voted all the same."""
        self._open.discard(member)

    def votes_to_undo(self, members: Iterable[int]) -> dict[int, list[MessageQueue]]:
        """Of `members`, all that were asked, what each is to undo: partial votes would keep others
        off for as long as a lock lives (H23)."""
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


# Votes ---------------------------------------------------------------------------------------
# This broker's own votes in strict mode: whom it answers, what it keeps, what they guard.


log = logging.getLogger(__name__)


def attempt_of(header: LockBatchHeader | UnlockBatchHeader) -> Attempt | None:
    """Which member's question it is; None for a client's, and for a Java member's."""
    if header.lockAsker is None or header.lockNumber is None:
        return None
    return Attempt(header.lockAsker, header.lockNumber)


def check_same_rules(node: BrokerContext, header: LockBatchHeader) -> None:
    """`Refused` for a member that counts votes otherwise: majorities might not meet."""
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
    """Before an answer leaves: what was promised must survive a crash. It is written beside the
    loop, then `done` is called.

    With a `Refused` when the disk does not take it; who was to own a queue keeps others off it
    then, and is told on the next try.
    """
    table = node.locks
    if table.dirty:
        data, table.dirty = encode_file(table), False
        write: Callable[[], None] = partial(node.disk.write_file, table.file, data, backup=True)
    else:
        write = _nothing  # in its turn: an earlier promise may be on its way to the disk

    def written(error: EnvironmentFault | None) -> None:
        if error is None:
            done(None)
            return
        table.dirty = True
        log.error("locks cannot be saved now: %s", error)
        text = "service not available now: locks cannot be saved"
        done(Refused(ResponseCode.SERVICE_NOT_AVAILABLE, text))

    node.ports.write_in_background(write, written)


def _nothing() -> None:
    """Only waits."""


def another_holds(
    node: BrokerContext, session: Session, group: str, topic: str, queue_id: int, now: int
) -> bool:
    """In strict mode, whether somebody else has the queue than the consumer that asks.

    One that was away for longer than its lock lives finds another in its place; what it commits
    then would put that one's progress back (INV-31). Who is no member of the group may commit.
    """
    if not node.options.lock_in_strict_mode:
        return False
    members = node.consumers.groups.get(group)
    member = None if members is None else members.members.get(session.id)
    if member is None:
        return False
    queue = MessageQueue(topic, node.options.broker_name, queue_id)
    return node.locks.another_holds(group, queue, member.client_id, now)
