"""What is out of one queue by an ordered pop, and its row in consumerOrderInfo.json.

Deadlines are monotonic; rows have wall times. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from epochmq.broker.pop.windows.pop_windows import QueueKey


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
