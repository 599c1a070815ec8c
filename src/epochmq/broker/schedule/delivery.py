"""Delivers what the schedule says is due: reads the delay topic, puts through the outlet."""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from epochmq.broker.outlet.core import Origin, Outcome, Outlet
from epochmq.broker.schedule.core import Look, Schedule
from epochmq.broker.schedule.delayed import restore
from epochmq.model import record
from epochmq.model.message import StoredMessage
from epochmq.model.names import SCHEDULE_TOPIC
from epochmq.store.draft import Draft
from epochmq.store.read import GetStatus, ReadResult

BATCH_BYTES = 1024 * 1024

log = logging.getLogger(__name__)


class DelayQueues(Protocol):
    """What delivery needs of the store."""

    def read_queue(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        accept: Callable[[int], bool] | None = None,
        verify: Callable[[memoryview], bool] | None = None,
    ) -> ReadResult: ...

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]: ...


class Delivery:
    """The hands of one `Schedule`; ticked with the wall clock, holds no progress of its own."""

    def __init__(self, schedule: Schedule, store: DelayQueues, outlet: Outlet) -> None:
        self._schedule = schedule
        self._store = store
        self._outlet = outlet
        self._discarded = 0
        self._tenure = 0
        """Counts roles: what was put in an earlier one moves no progress of this one."""

    def clamp(self) -> None:
        """After a load: bring every level's progress into what its queue holds."""
        for number in range(1, self._schedule.level_max + 1):
            low, high = self._store.queue_bounds(SCHEDULE_TOPIC, number - 1)
            self._schedule.clamp(number, max(low, 0), max(high, 0))

    def role_changed(self) -> None:
        """The outcome of what is under way comes too late: the progress may be another's by then.

        Whoever delivers next delivers that again, rather than not at all.
        """
        self._tenure += 1
        self._schedule.let_go()

    def arrived(self, queue_id: int, wall: int) -> None:
        """The store has a new message in a queue of the delay topic."""
        self._schedule.arrived(queue_id + 1, wall)

    def tick(self, wall: int) -> None:
        """Deliver what is due; at most one batch of each level, so that a tick stays short."""
        for look in self._schedule.looks(wall):
            self._look(look, wall)

    def next_deadline(self) -> int | None:
        """Wall time of the next tick that does something."""
        return self._schedule.next_deadline()

    def statistics(self) -> dict[str, int]:
        return {**self._schedule.statistics(), "discarded": self._discarded}

    def _look(self, look: Look, wall: int) -> None:
        level, at, most = look
        deliver_walls: list[int] = []
        newest = 0

        def note(code: int) -> bool:
            nonlocal newest
            newest = code
            return True

        def keep(_record: memoryview) -> bool:
            deliver_walls.append(newest)
            return True

        found = self._store.read_queue(SCHEDULE_TOPIC, level - 1, at, most, BATCH_BYTES, note, keep)
        if not found.count:
            self._nothing(look, found, wall)
            return
        due = self._schedule.found(level, deliver_walls[: found.count], wall)
        if due:
            self._deliver(level, [record.decode(raw) for raw in found.chunks[:due]], wall)

    def _nothing(self, look: Look, found: ReadResult, wall: int) -> None:
        """No message at the progress: the queue ends there, or retention took what was there."""
        level, at, _ = look
        low, high = max(found.min_offset, 0), max(found.max_offset, 0)
        if found.status is GetStatus.NO_MATCHED_MESSAGE:
            low = max(low, found.next_offset)
        if low <= at <= high:
            self._schedule.found(level, (), wall)
        else:
            log.warning("delay level %d stood at %d, its queue holds %d..%d", level, at, low, high)
            self._schedule.clamp(level, low, high)

    def _deliver(self, level: int, due: Sequence[StoredMessage], wall: int) -> None:
        after = due[-1].queue_offset + 1
        kept: list[StoredMessage] = []
        drafts: list[Draft] = []
        for message in due:
            draft = restore(message)
            if draft is None:
                self._discard(message, "names no topic")
            else:
                kept.append(message)
                drafts.append(draft)
        if not drafts:
            self._schedule.delivered(level, after)
            return

        tenure = self._tenure

        def done(outcomes: Sequence[Outcome]) -> None:
            if tenure != self._tenure:
                return
            for message, outcome in zip(kept, outcomes, strict=True):
                if outcome is Outcome.LATER:
                    if message is not due[0]:
                        self._schedule.delivered(level, message.queue_offset)
                    self._schedule.failed(level, wall)
                    return
                if outcome is Outcome.ILLEGAL:
                    self._discard(message, "is illegal as it would be stored")
            self._schedule.delivered(level, after)

        self._outlet.put(drafts, Origin.DELAYED, wall, done)

    def _discard(self, message: StoredMessage, why: str) -> None:
        self._discarded += 1
        log.error(
            "delayed message %s (queue %d, %d) %s; discarded",
            message.offset_msg_id, message.queue_id, message.queue_offset, why,
        )  # fmt: skip
