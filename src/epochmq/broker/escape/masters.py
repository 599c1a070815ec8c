"""Living masters of the cluster's other groups: addresses, topics, and recent failures.

The name servers' answers are passed in; `wants` returns what to ask. An answer that lists less
replaces the earlier one; without an answer the earlier one stays.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from epochmq.base import limits
from epochmq.base.backoff import backoff_ms
from epochmq.model.names import DEFAULT_TOPIC
from epochmq.model.revive_routing import place_of

REFRESH_MS = 2_000
"""The greatest age of the lists of masters and topics while messages are being sent (ms)."""
AGAIN_MS = 300
"""The pause after a question without an answer, and the least pause between two questions (ms)."""
REST_MS, REST_MAX_MS = 200, 5_000
"""How long an unreachable master gets no messages (ms): it doubles from the first to the second
value."""
FORGET_MS = 600_000
"""The name servers are not asked for a topic any more when no message went to it for so long
(ms)."""


class Wants(NamedTuple):
    """Questions to the name servers: the cluster's groups, and the routes of topics."""

    groups: bool
    topics: list[str]


@dataclass(slots=True)
class _TopicMasters:
    wanted_at_ms: int
    due_ms: int = 0
    asking: bool = False
    known: bool = False
    queues: Mapping[str, int] = field(default_factory=dict)
    """The number of writable queues, by group."""


@dataclass(slots=True)
class _Rest:
    failures: int
    until_ms: int


class Masters:
    """The known masters and topics; `now` is monotonic ms."""

    def __init__(self) -> None:
        self.addresses: dict[str, str] = {}
        """The master's address, by group name."""
        self.known = False
        """Whether a name server has ever listed the groups."""
        self._topics: dict[str, _TopicMasters] = {}
        self._rests: dict[str, _Rest] = {}
        self._due_ms = 0
        self._asking = False

    # What name servers say -------------------------------------------------------------------

    def wants(self, now: int) -> Wants:
        """Return what to ask now; report each result by the `..._came` and `..._failed` methods."""
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
        """Record the masters of the other groups, address by group name."""
        self._asking = False
        self.known = True
        self._due_ms = now + REFRESH_MS
        for name, address in addresses.items():
            if self.addresses.get(name) != address:
                self._rests.pop(name, None)  # a new address starts without failures
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
        """Ask again soon: an answer of a master did not match what is known here."""
        self._due_ms = min(self._due_ms, now + AGAIN_MS)
        for known in self._topics.values():
            known.due_ms = min(known.due_ms, now + AGAIN_MS)

    def next_deadline(self) -> int | None:
        """Return when `wants` has a question (ms)."""
        due = [known.due_ms for known in self._topics.values() if not known.asking]
        if not self._asking:
            due.append(self._due_ms)
        return min(due, default=None)

    # Masters for a topic ---------------------------------------------------------------------

    def want(self, topic: str, now: int) -> bool:
        """Keep the route of `topic` up to date; return whether it and the masters are known."""
        known = self._topics.get(topic)
        if known is None:
            if len(self._topics) >= limits.ROUTES_WATCHED_MAX:
                return False
            known = self._topics[topic] = _TopicMasters(now)
        known.wanted_at_ms = now
        return known.known and self.known

    def queues(self, topic: str) -> dict[str, int]:
        """Return the number of writable queues of `topic` at each living master that has any."""
        known = self._topics.get(topic)
        if known is None:
            return {}
        return {name: known.queues[name] for name in self.addresses if known.queues.get(name, 0)}

    def making(self, now: int) -> list[str] | None:
        """Return the masters that create a topic on the first send to it; None when not known
        yet."""
        return list(self.queues(DEFAULT_TOPIC)) if self.want(DEFAULT_TOPIC, now) else None

    def at(self, place: int) -> str | None:
        """Return the master that a pinned queue number names."""
        return next((name for name in self.addresses if place_of(name) == place), None)

    # Failures --------------------------------------------------------------------------------

    def rests_until(self, name: str) -> int:
        """Return until when a master gets no messages (ms); 0 when it gets them."""
        rest = self._rests.get(name)
        return 0 if rest is None else rest.until_ms

    def failed(self, name: str, now: int) -> None:
        """Note that a master was not reached, or did not answer."""
        rest = self._rests.get(name)
        if rest is not None and rest.until_ms > now:
            return  # a send of the same time failed already
        failures = 0 if rest is None else rest.failures + 1
        pause = backoff_ms(failures, REST_MS, REST_MAX_MS)
        self._rests[name] = _Rest(failures, now + pause)
        self.look_again(now)

    def served(self, name: str) -> None:
        """Note that a master answered."""
        self._rests.pop(name, None)
