"""Counting votes for queue locks: one ballot for one client's request (strict mode, ADR 0052).

A queue is the client's with the votes of more than half of `totalReplicas`, which is configured and
does not shrink with the living members: two clients can never have a majority each (INV-31).
"""

from collections.abc import Collection, Iterable

from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.model.queue import MessageQueue


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
