"""Route cache: the readable queues of topics on all brokers, as the name servers report them.

A broker also assigns queues of other brokers to clients, so it needs routes like a client. A topic
is queried at its first use and again every poll interval; it is forgotten when it was not used for
some time. An old route is used while no newer one is available.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from epochmq.base import limits
from epochmq.model.topic import MessageQueue

Queues = tuple[MessageQueue, ...]
Waiter = Callable[[Queues | None], None]
"""Callback that gets the queues; None if they are unknown."""

UNWANTED_MS = 600_000
"""A topic that was not used for this time (ms) is forgotten."""

RETRY_MS = 1_000
"""Pause (ms) after a failure, or for a topic that no name server knows."""


@dataclass(slots=True)
class _BookTopic:
    wanted_at_ms: int
    due_at_ms: int
    asking: bool = False
    queues: Queues | None = None
    waiters: list[Waiter] = field(default_factory=list)


class RouteBook:
    """The queues of each topic in use; `now` is monotonic ms."""

    def __init__(self, poll_ms: int) -> None:
        self._poll_ms = poll_ms
        self._topics: dict[str, _BookTopic] = {}

    def find(self, topic: str, now: int, waiter: Waiter) -> None:
        """Pass the queues of `topic` to `waiter`: at once if they are known, otherwise later.

        `waiter` gets None at once after a recent failure, or if too many topics are watched.
        """
        known = self._topics.get(topic)
        if known is None:
            if len(self._topics) >= limits.ROUTES_WATCHED_MAX:
                waiter(None)
                return
            known = self._topics[topic] = _BookTopic(now, now)
        known.wanted_at_ms = now
        if known.queues is not None:
            waiter(known.queues)
        elif known.asking or known.due_at_ms <= now:
            known.waiters.append(waiter)
        else:
            waiter(None)  # it failed a moment ago

    def due(self, now: int) -> list[str]:
        """Return the topics to query now; call `came` or `failed` for each with the result."""
        self._forget(now)
        found = []
        for topic, known in self._topics.items():
            if not known.asking and known.due_at_ms <= now:
                known.asking = True
                found.append(topic)
        return found

    def came(self, topic: str, queues: Queues, now: int) -> None:
        """Take the queues of `topic` from a name server; empty means that the topic is unknown."""
        known = self._topics.get(topic)
        if known is None:
            return
        known.queues = queues or None
        self._finish_lookup(known, now + (self._poll_ms if queues else RETRY_MS))

    def failed(self, topic: str, now: int) -> None:
        """Note that no name server answered; known queues stay."""
        known = self._topics.get(topic)
        if known is not None:
            self._finish_lookup(known, now + RETRY_MS)

    def next_deadline(self) -> int | None:
        return min((t.due_at_ms for t in self._topics.values() if not t.asking), default=None)

    def statistics(self) -> dict[str, int]:
        return {
            "topics": len(self._topics),
            "waiting": sum(len(known.waiters) for known in self._topics.values()),
        }

    def _finish_lookup(self, known: _BookTopic, due_at_ms: int) -> None:
        known.asking = False
        known.due_at_ms = due_at_ms
        waiters, known.waiters = known.waiters, []
        for waiter in waiters:
            waiter(known.queues)

    def _forget(self, now: int) -> None:
        old = [
            topic
            for topic, known in self._topics.items()
            if not known.waiters and not known.asking and now - known.wanted_at_ms >= UNWANTED_MS
        ]
        for topic in old:
            del self._topics[topic]
