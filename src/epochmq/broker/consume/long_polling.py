"""Long polling: pull requests that wait for new messages (RocketMQ's PullRequestHoldService).

A request waits for the first message at or behind its `offset` in one queue, until its deadline.
The number of waiting requests is limited for each queue and for the broker; `hold` returns False at
a limit. A closed connection removes its requests. The module is pure: input is `now` (monotonic
ms), output are the requests to execute again.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from epochmq.base.errors import check
from epochmq.wire.session import Session

R = TypeVar("R")

SLOT_MS = 100
"""Deadlines are grouped in slots of this length (ms); a wait may last up to one slot longer."""


class Waiter(Generic[R]):
    """One held request: wakes when `topic`/`queue_id` holds a message at `offset`."""

    __slots__ = ("deadline", "number", "offset", "owner", "queue", "request", "slot")

    def __init__(
        self,
        number: int,
        queue: tuple[str, int],
        offset: int,
        owner: int,
        deadline: int,
        request: R,
    ) -> None:
        self.number = number
        self.queue = queue
        self.offset = offset
        self.owner = owner
        self.deadline = deadline
        self.slot = -(-deadline // SLOT_MS)
        self.request = request


class LongPoll(Generic[R]):
    """All waiting requests of a broker, indexed by queue, by time slot and by connection.

    Each index is a dict of dicts by waiter number. So the order is the order of arrival, and
    removal is O(1): a busy queue wakes its consumers thousands of times a second, and a heap with
    lazy deletion would keep 15 seconds of dead entries.
    """

    def __init__(self, *, per_queue_max: int, total_max: int) -> None:
        self._per_queue_max = per_queue_max
        self._total_max = total_max
        self._number = 0
        self._count = 0
        self._by_queue: dict[tuple[str, int], dict[int, Waiter[R]]] = {}
        self._by_slot: dict[int, dict[int, Waiter[R]]] = {}
        self._by_owner: dict[int, dict[int, Waiter[R]]] = {}
        self._earliest_slot: int | None = None
        self._refused = 0
        self._woken = 0
        self._expired = 0

    def __len__(self) -> int:
        return self._count

    def hold(
        self, topic: str, queue_id: int, offset: int, owner: int, deadline: int, request: R
    ) -> bool:
        """Keep `request` until the queue holds a message at `offset`, or until `deadline`.

        `owner` is the number of the connection, `deadline` is monotonic ms. Returns False if a
        limit is reached.
        """
        queue = (topic, queue_id)
        waiting = self._by_queue.get(queue)
        if self._count >= self._total_max or (
            waiting is not None and len(waiting) >= self._per_queue_max
        ):
            self._refused += 1
            return False
        self._number = number = self._number + 1
        waiter = Waiter(number, queue, offset, owner, deadline, request)
        if waiting is None:
            waiting = self._by_queue[queue] = {}
        waiting[number] = waiter
        self._by_slot.setdefault(waiter.slot, {})[number] = waiter
        self._by_owner.setdefault(owner, {})[number] = waiter
        if self._earliest_slot is None or waiter.slot < self._earliest_slot:
            self._earliest_slot = waiter.slot
        self._count += 1
        return True

    def notify(self, topic: str, queue_id: int, new_max: int) -> list[R]:
        """Remove and return the requests to execute now that the queue ends at `new_max`."""
        waiting = self._by_queue.get((topic, queue_id))
        if waiting is None:
            return []
        ready = [waiter for waiter in waiting.values() if waiter.offset < new_max]
        self._woken += len(ready)
        return self._pop_waiters(ready)

    def pop_first(self, topic: str, queue_id: int) -> R | None:
        """Remove and return the longest waiting request of a queue, whatever its offset."""
        waiting = self._by_queue.get((topic, queue_id))
        if waiting is None:
            return None
        self._woken += 1
        return self._pop_waiters([next(iter(waiting.values()))])[0]

    def waiting(self, topic: str, queue_id: int) -> int:
        """Return the number of requests that wait for a queue."""
        return len(self._by_queue.get((topic, queue_id), ()))

    def expire(self, now: int) -> list[R]:
        """Remove and return the requests whose deadline has passed.

        The caller executes them once more and answers them in any case.
        """
        slot_now = now // SLOT_MS
        if self._earliest_slot is None or self._earliest_slot > slot_now:
            return []
        over: list[Waiter[R]] = []
        for slot in sorted(slot for slot in self._by_slot if slot <= slot_now):
            over.extend(self._by_slot[slot].values())
        self._expired += len(over)
        taken = self._pop_waiters(over)
        self._earliest_slot = min(self._by_slot, default=None)
        return taken

    def drop(self, owner: int) -> int:
        """Remove all requests of a closed connection; return how many."""
        waiters = self._by_owner.get(owner)
        return len(self._pop_waiters(list(waiters.values()))) if waiters else 0

    def pop_of_owner(self, owner: int, wanted: Callable[[R], bool]) -> list[R]:
        """Remove and return the requests of a connection for which `wanted` is true."""
        waiters = self._by_owner.get(owner, {}).values()
        return self._pop_waiters([waiter for waiter in waiters if wanted(waiter.request)])

    def pop_all(self) -> list[R]:
        """Remove and return all requests, for a stop or a role change; each gets an answer."""
        everything = [w for waiting in self._by_queue.values() for w in waiting.values()]
        self._earliest_slot = None
        return self._pop_waiters(sorted(everything, key=_number_of))

    def next_deadline(self) -> int | None:
        """Return when `expire` is needed next (monotonic ms); may be early, never late."""
        return None if self._earliest_slot is None else self._earliest_slot * SLOT_MS

    def statistics(self) -> dict[str, int]:
        return {
            "held": self._count,
            "queues": len(self._by_queue),
            "refused": self._refused,
            "woken": self._woken,
            "expired": self._expired,
        }

    def _pop_waiters(self, waiters: list[Waiter[R]]) -> list[R]:
        for waiter in waiters:
            _forget(self._by_queue, waiter.queue, waiter.number)
            _forget(self._by_slot, waiter.slot, waiter.number)
            _forget(self._by_owner, waiter.owner, waiter.number)
        self._count -= len(waiters)
        check(self._count >= 0, "long poll: count of waiters")
        if self._count == 0:
            self._earliest_slot = None
        return [waiter.request for waiter in waiters]


K = TypeVar("K")


def _forget(index: dict[K, dict[int, Waiter[R]]], key: K, number: int) -> None:
    group = index[key]
    del group[number]
    if not group:
        del index[key]


def _number_of(waiter: Waiter[R]) -> int:
    return waiter.number


# Request -------------------------------------------------------------------------------------
# A pull request with all fields that its later execution needs.


class PullRequest(msgspec.Struct, eq=False, kw_only=True):
    """A pull request that may wait."""

    session: Session
    opaque: int
    code: int
    """The request code."""
    arrived_ms: int
    """Monotonic time of the arrival."""
    group: str
    topic: str
    queue_id: int
    offset: int
    """The queue offset to read from; moves on if the new messages do not match the filter."""
    max_count: int
    accept: Callable[[int], bool] | None = None
    """Filters by the tags code of a consume queue unit; None lets all messages pass."""
    verify: Callable[[memoryview], bool | None] | None = None
    """Filters by the whole record; None lets all messages pass."""
    topic_sys_flag: int = 0
    group_sys_flag: int = 0
    suggested_broker: int = 0
    slow_broker: int = 0
    """Id of the broker that is suggested to a client that reads old messages; 0 is the master."""
    binary: bool = False
    """Whether the request had a binary header; its answer then needs one too."""
    was_held: bool = False
    """Whether it waited for messages."""
    deadline: int = 0
    """Monotonic ms until which the request may wait; 0 means that it must not wait."""
