"""Followers whose ids the controllers have to confirm before they count for anything.

Whoever reaches the replication port can call itself by any number. A number that is neither in the
set nor known to be registered waits, without an answer and without counting for anything, until the
controllers were asked; what they say then is decisive, since a replica registers before it calls.

Learners with ids above all brokers' are no replicas: they read the log as any client may, never
join, and count for nothing (ADR 0041).
"""

from epochmq.base.limits import BROKER_ID_MAX
from epochmq.replication.frames import Hello
from epochmq.replication.link import ReplicaLink

Guest = tuple[ReplicaLink, Hello]


class UnconfirmedFollowers:
    """`registered` is None where there are no controllers to ask: then every id is known."""

    def __init__(self, registered: frozenset[int] | None) -> None:
        self.registered = registered
        self._asking = False
        self._asked: dict[int, Guest] = {}
        """By link: who called before the question that is under way."""
        self._later: dict[int, Guest] = {}

    def __len__(self) -> int:
        return len(self._asked) + len(self._later)

    def is_known(self, hello: Hello, members: frozenset[int]) -> bool:
        """Whether it may shake hands at once; `members` are known by the set they are in."""
        number = hello.follower_id
        if self.registered is None or number is None:
            return True  # without an id it is as a learner
        if number > BROKER_ID_MAX:
            return hello.learner
        return number in members or number in self.registered

    def hold(self, link: ReplicaLink, hello: Hello) -> bool:
        """Let it wait; whether the controllers are to be asked now."""
        waiting = self._later if self._asking else self._asked
        waiting[link.number] = link, hello
        ask, self._asking = not self._asking, True
        return ask

    def drop(self, number: int) -> None:
        """That link is gone."""
        self._asked.pop(number, None)
        self._later.pop(number, None)

    def set_registered(self, registered: frozenset[int]) -> tuple[list[Guest], bool]:
        """What the controllers answered: who waited for it, and whether to ask again for others."""
        self.registered = registered
        waited, self._asked = list(self._asked.values()), {}
        self._asked, self._later = self._later, {}
        self._asking = bool(self._asked)
        return waited, self._asking
