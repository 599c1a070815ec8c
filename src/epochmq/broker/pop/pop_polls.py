"""Long polling of POP: pop and notification requests that wait for messages.

Requests are grouped by (topic, group, queue). A pop reads its topic and both retry topics, so a new
message in any of the three wakes it. Waiting requests are served one after the other, in their
order, until one finds nothing: a message wakes one consumer of a group, not all of them.
"""

from typing import NamedTuple, Protocol

from epochmq.broker.consume.long_polling import LongPoll
from epochmq.broker.pop.pop_records import sources
from epochmq.model.topic import ANY_QUEUE


class PollKey(NamedTuple):
    """What a request waits for; `notify` is True for notifications and False for pops."""

    topic: str
    group: str
    queue_id: int
    notify: bool = False

    @property
    def place(self) -> str:
        return f"{'n' if self.notify else 'p'}{self.topic}@{self.group}"


class WaitingPop(Protocol):
    """A request that can wait; `deadline` is monotonic ms."""

    key: PollKey
    deadline: int

    @property
    def owner(self) -> int:
        """The number of the request's connection."""
        ...

    def note_held(self) -> None:
        """Note that the request waits for messages."""
        ...


class PopPolls:
    """All waiting POP requests; limited in total, for each key, and in the number of keys."""

    def __init__(self, *, per_key_max: int, keys_max: int, total_max: int) -> None:
        self.polls: LongPoll[WaitingPop] = LongPoll(per_queue_max=per_key_max, total_max=total_max)
        self._keys_max = keys_max
        self._by_topic: dict[str, dict[PollKey, None]] = {}
        self._keys: dict[PollKey, None] = {}

    def __len__(self) -> int:
        return len(self.polls)

    def hold(self, request: WaitingPop) -> bool:
        """Keep a request until `news` or its deadline; return False if a limit is reached."""
        key = request.key
        if key not in self._keys:
            if len(self._keys) >= self._keys_max:
                self._sweep()
            if len(self._keys) >= self._keys_max:
                return False
            self._keys[key] = None
            for topic in sources(key.group, key.topic):
                self._by_topic.setdefault(topic, {})[key] = None
        request.note_held()
        return self.polls.hold(key.place, key.queue_id, 0, request.owner, request.deadline, request)

    def news(self, topic: str, queue_id: int) -> list[PollKey]:
        """Return the keys whose requests may be served now that a queue of `topic` has messages."""
        keys = self._by_topic.get(topic)
        if not keys:
            return []
        return [key for key in keys if key.queue_id in (ANY_QUEUE, queue_id) or key.topic != topic]

    def keys_of(self, group: str, topic: str) -> list[PollKey]:
        """Return the keys of a group that wait for messages of `topic`, in any queue."""
        return [key for key in self._by_topic.get(topic, ()) if key.group == group]

    def first(self, key: PollKey) -> WaitingPop | None:
        """Remove and return the request of `key` that has waited longest; None if none waits."""
        return self.polls.pop_first(key.place, key.queue_id)

    def leave(self, group: str, owner: int) -> list[WaitingPop]:
        """Remove and return the waiting requests of one connection for a group."""
        return self.polls.pop_of_owner(owner, lambda request: request.key.group == group)

    def waiting(self, key: PollKey) -> int:
        return self.polls.waiting(key.place, key.queue_id)

    def statistics(self) -> dict[str, int]:
        return {**self.polls.statistics(), "keys": len(self._keys)}

    def _sweep(self) -> None:
        """Remove the keys for which no request waits."""
        for key in [key for key in self._keys if not self.waiting(key)]:
            del self._keys[key]
            for topic in sources(key.group, key.topic):
                del self._by_topic[topic][key]
                if not self._by_topic[topic]:
                    del self._by_topic[topic]
