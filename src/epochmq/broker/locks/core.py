"""Queue locks: at most one client of a group holds a queue, for 60 s at a time (remoting.md 2.5).

The owner is the client id, not the connection: a consumer that reconnects keeps its locks.

In strict mode a lock is this broker's vote (ADR 0052). A vote outlives a crash, for one that is
forgotten could be given twice: who owns what is saved before it is answered, and after a start
every owner has a whole life again, because nobody can tell how long the broker was away.
Renewals need no saving then.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from epochmq.base import limits
from epochmq.model.queue import MessageQueue

LIFE_MS = 60_000
VOTE_LIFE_MS = 65_000
"""A client may believe for 60 s after an answer that took 1 s that it holds the lock; what is left
allows clocks to run at rates that differ by 6 per cent (INV-31)."""


class Attempt(NamedTuple):
    """One question for votes: who asked, and a number that rises with each of its questions."""

    asker: str
    number: int


@dataclass(slots=True)
class _Held:
    client_id: str
    until_ms: int
    attempt: Attempt | None = None
    before_ms: int = 0
    """Until when it held before that attempt; 0 when it did not."""


class _Row(msgspec.Struct, rename="camel"):
    """One lock as it is saved."""

    group: str
    topic: str
    broker_name: str
    queue_id: int
    client_id: str
    asker: str = ""
    number: int = 0


class _File(msgspec.Struct):
    locks: list[_Row] = []


class QueueLocks:
    """Locks by group and queue; `now` is monotonic milliseconds, `start_ms` that of the start."""

    file = "config/queueLocks.json"
    """EpochMQ's own, and kept in strict mode only."""

    def __init__(self, *, life_ms: int = LIFE_MS, start_ms: int = 0) -> None:
        self.life_ms = life_ms
        self._start_ms = start_ms
        self._groups: dict[str, dict[MessageQueue, _Held]] = {}
        self.dirty = False
        """Somebody became an owner since the last save."""

    def lock(
        self,
        group: str,
        queues: Iterable[MessageQueue],
        client_id: str,
        now: int,
        attempt: Attempt | None = None,
    ) -> list[MessageQueue]:
        """Take or renew each of `queues`; those that `client_id` holds now."""
        held = self._groups.setdefault(group, {})
        granted = [queue for queue in queues if self._take(held, queue, client_id, now, attempt)]
        if not held:
            del self._groups[group]
        return granted

    def _take(
        self,
        held: dict[MessageQueue, _Held],
        queue: MessageQueue,
        client_id: str,
        now: int,
        attempt: Attempt | None,
    ) -> bool:
        lock = held.get(queue)
        if lock is None:
            if len(held) >= limits.LOCKS_PER_GROUP_MAX:
                return False
            held[queue] = _Held(client_id, now + self.life_ms, attempt)
            self.dirty = True
            return True
        alive = lock.until_ms >= now
        if lock.client_id != client_id and alive:
            return False
        if lock.client_id != client_id:
            self.dirty = True
            held[queue] = _Held(client_id, now + self.life_ms, attempt)
            return True
        lock.before_ms = lock.until_ms if alive else 0
        lock.until_ms = now + self.life_ms
        lock.attempt = _later(lock.attempt, attempt)
        return True

    def take_back(
        self, group: str, queues: Iterable[MessageQueue], client_id: str, attempt: Attempt
    ) -> None:
        """Undo what `attempt` did: who held before holds as long as before, others no more."""
        held = self._groups.get(group, {})
        for queue in queues:
            lock = held.get(queue)
            if lock is None or lock.client_id != client_id or lock.attempt != attempt:
                continue
            if lock.before_ms:
                lock.until_ms = lock.before_ms
            else:
                del held[queue]
        if not held:
            self._groups.pop(group, None)

    def unlock(
        self,
        group: str,
        queues: Iterable[MessageQueue],
        client_id: str,
        attempt: Attempt | None = None,
    ) -> int:
        """Give back those of `queues` that `client_id` owns; how many.

        With an attempt only what the same asker had asked for before: news that come late must not
        free a lock that was taken since (INV-31). What another asked for runs out by itself.
        """
        held = self._groups.get(group)
        if held is None:
            return 0
        freed = 0
        for queue in queues:
            lock = held.get(queue)
            if lock is not None and lock.client_id == client_id and _covers(attempt, lock.attempt):
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

    # Its file --------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """Who owns what: `{"locks": [{"group", "topic", ..., "clientId", "asker", "number"}]}`."""
        rows = [
            _row(group, queue, lock)
            for group, held in self._groups.items()
            for queue, lock in held.items()
        ]
        return msgspec.json.encode(_File(rows))

    def load(self, content: dict[str, Any]) -> None:
        for row in msgspec.convert(content, _File).locks:
            queue = MessageQueue(row.topic, row.broker_name, row.queue_id)
            attempt = Attempt(row.asker, row.number) if row.asker else None
            held = self._groups.setdefault(row.group, {})
            held[queue] = _Held(row.client_id, self._start_ms + self.life_ms, attempt)


def _row(group: str, queue: MessageQueue, lock: _Held) -> _Row:
    asker, number = lock.attempt or ("", 0)
    return _Row(
        *(group, queue.topic, queue.broker_name, queue.queue_id, lock.client_id, asker, number)
    )


def _later(old: Attempt | None, new: Attempt | None) -> Attempt | None:
    """Questions of one asker may arrive in another order than they were asked in."""
    if old is None or new is None or old.asker != new.asker:
        return new
    return max(old, new)


def _covers(told: Attempt | None, held: Attempt | None) -> bool:
    if told is None or held is None:
        return True
    return told.asker == held.asker and told.number >= held.number
