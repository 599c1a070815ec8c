"""POP buffer: new check points in memory before they are written (`enablePopBufferMerge`).

If all messages of a check point are acknowledged within `popCkStayBufferTime`, neither the check
point nor its acknowledgements are written. Other check points are written after that time, and at
the latest `popCkStayBufferTimeOut` before they are due, with their acknowledgements as bits. Until
then the committed offset stays before their messages (`pop_windows.py`): a crash loses the buffer,
and the messages are delivered again. They may be repeated, but are never lost.

The module is pure; `now` is monotonic ms. The size is limited: if the buffer is full, the check
point is written at once.
"""

import heapq

from epochmq.base.errors import check
from epochmq.broker.pop.pop_records import CheckPoint, Key, with_done
from epochmq.broker.pop.pop_windows import PopWindow

RETRY_MS = 1_000
"""Pause (ms) before a check point that the internal writer refused is written again."""


class BufferSlot:
    """One buffered check point; `queue_id` is its revive queue."""

    __slots__ = (
        "acked",
        "check_point",
        "full",
        "offsets",
        "queue_id",
        "unsure",
        "until_ms",
        "window",
        "write_at_ms",
        "writing",
    )  # fmt: skip

    def __init__(
        self, check_point: CheckPoint, queue_id: int, window: PopWindow | None, until_ms: int
    ) -> None:
        self.check_point = check_point
        self.queue_id = queue_id
        self.window = window
        self.until_ms = until_ms
        """Monotonic time (ms) until which its messages are hidden."""
        self.offsets = check_point.offsets()
        self.full = (1 << len(self.offsets)) - 1
        self.acked = 0
        self.write_at_ms = 0
        self.writing = False
        self.unsure = False
        """Whether a write failed or timed out; the check point may be in the log all the same."""

    @property
    def done(self) -> bool:
        return self.acked == self.full

    def as_written(self) -> CheckPoint:
        return with_done(self.check_point, self.acked)


class PopBuffer:
    """All buffered check points of a broker, by merge key."""

    def __init__(self, *, stay_ms: int, spare_ms: int, slots_max: int) -> None:
        self._stay_ms = stay_ms
        self._spare_ms = spare_ms
        self._slots_max = slots_max
        self._slots: dict[Key, BufferSlot] = {}
        self._plan: list[tuple[int, int, BufferSlot]] = []
        self._number = 0
        self._cancelled = 0
        self._written = 0

    def __len__(self) -> int:
        return len(self._slots)

    def slots(self) -> list[BufferSlot]:
        """Return the buffered check points."""
        return list(self._slots.values())

    def __contains__(self, key: Key) -> bool:
        return key in self._slots

    def check_point(self, key: Key) -> CheckPoint | None:
        """Return the buffered check point with that key; None if there is none."""
        slot = self._slots.get(key)
        return None if slot is None else slot.check_point

    def add(self, slot: BufferSlot, now: int) -> bool:
        """Add a check point; return False if it must be written at once.

        That is so if the buffer is full, the invisible time is too short, or the key exists.
        """
        key = slot.check_point.key
        spare = slot.check_point.invisible_time - self._spare_ms
        if len(self._slots) >= self._slots_max or spare <= 0 or key in self._slots:
            return False
        self._slots[key] = slot
        self._put(slot, now + min(self._stay_ms, spare))
        return True

    def ack(self, key: Key, offset: int) -> BufferSlot | None:
        """Acknowledge the message at queue offset `offset`; return its slot.

        None means that the acknowledgement must be written to the log. If the returned slot is
        `done`, it is removed here and the caller finishes its window. If the check point may be in
        the log already, the acknowledgement must be written too; it is also noted here for the next
        write, because the check point in the log would otherwise lack it (INV-28).
        """
        slot = self._slots.get(key)
        if slot is None or offset not in slot.offsets:
            return None
        slot.acked |= 1 << slot.offsets.index(offset)
        if slot.writing or slot.unsure:
            return None
        if slot.done:
            del self._slots[key]
            self._cancelled += 1
        return slot

    def due(self, now: int, most: int) -> list[BufferSlot]:
        """Return up to `most` slots to write now.

        Each stays `writing` until `written` or `failed` is called for it.
        """
        found: list[BufferSlot] = []
        while self._plan and self._plan[0][0] <= now and len(found) < most:
            at, _, slot = heapq.heappop(self._plan)
            if self._is_planned(at, slot):
                slot.writing = True
                found.append(slot)
        return found

    def pop_all(self) -> list[BufferSlot]:
        """Return all slots that are not being written, and mark them as `writing`, for a stop."""
        found = [slot for slot in self._slots.values() if not slot.writing]
        for slot in found:
            slot.writing = True
        return found

    def written(self, slot: BufferSlot) -> None:
        """Remove a slot that was written; later acknowledgements must be written to the log."""
        check(slot.writing, "pop buffer: only what was due is written")
        self._written += 1
        self._slots.pop(slot.check_point.key, None)

    def failed(self, slot: BufferSlot, now: int) -> None:
        check(slot.writing, "pop buffer: only what was due is written")
        slot.writing = False
        slot.unsure = True
        if slot.check_point.key in self._slots:
            self._put(slot, now + RETRY_MS)

    def drop_topic(self, topic: str) -> None:
        """Finish the check points of a deleted topic, so that nothing is revived (rocketmq#8479).

        A check point that may be in the log already is written again, with all messages finished.
        """
        for key, slot in list(self._slots.items()):
            if key.topic == topic:
                slot.acked = slot.full
                if not (slot.writing or slot.unsure):
                    del self._slots[key]

    def clear(self) -> None:
        """Forget all check points, because the role has changed.

        The new master delivers their messages again.
        """
        self._slots.clear()
        self._plan.clear()

    def next_deadline(self) -> int | None:
        while self._plan and not self._is_planned(self._plan[0][0], self._plan[0][2]):
            heapq.heappop(self._plan)
        return self._plan[0][0] if self._plan else None

    def statistics(self) -> dict[str, int]:
        return {
            "buffered": len(self._slots),
            "cancelled": self._cancelled,
            "written": self._written,
        }

    def _put(self, slot: BufferSlot, at: int) -> None:
        slot.write_at_ms = at
        self._number += 1
        heapq.heappush(self._plan, (at, self._number, slot))
        if len(self._plan) > 2 * len(self._slots) + 64:
            self._plan = [plan for plan in self._plan if self._is_planned(plan[0], plan[2])]
            heapq.heapify(self._plan)

    def _is_planned(self, at: int, slot: BufferSlot) -> bool:
        open_ = slot.unsure or not slot.done
        return open_ and not slot.writing and slot.write_at_ms == at
