"""Elections: counting the votes of one election, and the election timeout.

A pre-vote asks whether an election could be won, before the term rises. So a node that was cut off
and returns does not depose a leader (thesis 9.6). A node that heard from a leader less than an
election timeout ago votes for no other node; the leader's lease depends on that (thesis 6.4.1).
"""

from collections.abc import Iterable

from epochmq.base.ports import Rng
from epochmq.base.safeguards import Safeguards
from epochmq.raft.options import RaftOptions
from epochmq.raft.raft_messages import VotersAndLearners


class Ballot:
    """The votes of one election or pre-vote. Only voters of the membership are counted."""

    def __init__(self, members: VotersAndLearners) -> None:
        self._members = members
        self._votes: dict[str, bool] = {}

    def record(self, voter: str, granted: bool) -> None:
        """Count a vote. Only the first vote of a voter counts; learners have no vote."""
        if voter in self._members.voters:
            self._votes.setdefault(voter, granted)

    @property
    def won(self) -> bool:
        """Whether a majority granted its vote."""
        return sum(self._votes.values()) >= self._members.quorum

    @property
    def lost(self) -> bool:
        """Whether a majority can no longer be reached."""
        refused = len(self._votes) - sum(self._votes.values())
        return len(self._members.voters) - refused < self._members.quorum


class ElectionTimer:
    """When a node starts an election, and until when it refuses to vote for another leader."""

    def __init__(self, options: RaftOptions, rng: Rng, now: int, *, restarted: bool) -> None:
        self._timeout_ms = options.election_timeout_ms
        self._rng = rng
        self._loyal_until = now + self._timeout_ms if restarted else now
        self.deadline = 0
        self.restart(now)

    def restart(self, now: int) -> None:
        """Set a new deadline, with a random part so that two nodes rarely start
        elections together.
        """
        self.deadline = now + self._timeout_ms + self._rng.randrange(self._timeout_ms)

    def heard_leader(self, now: int) -> None:
        """Note a message of the leader at `now`."""
        self._loyal_until = now + self._timeout_ms
        self.restart(now)

    def is_loyal(self, now: int, safe: Safeguards) -> bool:
        """Whether the node must not vote now, because a leader may hold a lease that depends on it.

        A restarted node does not know what it promised, so it waits as long as a promise lasts.
        """
        return safe.check_quorum and now < self._loyal_until


def reached_by_quorum(members: VotersAndLearners, reached: Iterable[int]) -> int:
    """Return the highest value that a majority of the voters has reached; 0 without a majority."""
    values = sorted(reached, reverse=True)
    return values[members.quorum - 1] if len(values) >= members.quorum else 0
