"""Queue locks: at most one client of a group holds a queue, for 60 s at a time (remoting.md 2.5).

The owner is the client id, not the connection: a consumer that reconnects keeps its locks.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from epochmq.base import limits
from epochmq.model.queue import MessageQueue

LIFE_MS = 60_000


@dataclass(slots=True)
class _Held:
    client_id: str
    until_ms: int


class QueueLocks:
    """Locks by group and queue; `now` is monotonic milliseconds."""

    def __init__(self, *, life_ms: int = LIFE_MS) -> None:
        self.life_ms = life_ms
        self._groups: dict[str, dict[MessageQueue, _Held]] = {}

    def lock(
        self, group: str, queues: Iterable[MessageQueue], client_id: str, now: int
    ) -> list[MessageQueue]:
        """Take or renew each of `queues`; those that `client_id` holds now."""
        held = self._groups.setdefault(group, {})
        granted = [queue for queue in queues if self._take(held, queue, client_id, now)]
        if not held:
            del self._groups[group]
        return granted

    def _take(
        self, held: dict[MessageQueue, _Held], queue: MessageQueue, client_id: str, now: int
    ) -> bool:
        lock = held.get(queue)
        if lock is None:
            if len(held) >= limits.LOCKS_PER_GROUP_MAX:
                return False
            held[queue] = _Held(client_id, now + self.life_ms)
            return True
        if lock.client_id != client_id and lock.until_ms >= now:
            return False
        lock.client_id = client_id
        lock.until_ms = now + self.life_ms
        return True

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> int:
        """Give back those of `queues` that `client_id` owns; how many."""
        held = self._groups.get(group)
        if held is None:
            return 0
        freed = 0
        for queue in queues:
            lock = held.get(queue)
            if lock is not None and lock.client_id == client_id:
                del held[queue]
                freed += 1
        if not held:
            del self._groups[group]
        return freed

    def leave(self, group: str, client_id: str) -> int:
        """The client left the group for good: give back all that it holds there; how many."""
        held = self._groups.get(group, {})
        own = [queue for queue, lock in held.items() if lock.client_id == client_id]
        return self.unlock(group, own, client_id)

    def owner(self, group: str, queue: MessageQueue, now: int) -> str | None:
        """Who holds the queue at `now`."""
        lock = self._groups.get(group, {}).get(queue)
        return lock.client_id if lock is not None and lock.until_ms >= now else None

    def any_live(self, group: str, now: int) -> bool:
        """Whether the group holds any lock: then it consumes in order (remoting.md 2.1)."""
        return any(lock.until_ms >= now for lock in self._groups.get(group, {}).values())

    def expire(self, now: int) -> int:
        """Forget locks that ran out; how many. Only to save memory: they hold nobody off."""
        gone = 0
        for group in list(self._groups):
            held = self._groups[group]
            dead = [queue for queue, lock in held.items() if lock.until_ms < now]
            gone += len(dead)
            for queue in dead:
                del held[queue]
            if not held:
                del self._groups[group]
        return gone

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))
