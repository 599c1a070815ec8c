"""Ordered POP (FIFO): a queue delivers one batch at a time, and the next when the batch is over.

A batch blocks its queue until each of its messages is acknowledged, or until the invisible time of
its last open message is over. The same attempt (`attemptId`) may read its own batch again. The
committed offset is the offset of the first message without an acknowledgement. Ordered POP has no
check points: messages without an acknowledgement are read again from their queue, in order.

File: config/consumerOrderInfo.json in the form of RocketMQ 5.1 and later, plus a DataVersion.
Replicas copy the table (RocketMQ's do not): so the next master continues in order, and delivers no
message that a consumer may be processing (ADR 0055). The copy carries the sender's wall time in
`wallMillis`. The module is pure: it does no I/O and reads no clock.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any

import msgspec

from epochmq.base import limits
from epochmq.broker.pop.pop_windows import QueueKey
from epochmq.broker.state.row_changes import RowChanges
from epochmq.model.data_version import DataVersion
from epochmq.wire import json_tolerant

# Ordered batch -------------------------------------------------------------------------------
# The messages that an ordered pop delivered from one queue, and their row in
# consumerOrderInfo.json. Deadlines are monotonic ms; rows hold wall ms.


BATCH_BYTES = 400
"""A batch of one message in JSON, about."""


class BatchRow(msgspec.Struct, omit_defaults=True):
    """A batch as it is stored in the file; the field names are RocketMQ's."""

    popTime: int = 0
    i: int | None = None
    o: list[int] | None = None
    ot: dict[int, int] | None = None
    oc: dict[int, int] | None = None
    l: int = 0  # noqa: E741 - the file's name
    cm: int = 0
    a: str | None = None
    epochmqAhead: list[int] | None = None
    """EpochMQ only; see `OrderedBatch.ahead`."""
    epochmqHidden: dict[int, int] | None = None
    """EpochMQ only; see `OrderedBatch.hidden_ms`."""


class OrderedBatch:
    """The batch that is delivered from one queue.

    `offsets` are queue offsets. `until` has the end of each message's invisible time (monotonic
    ms). `acked` is a bit map, with the lowest bit for the first message.
    """

    __slots__ = ("acked", "ahead", "attempt_id", "counts", "hidden_ms", "invisible_time", "offsets",
                 "pop_time", "taken_wall_ms", "until", "visible_wall_ms")  # fmt: skip

    def __init__(self, pop_time: int, invisible_time: int, offsets: Sequence[int]) -> None:
        self.pop_time = pop_time
        self.invisible_time = invisible_time
        self.offsets = list(offsets)
        self.attempt_id: str | None = None
        self.counts: dict[int, int] = {}
        """How often each message was delivered before, by queue offset; only counts above 0."""
        self.acked = 0
        self.ahead: frozenset[int] = frozenset()
        """Queue offsets behind the first message of this batch that were acknowledged in earlier
        batches."""
        self.until: list[int] = []
        self.visible_wall_ms: dict[int, int] = {}
        """When a message becomes visible (wall ms); only for messages whose invisible time was
        changed."""
        self.hidden_ms: dict[int, int] = {}
        """For the same messages, the invisible time (ms) from that change. After a restart or at
        another broker the wall clock may differ; no message stays hidden longer than this."""
        self.taken_wall_ms = pop_time

    def open_until(self) -> int:
        """Return when the last unacknowledged message is visible again (monotonic ms); else 0."""
        return max(
            (at for bit, at in enumerate(self.until) if not self.acked >> bit & 1), default=0
        )

    def next_offset(self) -> int:
        """Return the offset of the first unacknowledged message, else the offset after the batch.

        The offset after the batch skips messages that earlier batches acknowledged.
        """
        for bit, offset in enumerate(self.offsets):
            if not self.acked >> bit & 1:
                return offset
        after = self.offsets[-1] + 1
        while after in self.ahead:
            after += 1
        return after

    def acked_offsets(self) -> frozenset[int]:
        """Return all acknowledged queue offsets, of this batch and in `ahead`."""
        mine = (at for bit, at in enumerate(self.offsets) if self.acked >> bit & 1)
        return self.ahead.union(mine)

    def follow(self, old: "OrderedBatch") -> None:
        """Replace `old`: its acknowledgements stay valid.

        This also holds if the new batch contains only a part of `old`, or earlier messages.
        """
        self.ahead = frozenset(at for at in old.acked_offsets() if at > self.offsets[0])

    def hold_as(self, old: "OrderedBatch", now: int) -> None:
        """Keep the longer invisible times of `old`, which the same consumer may still process."""
        held = dict(zip(old.offsets, old.until, strict=True))
        for bit, offset in enumerate(self.offsets):
            if (until := held.get(offset, 0)) > self.until[bit]:
                self.until[bit] = until
                self.hide(offset, until - now, self.pop_time)

    def hide(self, offset: int, hidden_ms: int, wall: int) -> None:
        """Note that a message is hidden for `hidden_ms` from wall time `wall` (ms) on."""
        self.visible_wall_ms[offset] = wall + hidden_ms
        self.hidden_ms[offset] = hidden_ms

    def ack_before(self, offset: int) -> bool:
        """Acknowledge the messages before the committed `offset`; return whether any was new."""
        before = self.acked
        for bit, at in enumerate(self.offsets):
            if at < offset:
                self.acked |= 1 << bit
        return self.acked != before

    def is_after(self, other: "OrderedBatch") -> bool:
        """Return whether this batch was delivered after `other` of the same queue.

        A later batch starts at a higher offset, or at the same offset with a later pop time.
        """
        return (self.offsets[0], self.pop_time) > (other.offsets[0], other.pop_time)

    def join(self, other: "OrderedBatch") -> None:
        """Merge `other`, another broker's copy of the same batch.

        A message is acknowledged if either copy says so, and hidden until the later of both times.
        """
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
    """Convert rows into batches; wall times become monotonic deadlines (ms).

    A deadline is never later than the requested invisible time allows, even if the wall clock was
    set meanwhile. Rows without messages are left out.
    """
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
    """Read the rows of the file or of a replica's answer; raises `ValueError` on a wrong form."""
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
    """Convert a list of one offset and distances from it into a list of offsets."""
    return [offsets[0], *(offsets[0] + delta for delta in offsets[1:])]


# Ordered pop ---------------------------------------------------------------------------------


RECENT_MS = 60_000
"""A batch that ended longer ago (ms) does not move a committed offset forward. The group may pop
without order by now and may have moved its offset back; it would lose messages."""


class AckRefusal(Enum):
    """Why an acknowledgement is refused and moves no offset."""

    STALE = auto()
    """The acknowledgement belongs to an earlier batch, or the queue has no batch."""
    ILLEGAL = auto()
    """The batch does not contain the message."""


class Orders:
    """The ordered batches of all queues (RocketMQ's ConsumerOrderInfoManager)."""

    file = "config/consumerOrderInfo.json"

    def __init__(self) -> None:
        self.dirty = False
        self.version = DataVersion()
        self.changes = RowChanges[QueueKey]()
        """For the copies of replicas. After a batch was forgotten, they copy the whole table."""
        self._batches: dict[QueueKey, OrderedBatch] = {}
        self._frees: list[tuple[int, QueueKey]] = []
        self._loaded: dict[QueueKey, BatchRow] = {}

    def __len__(self) -> int:
        return len(self._batches)

    def batches(self) -> list[tuple[QueueKey, OrderedBatch]]:
        """Return the last batch of each queue, acknowledged or not."""
        return list(self._batches.items())

    def begin(self, now: int, wall: int) -> None:
        """Convert the wall times of the loaded rows into deadlines; call it once after `load`."""
        for key, batch in batches_of(self._loaded, now, wall).items():
            self._put(key, batch)
        self._loaded = {}

    def blocked(self, key: QueueKey, attempt_id: str | None, now: int) -> bool:
        """Return whether the queue is blocked by a batch of another attempt."""
        batch = self._batches.get(key)
        if batch is None or (attempt_id and batch.attempt_id == attempt_id):
            return False
        return batch.open_until() > now

    def out_of(self, key: QueueKey, attempt_id: str | None) -> int:
        """Return how many unacknowledged messages of the queue's batch belong to this attempt.

        The attempt may read all of them again. 0 if the batch belongs to another attempt.
        """
        batch = self._batches.get(key)
        if batch is None or not attempt_id or batch.attempt_id != attempt_id:
            return 0
        return len(batch.offsets) - batch.acked.bit_count()

    def done_with(self, key: QueueKey) -> frozenset[int]:
        """Return the acknowledged queue offsets of the last batch; they are not delivered again."""
        batch = self._batches.get(key)
        return frozenset() if batch is None else batch.acked_offsets()

    def out(
        self, key: QueueKey, attempt_id: str | None, pop: tuple[int, int], offsets: Sequence[int],
        now: int,
    ) -> tuple[dict[int, int], int] | None:  # fmt: skip
        """Record that a batch is delivered; `pop` is (pop time in wall ms, invisible time in ms).

        Returns how often each message was delivered before, and the smallest of these counts.
        Returns None if too many queues have batches already.
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
        """Acknowledge a message; return the queue offset to commit, or why it is refused.

        RocketMQ commits `offset` + 1 if it knows no batch, for example after a crash; this loses
        the messages before it. EpochMQ answers STALE instead.
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
        """Change the invisible time of a message: `invisible_time` ms from now on.

        Returns False if the message is not in the queue's batch any more.
        """
        batch = self._batches.get(key)
        if batch is None or batch.pop_time != pop_time or offset not in batch.offsets:
            return False
        batch.until[batch.offsets.index(offset)] = now + invisible_time
        batch.hide(offset, invisible_time, wall)
        self._put(key, batch)
        return True

    def freed(self, now: int) -> list[QueueKey]:
        """Return the queues whose block may be over, so that waiting requests try again."""
        found = []
        while self._frees and self._frees[0][0] <= now:
            _, key = heapq.heappop(self._frees)
            found.append(key)
        return found

    def next_deadline(self) -> int | None:
        return self._frees[0][0] if self._frees else None

    def forget(self, key: QueueKey) -> None:
        """Forget the batch of a queue, because its consumer offset was reset."""
        self._forget_all([key] if key in self._batches else [])

    def drop(self, unwanted: Callable[[QueueKey], bool]) -> None:
        """Forget the batches of deleted groups or topics: those for which `unwanted` is true."""
        self._forget_all([key for key in self._batches if unwanted(key)])

    def _forget_all(self, keys: Sequence[QueueKey]) -> None:
        if keys:
            for key in keys:
                del self._batches[key]
            self.changes.renew(self._batches)
            self.dirty = True

    def statistics(self) -> dict[str, int]:
        return {"ordered": len(self._batches)}

    # Another broker's ------------------------------------------------------------------------

    def apply_committed(
        self, committed: Callable[[QueueKey], tuple[int, int]], now: int
    ) -> list[tuple[QueueKey, int]]:
        """Reconcile batches with committed offsets, before this broker delivers any batch.

        Both are replicated and saved, but not at the same time. `committed` returns a queue's
        offset (-1 for none) and when it was reset (wall ms; 0 for never). A batch from before a
        reset is forgotten.

        Returns the offsets to commit. All messages before a current or recent batch have been
        acknowledged, so a smaller committed offset moves up to the batch. This also holds if the
        broker has no committed offset: otherwise the group would start at one end of its queue.
        """
        ahead, before_reset = [], []
        for key, batch in list(self._batches.items()):
            offset, reset_at = committed(key)
            if reset_at > batch.pop_time:
                before_reset.append(key)
                continue
            if batch.ack_before(offset):
                self._put(key, batch)
            if offset < batch.next_offset() and max(batch.until) + RECENT_MS > now:
                ahead.append((key, batch.next_offset()))
        self._forget_all(before_reset)
        return ahead

    def adopt(self, content: dict[str, Any], now: int, wall: int, *, whole: bool) -> None:
        """Take over the batches of the master; with `whole`, all other batches are removed.

        Raises `ValueError` if there are too many batches or the form is wrong.
        """
        told = _told(content, now, wall)
        if len(told) > limits.POP_ORDER_QUEUES_MAX:
            raise ValueError(f"batches of {len(told)} queues are too many")
        self.version = _version(content)
        if whole:
            self._batches.clear()
            self._frees.clear()
            self.changes.renew(())
            self.dirty = True
        for key, batch in told.items():
            self._put(key, batch)

    def merge(self, content: dict[str, Any], now: int, wall: int) -> int:
        """Merge the batches of another replica; return how many were taken over.

        Of two different batches of a queue the later one wins. Two copies of the same batch are
        joined. The new version is higher than both versions.
        """
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

    # The file --------------------------------------------------------------------------------

    def step_version(self, wall: int) -> None:
        """Step the version if the table changed; call it before a save at a master."""
        if self.dirty:
            self.version = self.version.next_version(wall)

    def weigh(self, key: QueueKey) -> int:
        """Return the estimated bytes of a batch in JSON."""
        return BATCH_BYTES + 24 * len(self._batches[key].offsets)

    def content(
        self, keys: Iterable[QueueKey] | None = None, wall: int | None = None
    ) -> dict[str, Any]:
        """Return the content of the file, or with `wall` (wall ms) of the answer to replicas.

        `keys` limits the content to some queues.
        """
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
        """Load consumerOrderInfo.json; `begin` then converts its wall times into deadlines."""
        self._loaded, self.version = rows_of(content), _version(content)

    def _put(self, key: QueueKey, batch: OrderedBatch) -> None:
        self._batches[key] = batch
        self.dirty = True
        self.changes.touch(key)
        heapq.heappush(self._frees, (batch.open_until(), key))
        if len(self._frees) > 4 * len(self._batches) + 64:
            self._frees = [(b.open_until(), k) for k, b in self._batches.items()]
            heapq.heapify(self._frees)


def _version(content: dict[str, Any]) -> DataVersion:
    return msgspec.convert(content.get("dataVersion") or {}, DataVersion, strict=False)


def _told(content: dict[str, Any], now: int, wall: int) -> dict[QueueKey, OrderedBatch]:
    """Read another broker's batches; its `wallMillis` is used, so its clock need not be right."""
    return batches_of(rows_of(content), now, msgspec.convert(content.get("wallMillis", wall), int))
