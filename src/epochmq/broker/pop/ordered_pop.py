"""Ordered POP: a queue hands out one batch at a time, and the next one when that is over.

A batch blocks its queue until each of its messages is acknowledged or the time of the last open one
is over; the same attempt (`attemptId`) may read its own batch again. The committed offset is that
of the first message without an acknowledgement. There are no check points: what is not acknowledged
is read again in its queue, in its order.

File: config/consumerOrderInfo.json in the form of RocketMQ 5.1 and later, and
a DataVersion. Replicas copy it, as upstream's do not: whoever is
master next goes on in order, and hands out nothing that may be in a consumer's hands (ADR 0055).
What travels says by `wallMillis` what time it was. Pure.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any

import msgspec

from epochmq.base import limits
from epochmq.broker.pop.pop_windows import QueueKey
from epochmq.model.data_version import DataVersion
from epochmq.wire import json_tolerant

# Ordered batch -------------------------------------------------------------------------------
# What is out of one queue by an ordered pop, and its row in consumerOrderInfo.json.
#
# Deadlines are monotonic; rows have wall times. Pure.


class BatchRow(msgspec.Struct, omit_defaults=True):
    """A batch as the file has it."""

    popTime: int = 0
    i: int | None = None
    o: list[int] | None = None
    ot: dict[int, int] | None = None
    oc: dict[int, int] | None = None
    l: int = 0  # noqa: E741 - the file's name
    cm: int = 0
    a: str | None = None
    epochmqAhead: list[int] | None = None
    """Ours; see `OrderedBatch.ahead`."""
    epochmqHidden: dict[int, int] | None = None
    """Ours; see `OrderedBatch.hidden_ms`."""


class OrderedBatch:
    """What is out of one queue. `offsets` are queue offsets, `until` monotonic ms a message."""

    __slots__ = ("acked", "ahead", "attempt_id", "counts", "hidden_ms", "invisible_time", "offsets",
                 "pop_time", "taken_wall_ms", "until", "visible_wall_ms")  # fmt: skip

    def __init__(self, pop_time: int, invisible_time: int, offsets: Sequence[int]) -> None:
        self.pop_time = pop_time
        self.invisible_time = invisible_time
        self.offsets = list(offsets)
        self.attempt_id: str | None = None
        self.counts: dict[int, int] = {}
        """How often a message was out before, for those that were."""
        self.acked = 0
        self.ahead: frozenset[int] = frozenset()
        """Acknowledged in earlier batches, behind the first message of this one."""
        self.until: list[int] = []
        self.visible_wall_ms: dict[int, int] = {}
        """Only what an invisible time was changed for."""
        self.hidden_ms: dict[int, int] = {}
        """Of the same messages: for how long they were hidden then. After a restart or at another
        broker the wall clock may be another one: no message stays hidden for longer than this."""
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
        after = self.offsets[-1] + 1
        while after in self.ahead:
            after += 1
        return after

    def acked_offsets(self) -> frozenset[int]:
        """All that is known to be acknowledged, at and behind the first message."""
        mine = (at for bit, at in enumerate(self.offsets) if self.acked >> bit & 1)
        return self.ahead.union(mine)

    def follow(self, old: "OrderedBatch") -> None:
        """It is out instead of `old`: what is acknowledged of that stays so, though only a part of
        it, or what lies before, is out again."""
        self.ahead = frozenset(at for at in old.acked_offsets() if at > self.offsets[0])

    def hold_as(self, old: "OrderedBatch", now: int) -> None:
        """Its consumer may have `old` in its hands as well: what that hides longer stays so."""
        held = dict(zip(old.offsets, old.until, strict=True))
        for bit, offset in enumerate(self.offsets):
            if (until := held.get(offset, 0)) > self.until[bit]:
                self.until[bit] = until
                self.hide(offset, until - now, self.pop_time)

    def hide(self, offset: int, hidden_ms: int, wall: int) -> None:
        """Note that a message is hidden for `hidden_ms` from the wall time `wall` on."""
        self.visible_wall_ms[offset] = wall + hidden_ms
        self.hidden_ms[offset] = hidden_ms

    def ack_before(self, offset: int) -> bool:
        """What lies before the committed `offset` is acknowledged; whether that is news."""
        before = self.acked
        for bit, at in enumerate(self.offsets):
            if at < offset:
                self.acked |= 1 << bit
        return self.acked != before

    def is_after(self, other: "OrderedBatch") -> bool:
        """Whether it was out later than `other` of the same queue: a queue only goes on, and what
        comes again comes at a later time."""
        return (self.offsets[0], self.pop_time) > (other.offsets[0], other.pop_time)

    def join(self, other: "OrderedBatch") -> None:
        """`other` is the same batch as another broker knows it: acknowledged is what either says,
        hidden for the longer of both times."""
        self.acked |= other.acked
        self.ahead |= other.ahead
        self.until = [max(pair) for pair in zip(self.until, other.until, strict=True)]
        self.visible_wall_ms = {**self.visible_wall_ms, **other.visible_wall_ms}
        # A length belongs to its wall time: RocketMQ's rows have wall times without one.
        kept = {at: ms for at, ms in self.hidden_ms.items() if at not in other.visible_wall_ms}
        self.hidden_ms = kept | other.hidden_ms


def row_of(batch: OrderedBatch) -> BatchRow:
    first = batch.offsets[0]
    return BatchRow(
        popTime=batch.pop_time,
        i=batch.invisible_time,
        o=[first, *(offset - first for offset in batch.offsets[1:])],
        ot=batch.visible_wall_ms or None,
        oc=batch.counts or None,
        l=batch.taken_wall_ms,
        cm=batch.acked,
        a=batch.attempt_id,
        epochmqAhead=sorted(batch.ahead) or None,
        epochmqHidden=batch.hidden_ms or None,
    )


def batches_of(
    rows: Mapping[QueueKey, BatchRow], now: int, wall: int
) -> dict[QueueKey, OrderedBatch]:
    """Rows with deadlines for wall times; late is better than early, but no later than was asked
    for, whatever became of the clock meanwhile. Empty ones are left out."""
    batches = {}
    for key, row in rows.items():
        if not row.o:
            continue
        batch = OrderedBatch(row.popTime, row.i or 0, _absolute(row.o))
        batch.attempt_id, batch.counts, batch.acked = row.a, row.oc or {}, row.cm
        batch.visible_wall_ms, batch.taken_wall_ms = row.ot or {}, row.l
        batch.ahead = frozenset(row.epochmqAhead or ())
        batch.hidden_ms = row.epochmqHidden or {}
        as_asked = min(max(row.popTime + batch.invisible_time - wall, 0), batch.invisible_time)
        for offset in batch.offsets:
            at = batch.visible_wall_ms.get(offset)
            if at is None:
                batch.until.append(now + as_asked)
                continue
            left_ms = max(at - wall, 0)
            batch.until.append(now + min(left_ms, batch.hidden_ms.get(offset, left_ms)))
        batches[key] = batch
    return batches


def rows_of(content: Mapping[str, Any]) -> dict[QueueKey, BatchRow]:
    """The rows of a file or body; `ValueError` when it is none."""
    table = msgspec.convert(
        content.get("table") or {}, dict[str, dict[int, BatchRow]], strict=False
    )
    return {
        QueueKey(group, topic, queue_id): row
        for name, rows in table.items()
        for topic, _, group in (name.partition("@"),)
        for queue_id, row in rows.items()
    }


def _absolute(offsets: Sequence[int]) -> list[int]:
    """The first is an offset, the others are distances from it."""
    return [offsets[0], *(offsets[0] + delta for delta in offsets[1:])]


# Ordered pop ---------------------------------------------------------------------------------


RECENT_MS = 60_000
"""Only a batch whose time was not over longer ago puts a committed offset forward: who pops no
longer in order may have gone back since, and would lose messages by it."""


class AckRefusal(Enum):
    """Why an acknowledgement moves no offset."""

    STALE = auto()
    """It belongs to a batch that is not out any more: its time was over."""
    ILLEGAL = auto()
    """The batch has no such message."""


class Orders:
    """The batches of all queues."""

    file = "config/consumerOrderInfo.json"

    def __init__(self) -> None:
        self.dirty = False
        self.version = DataVersion()
        self.changes = 0
        """Counts everything that changes a batch: replicas ask only for what is new."""
        self._batches: dict[QueueKey, OrderedBatch] = {}
        self._frees: list[tuple[int, QueueKey]] = []
        self._loaded: dict[QueueKey, BatchRow] = {}
        self._recent: dict[QueueKey, int] = {}
        """Batches by their last change, the latest last."""
        self._whole_before = 0
        """What changed since an earlier count is the whole table."""

    def __len__(self) -> int:
        return len(self._batches)

    def begin(self, now: int, wall: int) -> None:
        """After `load`: from now on its wall times are deadlines; late is better than early."""
        for key, batch in batches_of(self._loaded, now, wall).items():
            self._put(key, batch)
        self._loaded = {}

    def blocked(self, key: QueueKey, attempt_id: str | None, now: int) -> bool:
        """Whether nothing may be taken of the queue now."""
        batch = self._batches.get(key)
        if batch is None or (attempt_id and batch.attempt_id == attempt_id):
            return False
        return batch.open_until() > now

    def out_of(self, key: QueueKey, attempt_id: str | None) -> int:
        """How many messages an attempt may have in its hands: it reads all of them again."""
        batch = self._batches.get(key)
        if batch is None or not attempt_id or batch.attempt_id != attempt_id:
            return 0
        return len(batch.offsets) - batch.acked.bit_count()

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
        batch = OrderedBatch(pop[0], pop[1], offsets)
        batch.attempt_id = attempt_id
        batch.until = [now + pop[1]] * len(batch.offsets)
        if old is not None:
            batch.follow(old)
            again = old.counts if attempt_id and attempt_id == old.attempt_id else None
            if again is not None:
                batch.hold_as(old, now)
            before = set(old.offsets)
            for offset in batch.offsets:
                if again is not None and offset in again:
                    batch.counts[offset] = again[offset]
                elif again is None and offset in before:
                    batch.counts[offset] = old.counts.get(offset, 0) + 1
        self._put(key, batch)
        least = min((batch.counts.get(offset, 0) for offset in batch.offsets), default=0)
        return dict(batch.counts), least

    def ack(self, key: QueueKey, offset: int, pop_time: int) -> int | AckRefusal:
        """A message is done with: the offset to commit, or why there is none.

        RocketMQ commits `offset` + 1 when it knows of no batch, as after a crash: the messages
        before it would be lost.
        """
        batch = self._batches.get(key)
        if batch is None or batch.pop_time != pop_time:
            return AckRefusal.STALE
        if offset not in batch.offsets:
            return AckRefusal.ILLEGAL
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
        batch.hide(offset, invisible_time, wall)
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
            self._recent.pop(key, None)
            self._all_changed()

    def drop(self, unwanted: Callable[[QueueKey], bool]) -> None:
        """Groups or topics are deleted."""
        for key in [key for key in self._batches if unwanted(key)]:
            self.forget(key)

    def statistics(self) -> dict[str, int]:
        return {"ordered": len(self._batches)}

    # Another broker's ------------------------------------------------------------------------

    def apply_committed(
        self, committed: Callable[[QueueKey], tuple[int, int]], now: int
    ) -> list[tuple[QueueKey, int]]:
        """Bring batches and committed offsets together, before anything is handed out here: both
        are copied and saved, but not at the same time.

        `committed` tells a queue's offset (-1 for none) and when it was reset (wall ms; 0 for
        never). A batch from before a reset is over. Answers the offsets to commit: what comes
        before a batch that is, or was just now, out has been acknowledged. So it is where the
        offset did not arrive at all: a group would begin anew, at either end of its queue.
        """
        ahead = []
        for key, batch in list(self._batches.items()):
            offset, reset_at = committed(key)
            if reset_at > batch.pop_time:
                self.forget(key)
                continue
            if batch.ack_before(offset):
                self._put(key, batch)
            if offset < batch.next_offset() and max(batch.until) + RECENT_MS > now:
                ahead.append((key, batch.next_offset()))
        return ahead

    def adopt(self, content: dict[str, Any], now: int, wall: int, *, whole: bool) -> None:
        """Take a master's batches over ours; with `whole` all others go."""
        told = _told(content, now, wall)
        if len(told) > limits.POP_ORDER_QUEUES_MAX:
            raise ValueError(f"batches of {len(told)} queues are too many")
        self.version = _version(content)
        if whole:
            self._batches.clear()
            self._recent.clear()
            self._frees.clear()
            self._all_changed()
        for key, batch in told.items():
            self._put(key, batch)

    def merge(self, content: dict[str, Any], now: int, wall: int) -> int:
        """Take from another replica the batches that were out later there, or of which more is
        acknowledged; how many. The version steps past both."""
        told, taken = _told(content, now, wall), 0
        for key, theirs in told.items():
            ours = self._batches.get(key)
            if ours is None:
                if len(self._batches) >= limits.POP_ORDER_QUEUES_MAX:
                    continue
            elif (ours.pop_time, ours.offsets) == (theirs.pop_time, theirs.offsets):
                theirs.join(ours)
            elif ours.is_after(theirs):
                continue
            self._put(key, theirs)
            taken += 1
        self.version = max(_version(content), self.version).next_version(wall)
        self.dirty = True
        return taken

    def changed_since(self, changes: int) -> list[QueueKey] | None:
        """The batches that changed after `changes` was counted; None when that cannot be told."""
        if not self._whole_before <= changes <= self.changes:
            return None
        keys = []
        for key in reversed(self._recent):
            if self._recent[key] <= changes:
                break
            keys.append(key)
        return keys

    # The file --------------------------------------------------------------------------------

    def step_version(self, wall: int) -> None:
        """Before it is saved, if it changed; a replica has its master's versions."""
        if self.dirty:
            self.version = self.version.next_version(wall)

    def content(
        self, keys: Iterable[QueueKey] | None = None, wall: int | None = None
    ) -> dict[str, Any]:
        """The shape of the file, and with the time of now of what replicas copy; of these queues
        only, or all."""
        table: dict[str, dict[int, BatchRow]] = {}
        for key in self._batches if keys is None else keys:
            table.setdefault(f"{key.topic}@{key.group}", {})[key.queue_id] = row_of(
                self._batches[key]
            )
        content: dict[str, Any] = {"table": table, "dataVersion": self.version}
        if wall is not None:
            content["wallMillis"] = wall
        return content

    def encode(self) -> bytes:
        return json_tolerant.dumps(self.content())

    def load(self, content: dict[str, Any]) -> None:
        """Take over consumerOrderInfo.json; `begin` makes deadlines of its times."""
        self._loaded, self.version = rows_of(content), _version(content)

    def _put(self, key: QueueKey, batch: OrderedBatch) -> None:
        self._batches[key] = batch
        self.dirty = True
        self.changes += 1
        self._recent.pop(key, None)
        self._recent[key] = self.changes
        heapq.heappush(self._frees, (batch.open_until(), key))
        if len(self._frees) > 4 * len(self._batches) + 64:
            self._frees = [(b.open_until(), k) for k, b in self._batches.items()]
            heapq.heapify(self._frees)

    def _all_changed(self) -> None:
        """Who copies the table gets it whole."""
        self.dirty = True
        self.changes += 1
        self._whole_before = self.changes


def _version(content: dict[str, Any]) -> DataVersion:
    return msgspec.convert(content.get("dataVersion") or {}, DataVersion, strict=False)


def _told(content: dict[str, Any], now: int, wall: int) -> dict[QueueKey, OrderedBatch]:
    """Another broker's batches; its clock need not be right."""
    return batches_of(rows_of(content), now, msgspec.convert(content.get("wallMillis", wall), int))
