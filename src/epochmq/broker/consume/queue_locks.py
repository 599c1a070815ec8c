"""Queue locks: at most one client of a group holds a queue, for 60 s at a time.

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
from epochmq.model.topic import MessageQueue

LIFE_MS = 60_000
VOTE_LIFE_MS = 65_000
"""A client may believe for 60 s after an answer that took 1 s that it holds the lock; what is left
allows clocks to run at rates that differ by 6 per cent (INV-31)."""


NOBODY = ""
"""The asker of a lock that no member asked for: a client's own question, or a Java member's."""


class Attempt(NamedTuple):
    """One question for votes: who asked, and a number that rises with each of its questions."""

    asker: str
    number: int


@dataclass(slots=True)
class _Lease:
    """What one asker had this broker promise."""

    until_ms: int
    number: int | None
    """Of its last question; None for one that was read from the file: renewals are not saved, so
    nothing that can arrive is known to be later, and nothing frees it before it is renewed."""
    before_ms: int = 0
    """Until when it ran before that question; 0 when it did not."""


@dataclass(slots=True)
class _Held:
    """Who holds a queue, and by whom it was asked for. A client that changed brokers holds it by
    both until the first one's lease runs out: what it once asked that one for, to lock and to
    unlock, may be carried out late, and must not end what the other one promised (ADR 0054)."""

    client_id: str
    leases: dict[str, _Lease]

    @property
    def until_ms(self) -> int:
        return max(lease.until_ms for lease in self.leases.values())


class _LockRow(msgspec.Struct, rename="camel"):
    """One lock as it is saved."""

    group: str
    topic: str
    broker_name: str
    queue_id: int
    client_id: str
    askers: list[str] = []


class _LocksFile(msgspec.Struct):
    locks: list[_LockRow] = []


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
        granted = [
            queue for queue in queues if self._lock_queue(held, queue, client_id, now, attempt)
        ]
        if not held:
            del self._groups[group]
        return granted

    def _lock_queue(
        self,
        held: dict[MessageQueue, _Held],
        queue: MessageQueue,
        client_id: str,
        now: int,
        attempt: Attempt | None,
    ) -> bool:
        lock = held.get(queue)
        if lock is None and len(held) >= limits.LOCKS_PER_GROUP_MAX:
            return False
        if lock is not None and lock.client_id != client_id and lock.until_ms >= now:
            return False
        if lock is None or lock.client_id != client_id:
            held[queue] = _Held(client_id, {})
            self.dirty = True
        return self._promise(held[queue].leases, now, attempt)

    def _promise(self, leases: dict[str, _Lease], now: int, attempt: Attempt | None) -> bool:
        asker, number = attempt or (NOBODY, 0)
        lease = leases.get(asker)
        if lease is None:
            for over in [name for name, other in leases.items() if other.until_ms < now]:
                del leases[over]
            if len(leases) >= limits.REPLICAS_MAX:
                return False
            leases[asker] = _Lease(now + self.life_ms, number)
            self.dirty = True
            return True
        lease.before_ms = lease.until_ms if lease.until_ms >= now else 0
        lease.until_ms = now + self.life_ms
        # Questions of one asker may arrive in another order than they were asked in.
        lease.number = max(lease.number or 0, number)
        return True

    def follow(
        self,
        group: str,
        queues: Iterable[MessageQueue],
        client_id: str,
        now: int,
        attempt: Attempt,
    ) -> None:
        """A majority without this broker's vote gave `queues` to the client: the vote it has for
        somebody else stands for nothing any more."""
        held = self._groups.get(group, {})
        for queue in queues:
            if queue in held:
                if held[queue].client_id != client_id:
                    held[queue] = _Held(client_id, {})
                self._promise(held[queue].leases, now, attempt)

    def undo_locks(
        self, group: str, queues: Iterable[MessageQueue], client_id: str, attempt: Attempt
    ) -> None:
        """Undo what `attempt` did: who held before holds as long as before, others no more."""
        held = self._groups.get(group, {})
        for queue in queues:
            lock = held.get(queue)
            if lock is None or lock.client_id != client_id:
                continue
            lease = lock.leases.get(attempt.asker)
            if lease is None or lease.number != attempt.number:
                continue
            if lease.before_ms:
                lease.until_ms = lease.before_ms
            else:
                _end(held, queue, attempt.asker)
        if not held:
            self._groups.pop(group, None)

    def unlock(
        self,
        group: str,
        queues: Iterable[MessageQueue],
        client_id: str,
        attempt: Attempt | None = None,
    ) -> int:
        """Give back those of `queues` that `client_id` owns; how many are free now.

        With an attempt only what the same asker had asked for before: news that come late must not
        free a lock that was taken since, nor one that was taken by way of another (INV-31).
        """
        held = self._groups.get(group)
        if held is None:
            return 0
        before = len(held)
        for queue in queues:
            lock = held.get(queue)
            if lock is None or lock.client_id != client_id:
                continue
            for asker, lease in list(lock.leases.items()):
                if attempt is None or _covers(attempt, asker, lease):
                    _end(held, queue, asker)
        freed = before - len(held)
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

    def another_holds(self, group: str, queue: MessageQueue, client_id: str, now: int) -> bool:
        """Whether this broker knows that the queue is somebody else's at `now`."""
        return self.owner(group, queue, now) not in (None, client_id)

    def any_live(self, group: str, now: int) -> bool:
        """Whether the group holds any lock: then it consumes in order."""
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
        """Who owns what: `{"locks": [{"group", "topic", ..., "clientId", "askers"}]}`."""
        rows = [
            _row(group, queue, lock)
            for group, held in self._groups.items()
            for queue, lock in held.items()
        ]
        return msgspec.json.encode(_LocksFile(rows))

    def load(self, content: dict[str, Any]) -> None:
        for row in msgspec.convert(content, _LocksFile).locks:
            queue = MessageQueue(row.topic, row.broker_name, row.queue_id)
            until_ms = self._start_ms + self.life_ms
            leases = {asker: _Lease(until_ms, None) for asker in row.askers or (NOBODY,)}
            self._groups.setdefault(row.group, {})[queue] = _Held(row.client_id, leases)


def _row(group: str, queue: MessageQueue, lock: _Held) -> _LockRow:
    place = (group, queue.topic, queue.broker_name, queue.queue_id)
    return _LockRow(*place, lock.client_id, list(lock.leases))


def _end(held: dict[MessageQueue, _Held], queue: MessageQueue, asker: str) -> None:
    """End one asker's lease, and the lock with the last one."""
    leases = held[queue].leases
    del leases[asker]
    if not leases:
        del held[queue]


def _covers(told: Attempt, asker: str, lease: _Lease) -> bool:
    if asker == NOBODY:
        return True
    return asker == told.asker and lease.number is not None and lease.number <= told.number
