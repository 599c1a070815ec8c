"""Check points that are kept in memory while they are young (`enablePopBufferMerge`).

A check point whose messages are all acknowledged within `popCkStayBufferTime` is never written, and
neither are its acknowledgements. The others are written once they have stayed that long, and at the
latest `popCkStayBufferTimeOut` before they are due, with what is acknowledged as their bits. The
group's committed offset stays in front of them until then (`pop.windows`): a crash forgets them and
their acknowledgements, and the messages are handed out again - repeated, never lost.

Pure: `now` is monotonic ms. Everything is bounded: a full buffer says no, and the check point is
written at once.
"""

import heapq

from epochmq.base.errors import check
from epochmq.broker.pop.pop_records import CheckPoint, Key, with_done
from epochmq.broker.pop.pop_windows import PopWindow

RETRY_MS = 1_000
"""Pause before a check point that the internal writer refused is written again."""


class BufferSlot:
    """One young check point; `queue_id` is its revive queue."""

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
        """Monotonic: its messages are hidden as long."""
        self.offsets = check_point.offsets()
        self.full = (1 << len(self.offsets)) - 1
        self.acked = 0
        self.write_at_ms = 0
        self.writing = False
        self.unsure = False
        """It was written and is not known to be kept: it may yet be read in the log."""

    @property
    def done(self) -> bool:
        return self.acked == self.full

    def as_written(self) -> CheckPoint:
        return with_done(self.check_point, self.acked)


class PopBuffer:
    """All young check points of a broker, by their merge key."""

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

    def __contains__(self, key: Key) -> bool:
        return key in self._slots

    def check_point(self, key: Key) -> CheckPoint | None:
        """The young check point of that key."""
        slot = self._slots.get(key)
        return None if slot is None else slot.check_point

    def add(self, slot: BufferSlot, now: int) -> bool:
        """Keep it; False when it is to be written at once: no room, or too little time."""
        key = slot.check_point.key
        spare = slot.check_point.invisible_time - self._spare_ms
        if len(self._slots) >= self._slots_max or spare <= 0 or key in self._slots:
            return False
        self._slots[key] = slot
        self._put(slot, now + min(self._stay_ms, spare))
        return True

    def ack(self, key: Key, offset: int) -> BufferSlot | None:
        """Note an acknowledgement; the slot when it is kept here, None when it must be written.

        Whoever gets a slot that is `done` settles its window: it is forgotten here. What may be in
        the log already is acknowledged there, and noted for the next time it is written: else the
        check point would be read and know less than was answered (INV-28).
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
        """Up to `most` slots to write now; each stays `writing` until it is reported."""
        found: list[BufferSlot] = []
        while self._plan and self._plan[0][0] <= now and len(found) < most:
            at, _, slot = heapq.heappop(self._plan)
            if self._is_planned(at, slot):
                slot.writing = True
                found.append(slot)
        return found

    def pop_all(self) -> list[BufferSlot]:
        """Everything that is not being written, for a stop."""
        found = [slot for slot in self._slots.values() if not slot.writing]
        for slot in found:
            slot.writing = True
        return found

    def written(self, slot: BufferSlot) -> None:
        """The internal writer keeps it: from now on acknowledgements are written, too."""
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
        """Its messages are gone: nothing of them is to come back (rocketmq#8479).

        What may be in the log already is written once more, as done.
        """
        for key, slot in list(self._slots.items()):
            if key.topic == topic:
                slot.acked = slot.full
                if not (slot.writing or slot.unsure):
                    del self._slots[key]

    def clear(self) -> None:
        """Another role: who is master now hands these messages out again."""
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
