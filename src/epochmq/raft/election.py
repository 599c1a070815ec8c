"""Standing for election: the count of one ballot, and when it is time for one.

A pre-vote asks whether an election could be won before the term rises, so a node that was cut off
and comes back deposes nobody (thesis 9.6). Who heard from a leader less than an election timeout
ago votes for nobody else, on which the leader's lease rests (thesis 6.4.1).
"""

from collections.abc import Iterable

from epochmq.base.ports import Rng
from epochmq.base.safeguards import Safeguards
from epochmq.raft.options import RaftOptions
from epochmq.raft.raft_messages import VotersAndLearners


class Ballot:
    """Votes in one election or pre-vote; only voters of the membership are counted."""

    def __init__(self, members: VotersAndLearners) -> None:
        self._members = members
        self._votes: dict[str, bool] = {}

    def record(self, voter: str, granted: bool) -> None:
        """Count a vote; a voter's first word stands, and learners have none."""
        if voter in self._members.voters:
            self._votes.setdefault(voter, granted)

    @property
    def won(self) -> bool:
        return sum(self._votes.values()) >= self._members.quorum

    @property
    def lost(self) -> bool:
        refused = len(self._votes) - sum(self._votes.values())
        return len(self._members.voters) - refused < self._members.quorum


class ElectionTimer:
    """When a node loses patience, and until when it stays loyal."""

    def __init__(self, options: RaftOptions, rng: Rng, now: int, *, restarted: bool) -> None:
        self._timeout_ms = options.election_timeout_ms
        self._rng = rng
        self._loyal_until = now + self._timeout_ms if restarted else now
        self.deadline = 0
        self.restart(now)

    def restart(self, now: int) -> None:
        """Patience anew, of a random length so that two nodes seldom stand at once."""
        self.deadline = now + self._timeout_ms + self._rng.randrange(self._timeout_ms)

    def heard_leader(self, now: int) -> None:
        self._loyal_until = now + self._timeout_ms
        self.restart(now)

    def is_loyal(self, now: int, safe: Safeguards) -> bool:
        """A leader may hold a lease that rests on this node.

        A restarted node does not know what it promised, so it waits as long as a promise lasts.
        """
        return safe.check_quorum and now < self._loyal_until


def reached_by_quorum(members: VotersAndLearners, reached: Iterable[int]) -> int:
    """The highest value that a majority of the voters has reached; 0 for those not given."""
    values = sorted(reached, reverse=True)
    return values[members.quorum - 1] if len(values) >= members.quorum else 0
