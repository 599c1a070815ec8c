"""Queue locks: at most one client of a consumer group holds a queue, for 60 s at a time.

RocketMQ's RebalanceLockManager. The owner is the client id, not the connection: a consumer that
reconnects keeps its locks.

In strict mode a lock is this broker's vote (ADR 0052). A vote must survive a crash, because a lost
vote could be given twice. So the owners are saved before a request is answered. After a start each
owner has a full lease again, because nobody knows how long the broker was down; so renewals need
not be saved.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from epochmq.base import limits
from epochmq.model.topic import MessageQueue

LIFE_MS = 60_000
VOTE_LIFE_MS = 65_000
"""Lifetime (ms) of a vote. A client assumes for 60 s after an answer, which may take 1 s, that it
holds the lock. The rest allows for clock rates that differ by 6 per cent (INV-31)."""


NOBODY = ""
"""The asker if no EpochMQ group member asked: the client itself did, or a Java member."""


class Attempt(NamedTuple):
    """One request for votes: the member that asks, and its rising request number."""

    asker: str
    number: int


@dataclass(slots=True)
class _Lease:
    """The promise that this broker gave to one asker."""

    until_ms: int
    number: int | None
    """Number of the asker's last request. None if the lease was read from the file: renewals are
    not saved, so no arriving request is known to be later, and none can end the lease before it is
    renewed."""
    before_ms: int = 0
    """End of the lease before that request (monotonic ms); 0 if there was none."""


@dataclass(slots=True)
class _Held:
    """The client that holds a queue, and the leases by asker.

    A client that changed brokers has a lease by both askers until the first lease ends. Delayed
    requests of the first asker must not end the lease of the second one (ADR 0054).
    """

    client_id: str
    leases: dict[str, _Lease]

    @property
    def until_ms(self) -> int:
        return max(lease.until_ms for lease in self.leases.values())


class _LockRow(msgspec.Struct, rename="camel"):
    """One lock in the file."""

    group: str
    topic: str
    broker_name: str
    queue_id: int
    client_id: str
    askers: list[str] = []


class _LocksFile(msgspec.Struct):
    locks: list[_LockRow] = []


class QueueLocks:
    """Locks by group and queue.

    `now` is monotonic ms; `start_ms` is the monotonic time of the start.
    """

    file = "config/queueLocks.json"
    """EpochMQ only; written in strict mode only."""

    def __init__(self, *, life_ms: int = LIFE_MS, start_ms: int = 0) -> None:
        self.life_ms = life_ms
        self._start_ms = start_ms
        self._groups: dict[str, dict[MessageQueue, _Held]] = {}
        self.dirty = False
        """Whether an owner or an asker was added since the last save."""

    def lock(
        self,
        group: str,
        queues: Iterable[MessageQueue],
        client_id: str,
        now: int,
        attempt: Attempt | None = None,
    ) -> list[MessageQueue]:
        """Lock or renew each of `queues`; return those that `client_id` holds now."""
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
        # Requests of one asker may arrive out of order.
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
        """Follow a majority that gave `queues` to the client without this broker's vote.

        A vote of this broker for another client is void.
        """
        held = self._groups.get(group, {})
        for queue in queues:
            if queue in held:
                if held[queue].client_id != client_id:
                    held[queue] = _Held(client_id, {})
                self._promise(held[queue].leases, now, attempt)

    def undo_locks(
        self, group: str, queues: Iterable[MessageQueue], client_id: str, attempt: Attempt
    ) -> None:
        """Undo the locks of `attempt`: restore the end of an earlier lease, remove a new one."""
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
        """Unlock those of `queues` that `client_id` owns; return how many are free now.

        With an attempt, only leases that the same asker requested earlier are ended: a delayed
        request must not free a later lock, nor a lock by another asker (INV-31).
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
        """Unlock all queues of a client that left the group; return how many."""
        held = self._groups.get(group, {})
        own = [queue for queue, lock in held.items() if lock.client_id == client_id]
        return self.unlock(group, own, client_id)

    def owner(self, group: str, queue: MessageQueue, now: int) -> str | None:
        """Return the id of the client that holds the queue at `now`; None if none does."""
        lock = self._groups.get(group, {}).get(queue)
        return lock.client_id if lock is not None and lock.until_ms >= now else None

    def another_holds(self, group: str, queue: MessageQueue, client_id: str, now: int) -> bool:
        """Return whether another client holds the queue at `now`, as far as this broker knows."""
        return self.owner(group, queue, now) not in (None, client_id)

    def any_live(self, group: str, now: int) -> bool:
        """Return whether the group holds any lock; if so, it consumes in order."""
        return any(lock.until_ms >= now for lock in self._groups.get(group, {}).values())

    def expire(self, now: int) -> int:
        """Remove expired locks to save memory; return how many. They have no effect anyway."""
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

    # The file --------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """Encode the owners: `{"locks": [{"group", "topic", ..., "clientId", "askers"}]}`."""
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
    """End the lease of one asker; the last lease also ends the lock."""
    leases = held[queue].leases
    del leases[asker]
    if not leases:
        del held[queue]


def _covers(told: Attempt, asker: str, lease: _Lease) -> bool:
    if asker == NOBODY:
        return True
    return asker == told.asker and lease.number is not None and lease.number <= told.number
