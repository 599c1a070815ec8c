"""Unconfirmed followers: the controllers must confirm their ids before they count.

Any client of the replication port can send any id. A follower whose id is neither in the sync-state
set nor known to be registered waits without an answer, and does not count, until the controllers
were asked. Their answer decides, because a replica registers before it connects.

Learners with ids above those of brokers are not replicas. They read the log as any client may,
never join the set, and do not count (ADR 0041).
"""

from epochmq.base.limits import BROKER_ID_MAX
from epochmq.replication.frames import Hello
from epochmq.replication.link import ReplicaLink

Guest = tuple[ReplicaLink, Hello]


class UnconfirmedFollowers:
    """The waiting followers. `registered` is None without controllers; then every id is
    accepted.
    """

    def __init__(self, registered: frozenset[int] | None) -> None:
        self.registered = registered
        self._asking = False
        self._asked: dict[int, Guest] = {}
        """By link: followers that connected before the running question."""
        self._later: dict[int, Guest] = {}

    def __len__(self) -> int:
        return len(self._asked) + len(self._later)

    def is_known(self, hello: Hello, members: frozenset[int]) -> bool:
        """Whether a follower may shake hands at once; `members` are the ids of the
        sync-state set.
        """
        number = hello.follower_id
        if self.registered is None or number is None:
            return True  # a follower without an id counts as a learner
        if number > BROKER_ID_MAX:
            return hello.learner
        return number in members or number in self.registered

    def hold(self, link: ReplicaLink, hello: Hello) -> bool:
        """Let a follower wait. Return whether the controllers must be asked now."""
        waiting = self._later if self._asking else self._asked
        waiting[link.number] = link, hello
        ask, self._asking = not self._asking, True
        return ask

    def drop(self, number: int) -> None:
        """Forget a closed link."""
        self._asked.pop(number, None)
        self._later.pop(number, None)

    def set_registered(self, registered: frozenset[int]) -> tuple[list[Guest], bool]:
        """Note the controllers' answer. Return who waited for it, and whether to ask again for
        others.
        """
        self.registered = registered
        waited, self._asked = list(self._asked.values()), {}
        self._asked, self._later = self._later, {}
        self._asking = bool(self._asked)
        return waited, self._asking
