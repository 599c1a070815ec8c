"""The living masters of the cluster's other groups, which topics they have, and who rests.

Fed with what name servers say; `wants` says what to ask them. An answer that says less than the
one before, and no answer, are not the same: on no answer what is known stays.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from epochmq.base import limits
from epochmq.base.backoff import backoff_ms
from epochmq.model.names import DEFAULT_TOPIC
from epochmq.model.revive_routing import place_of

REFRESH_MS = 2_000
"""How old masters and topics may be while something is to be handed over."""
AGAIN_MS = 300
"""Pause after a question that was not answered, and between two askings in any case."""
REST_MS, REST_MAX_MS = 200, 5_000
"""How long a master that was not reached is left alone: doubled from the first to the last."""
FORGET_MS = 600_000
"""A topic that nothing was handed over to for so long is asked for no more."""


class Wants(NamedTuple):
    """Questions to the name servers: the cluster's groups, and where topics are."""

    groups: bool
    topics: list[str]


@dataclass(slots=True)
class _TopicMasters:
    wanted_at_ms: int
    due_ms: int = 0
    asking: bool = False
    known: bool = False
    queues: Mapping[str, int] = field(default_factory=dict)
    """Queues that may be written to, by group."""


@dataclass(slots=True)
class _Rest:
    failures: int
    until_ms: int


class Masters:
    """`now` is monotonic ms."""

    def __init__(self) -> None:
        self.addresses: dict[str, str] = {}
        """Address by name of the group."""
        self.known = False
        """Whether name servers ever said who there is."""
        self._topics: dict[str, _TopicMasters] = {}
        self._rests: dict[str, _Rest] = {}
        self._due_ms = 0
        self._asking = False

    # What name servers say -------------------------------------------------------------------

    def wants(self, now: int) -> Wants:
        """What to ask now; each is to be answered by `came` or `failed`."""
        for topic in [t for t, k in self._topics.items() if now - k.wanted_at_ms >= FORGET_MS]:
            if not self._topics[topic].asking:
                del self._topics[topic]
        groups = not self._asking and self._due_ms <= now
        self._asking = self._asking or groups
        topics = [
            t for t, known in self._topics.items() if not known.asking and known.due_ms <= now
        ]
        for topic in topics:
            self._topics[topic].asking = True
        return Wants(groups, topics)

    def groups_came(self, addresses: Mapping[str, str], now: int) -> None:
        """The masters of the other groups, address by name."""
        self._asking = False
        self.known = True
        self._due_ms = now + REFRESH_MS
        for name, address in addresses.items():
            if self.addresses.get(name) != address:
                self._rests.pop(name, None)  # a new one is not guilty
        self.addresses = dict(addresses)
        self._rests = {name: rest for name, rest in self._rests.items() if name in addresses}

    def groups_failed(self, now: int) -> None:
        self._asking = False
        self._due_ms = now + AGAIN_MS

    def topic_came(self, topic: str, queues: Mapping[str, int], now: int) -> None:
        known = self._topics.get(topic)
        if known is not None:
            known.queues, known.known, known.asking = queues, True, False
            known.due_ms = now + REFRESH_MS

    def topic_failed(self, topic: str, now: int) -> None:
        known = self._topics.get(topic)
        if known is not None:
            known.asking = False
            known.due_ms = now + AGAIN_MS

    def look_again(self, now: int) -> None:
        """Something was not as it is known here: ask soon."""
        self._due_ms = min(self._due_ms, now + AGAIN_MS)
        for known in self._topics.values():
            known.due_ms = min(known.due_ms, now + AGAIN_MS)

    def next_deadline(self) -> int | None:
        """When `wants` answers something."""
        due = [known.due_ms for known in self._topics.values() if not known.asking]
        if not self._asking:
            due.append(self._due_ms)
        return min(due, default=None)

    # Who may take what -----------------------------------------------------------------------

    def want(self, topic: str, now: int) -> bool:
        """Keep it known where `topic` is; whether it is known, and who the masters are."""
        known = self._topics.get(topic)
        if known is None:
            if len(self._topics) >= limits.ROUTES_WATCHED_MAX:
                return False
            known = self._topics[topic] = _TopicMasters(now)
        known.wanted_at_ms = now
        return known.known and self.known

    def queues(self, topic: str) -> dict[str, int]:
        """How many queues of `topic` can be written to at each living master that has any."""
        known = self._topics.get(topic)
        if known is None:
            return {}
        return {name: known.queues[name] for name in self.addresses if known.queues.get(name, 0)}

    def making(self, now: int) -> list[str] | None:
        """Masters that make a topic on the first send to it; None when that is not known yet."""
        return list(self.queues(DEFAULT_TOPIC)) if self.want(DEFAULT_TOPIC, now) else None

    def at(self, place: int) -> str | None:
        """The master that a pin names."""
        return next((name for name in self.addresses if place_of(name) == place), None)

    # Who rests -------------------------------------------------------------------------------

    def rests_until(self, name: str) -> int:
        """Until when a master is left alone; 0 when it is not."""
        rest = self._rests.get(name)
        return 0 if rest is None else rest.until_ms

    def failed(self, name: str, now: int) -> None:
        """It was not reached, or said nothing."""
        rest = self._rests.get(name)
        if rest is not None and rest.until_ms > now:
            return  # another of those that were under way together
        failures = 0 if rest is None else rest.failures + 1
        pause = backoff_ms(failures, REST_MS, REST_MAX_MS)
        self._rests[name] = _Rest(failures, now + pause)
        self.look_again(now)

    def served(self, name: str) -> None:
        """It answered."""
        self._rests.pop(name, None)
