"""Ordered POP: a queue hands out one batch at a time, and the next one when that is over.

A batch blocks its queue until each of its messages is acknowledged or the time of the last open one
is over; the same attempt (`attemptId`) may read its own batch again. The committed offset is that
of the first message without an acknowledgement. There are no check points: what is not acknowledged
is read again in its queue, in its order.

File: config/consumerOrderInfo.json in the form of RocketMQ 5.1 and later (facts/store.md 3.4).
Deadlines are kept on the monotonic clock; the file has wall times. Pure.
"""

import heapq
from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

import msgspec

from epochmq.base import limits
from epochmq.broker.pop.windows.core import QueueKey
from epochmq.wire import json_tolerant


class Verdict(Enum):
    """Why an acknowledgement moves no offset."""

    STALE = auto()
    """It belongs to a batch that is not out any more: its time was over."""
    ILLEGAL = auto()
    """The batch has no such message."""


class _Row(msgspec.Struct, omit_defaults=True):
    """A batch as the file has it."""

    popTime: int = 0
    i: int | None = None
    o: list[int] | None = None
    ot: dict[int, int] | None = None
    oc: dict[int, int] | None = None
    l: int = 0  # noqa: E741 - the file's name
    cm: int = 0
    a: str | None = None


class Batch:
    """What is out of one queue. `offsets` are queue offsets, `until` monotonic ms a message."""

    __slots__ = ("acked", "attempt_id", "counts", "invisible_time", "offsets", "pop_time",
                 "taken_wall_ms", "until", "visible_wall_ms")  # fmt: skip

    def __init__(self, pop_time: int, invisible_time: int, offsets: Sequence[int]) -> None:
        self.pop_time = pop_time
        self.invisible_time = invisible_time
        self.offsets = list(offsets)
        self.attempt_id: str | None = None
        self.counts: dict[int, int] = {}
        """How often a message was out before, for those that were."""
        self.acked = 0
        self.until: list[int] = []
        self.visible_wall_ms: dict[int, int] = {}
        """Only what an invisible time was changed for."""
        self.taken_wall_ms = pop_time

    def open_until(self) -> int:
        """When the last message without an acknowledgement is visible again; 0 for none."""
        return max(
            (at for bit, at in enumerate(self.until) if not self.acked >> bit & 1), default=0
        )

    def next_offset(self) -> int:
        """The first message without an acknowledgement, else what follows the last."""
        for bit, offset in enumerate(self.offsets):
            if not self.acked >> bit & 1:
                return offset
        return self.offsets[-1] + 1

    def acked_offsets(self) -> frozenset[int]:
        return frozenset(at for bit, at in enumerate(self.offsets) if self.acked >> bit & 1)


class Orders:
    """The batches of all queues."""

    file = "config/consumerOrderInfo.json"

    def __init__(self) -> None:
        self.dirty = False
        self._batches: dict[QueueKey, Batch] = {}
        self._frees: list[tuple[int, QueueKey]] = []
        self._loaded: dict[QueueKey, _Row] = {}

    def __len__(self) -> int:
        return len(self._batches)

    def begin(self, now: int, wall: int) -> None:
        """After `load`: from now on its wall times are deadlines; late is better than early."""
        for key, row in self._loaded.items():
            offsets = _absolute(row.o or [])
            batch = Batch(row.popTime, row.i or 0, offsets)
            batch.attempt_id, batch.counts, batch.acked = row.a, row.oc or {}, row.cm
            batch.visible_wall_ms, batch.taken_wall_ms = row.ot or {}, row.l
            for offset in offsets:
                at = batch.visible_wall_ms.get(offset, row.popTime + (row.i or 0))
                batch.until.append(now + max(at - wall, 0))
            if offsets:
                self._put(key, batch)
        self._loaded = {}

    def blocked(self, key: QueueKey, attempt_id: str | None, now: int) -> bool:
        """Whether nothing may be taken of the queue now."""
        batch = self._batches.get(key)
        if batch is None or (attempt_id and batch.attempt_id == attempt_id):
            return False
        return batch.open_until() > now

    def done_with(self, key: QueueKey) -> frozenset[int]:
        """Messages of the last batch that are acknowledged: they are not handed out again."""
        batch = self._batches.get(key)
        return frozenset() if batch is None else batch.acked_offsets()

    def out(
        self, key: QueueKey, attempt_id: str | None, pop: tuple[int, int], offsets: Sequence[int],
        now: int,
    ) -> tuple[dict[int, int], int] | None:  # fmt: skip
        """A batch is handed out; `pop` is its time (wall ms) and invisible time.

        Answers how often each message was out before, and the least of that; None when there are
        too many queues with batches.
        """
        old = self._batches.get(key)
        if old is None and len(self._batches) >= limits.POP_ORDER_QUEUES_MAX:
            return None
        batch = Batch(pop[0], pop[1], offsets)
        batch.attempt_id = attempt_id
        batch.until = [now + pop[1]] * len(batch.offsets)
        if old is not None:
            again = old.counts if attempt_id and attempt_id == old.attempt_id else None
            before = set(old.offsets)
            for offset in batch.offsets:
                if again is not None and offset in again:
                    batch.counts[offset] = again[offset]
                elif again is None and offset in before:
                    batch.counts[offset] = old.counts.get(offset, 0) + 1
        self._put(key, batch)
        least = min((batch.counts.get(offset, 0) for offset in batch.offsets), default=0)
        return dict(batch.counts), least

    def ack(self, key: QueueKey, offset: int, pop_time: int) -> int | Verdict:
        """A message is done with: the offset to commit, or why there is none.

        RocketMQ commits `offset` + 1 when it knows of no batch, as after a crash: the messages
        before it would be lost.
        """
        batch = self._batches.get(key)
        if batch is None or batch.pop_time != pop_time:
            return Verdict.STALE
        if offset not in batch.offsets:
            return Verdict.ILLEGAL
        batch.acked |= 1 << batch.offsets.index(offset)
        self._put(key, batch)
        return batch.next_offset()

    def change(
        self, key: QueueKey, offset: int, pop_time: int, invisible_time: int, now: int, wall: int
    ) -> bool:
        """Hide a message for another time from now on; False when it is not out any more."""
        batch = self._batches.get(key)
        if batch is None or batch.pop_time != pop_time or offset not in batch.offsets:
            return False
        batch.until[batch.offsets.index(offset)] = now + invisible_time
        batch.visible_wall_ms[offset] = wall + invisible_time
        self._put(key, batch)
        return True

    def freed(self, now: int) -> list[QueueKey]:
        """Queues whose block may be over: who waits for them should look."""
        found = []
        while self._frees and self._frees[0][0] <= now:
            _, key = heapq.heappop(self._frees)
            found.append(key)
        return found

    def next_deadline(self) -> int | None:
        return self._frees[0][0] if self._frees else None

    def forget(self, key: QueueKey) -> None:
        """The queue's offset was reset."""
        if self._batches.pop(key, None) is not None:
            self.dirty = True

    def clear(self) -> None:
        """Another role: another broker hands out these queues."""
        self.dirty = self.dirty or bool(self._batches)
        self._batches.clear()
        self._frees.clear()

    def statistics(self) -> dict[str, int]:
        return {"ordered": len(self._batches)}

    # The file --------------------------------------------------------------------------------

    def encode(self) -> bytes:
        table: dict[str, dict[int, _Row]] = {}
        for key, batch in self._batches.items():
            table.setdefault(f"{key.topic}@{key.group}", {})[key.queue_id] = _row(batch)
        return json_tolerant.dumps({"table": table})

    def load(self, content: dict[str, Any]) -> None:
        """Take over consumerOrderInfo.json; `begin` makes deadlines of its times."""
        table = msgspec.convert(
            content.get("table") or {}, dict[str, dict[int, _Row]], strict=False
        )
        self._loaded = {
            QueueKey(group, topic, queue_id): row
            for name, rows in table.items()
            for topic, _, group in (name.partition("@"),)
            for queue_id, row in rows.items()
        }

    def _put(self, key: QueueKey, batch: Batch) -> None:
        self._batches[key] = batch
        self.dirty = True
        heapq.heappush(self._frees, (batch.open_until(), key))
        if len(self._frees) > 4 * len(self._batches) + 64:
            self._frees = [(b.open_until(), k) for k, b in self._batches.items()]
            heapq.heapify(self._frees)


def _row(batch: Batch) -> _Row:
    first = batch.offsets[0]
    return _Row(
        popTime=batch.pop_time,
        i=batch.invisible_time,
        o=[first, *(offset - first for offset in batch.offsets[1:])],
        ot=batch.visible_wall_ms or None,
        oc=batch.counts or None,
        l=batch.taken_wall_ms,
        cm=batch.acked,
        a=batch.attempt_id,
    )


def _absolute(offsets: Sequence[int]) -> list[int]:
    """The first is an offset, the others are distances from it."""
    return [offsets[0], *(offsets[0] + delta for delta in offsets[1:])] if offsets else []
