"""Delivery of delayed messages: reads due messages of the delay topic and writes them again.

This is the driver of `delay_schedule.Schedule`. It writes through the internal writer.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from epochmq.broker.delay.delay_schedule import ReadUnits, Schedule
from epochmq.broker.delay.delayed import restore
from epochmq.broker.internal_writes.internal_writer import InternalWriter, Origin, WriteOutcome
from epochmq.model import record
from epochmq.model.message import StoredMessage
from epochmq.model.names import SCHEDULE_TOPIC
from epochmq.store.cold_reads import ColdReads
from epochmq.store.draft import Draft
from epochmq.store.log_memory import Prefetch
from epochmq.store.native_send import LEVELS
from epochmq.store.read import GetStatus, ReadResult
from epochmq.store.remake import Remade, Source
from epochmq.store.waits import TimedMessage

BATCH_BYTES = 1024 * 1024

log = logging.getLogger(__name__)


class DelayQueues(Protocol):
    """The part of the store that deliveries of delayed and of timed messages use."""

    def read_queue(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        accept: Callable[[int], bool] | None = None,
        verify: Callable[[memoryview], bool] | None = None,
        *,
        stop: int = ...,
    ) -> ReadResult: ...

    def missing_messages(
        self, topic: str, queue_id: int, offset: int, max_count: int, max_bytes: int
    ) -> Prefetch | None: ...

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]: ...

    def units(
        self, topic: str, queue_id: int, offset: int, count: int
    ) -> list[tuple[int, int, int]]: ...

    def remake(self, kind: int, sources: Sequence[Source], wall: int) -> Remade | None: ...


class TimerStore(DelayQueues, Protocol):
    """The part of the store that the timer uses."""

    def missing_records(self, places: Iterable[tuple[int, int]]) -> Prefetch | None: ...

    def message_at(self, offset: int, size: int | None = None) -> memoryview | None: ...

    def waits(self, offset: int, count: int) -> list[TimedMessage]: ...


class Delivery:
    """Drives one `Schedule`; called with the wall clock (ms). It has no progress of its own."""

    def __init__(
        self,
        schedule: Schedule,
        store: DelayQueues,
        internal_writer: InternalWriter,
        cold_reads: ColdReads | None = None,
    ) -> None:
        self._schedule = schedule
        self._store = store
        self._internal_writer = internal_writer
        self._cold_reads = cold_reads or ColdReads()
        self._was_read: set[int] = set()
        """Levels whose next messages were just read from the device."""
        self._discarded = 0
        self._tenure = 0
        """Counts role changes: the outcome of a put from an earlier role moves no progress."""

    def clamp(self) -> None:
        """Limit the progress of every level to the bounds of its queue; call it after a load."""
        for number in range(1, self._schedule.level_max + 1):
            low, high = self._store.queue_bounds(SCHEDULE_TOPIC, number - 1)
            self._schedule.clamp(number, max(low, 0), max(high, 0))

    def role_changed(self) -> None:
        """Ignore the outcomes of deliveries in flight, because the role has changed.

        The next broker that delivers may deliver those messages again; none is lost.
        """
        self._tenure += 1
        self._was_read.clear()
        self._schedule.let_go()

    def arrived(self, queue_id: int) -> None:
        """Report a new message in queue `queue_id` of the delay topic."""
        self._schedule.arrived(queue_id + 1)

    def tick(self, wall: int) -> None:
        """Deliver due messages, at most one batch of each level, so that a tick stays short."""
        for look in self._schedule.looks(wall):
            if not self._must_wait(look):
                self._look(look, wall)

    def next_deadline(self) -> int | None:
        """Return the wall time (ms) of the next tick that has work; None without work."""
        return self._schedule.next_deadline()

    def statistics(self) -> dict[str, int]:
        return {**self._schedule.statistics(), "discarded": self._discarded}

    def _must_wait(self, look: ReadUnits) -> bool:
        """Return whether the messages are not in memory; then they are read in another thread."""
        level, at, most = look
        if level in self._was_read or not self._cold_reads.has_room:
            self._was_read.discard(level)
            return False
        missing = self._store.missing_messages(SCHEDULE_TOPIC, level - 1, at, most, BATCH_BYTES)
        if missing is None:
            return False
        self._schedule.pause(level)
        tenure = self._tenure

        def done() -> None:
            if tenure == self._tenure:
                self._was_read.add(level)
                self._schedule.resume(level)

        self._cold_reads.run(missing, done)
        return True

    def _look(self, look: ReadUnits, wall: int) -> None:
        if self._remake(look, wall):
            return
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

    def _remake(self, look: ReadUnits, wall: int) -> bool:
        """Deliver the first due messages with native code; return False if it makes none."""
        level, at, most = look
        units = self._store.units(SCHEDULE_TOPIC, level - 1, at, most)
        deliver_walls = [deliver_wall for _, _, deliver_wall in units]
        count = self._schedule.due(level, deliver_walls, wall)
        sources: list[Source] = []
        size = 0
        for unit in units[:count]:
            size += unit[1]
            if sources and size > BATCH_BYTES:
                break
            sources.append(unit)
        remade = self._store.remake(LEVELS, sources, wall) if sources else None
        if remade is None:
            return False
        some = None if len(remade) == count else len(remade)
        self._schedule.found(level, deliver_walls[:some], wall)
        tenure = self._tenure

        def done(outcomes: Sequence[WriteOutcome]) -> None:
            if tenure != self._tenure:
                return
            for number, outcome in enumerate(outcomes):
                if outcome is WriteOutcome.LATER:
                    if number:
                        self._schedule.delivered(level, at + number)
                    self._schedule.failed(level, wall)
                    return
                if outcome is WriteOutcome.ILLEGAL:
                    place = f"(queue {level - 1}, {at + number})"
                    self._discard(place, "is illegal as it would be stored")
            self._schedule.delivered(level, at + len(outcomes))

        self._internal_writer.put(remade, Origin.DELAYED, wall, done)
        return True

    def _nothing(self, look: ReadUnits, found: ReadResult, wall: int) -> None:
        """Handle a read without messages: the end of the queue, a gap, or damage."""
        level, at, _ = look
        if found.status is GetStatus.DAMAGED:
            self._schedule.failed(level, wall)  # again a little later: it may be repaired by then
            return
        low, high = max(found.min_offset, 0), max(found.max_offset, 0)
        if found.status is GetStatus.NO_MATCHED_MESSAGE:
            low = max(low, found.next_offset)
        if low <= at <= high:
            self._schedule.found(level, (), wall)
        else:
            log.warning(
                "delay level %(level)d stood at %(at)d, its queue holds %(low)d..%(high)d",
                {"level": level, "at": at, "low": low, "high": high},
            )
            self._schedule.clamp(level, low, high)

    def _deliver(self, level: int, due: Sequence[StoredMessage], wall: int) -> None:
        after = due[-1].queue_offset + 1
        kept: list[StoredMessage] = []
        drafts: list[Draft] = []
        for message in due:
            draft = restore(message)
            if draft is None:
                self._discard(_named(message), "names no topic")
            else:
                kept.append(message)
                drafts.append(draft)
        if not drafts:
            self._schedule.delivered(level, after)
            return

        tenure = self._tenure

        def done(outcomes: Sequence[WriteOutcome]) -> None:
            if tenure != self._tenure:
                return
            for message, outcome in zip(kept, outcomes, strict=True):
                if outcome is WriteOutcome.LATER:
                    if message is not due[0]:
                        self._schedule.delivered(level, message.queue_offset)
                    self._schedule.failed(level, wall)
                    return
                if outcome is WriteOutcome.ILLEGAL:
                    self._discard(_named(message), "is illegal as it would be stored")
            self._schedule.delivered(level, after)

        self._internal_writer.put(drafts, Origin.DELAYED, wall, done)

    def _discard(self, place: str, why: str) -> None:
        self._discarded += 1
        log.error("delayed message %(place)s %(why)s; discarded", {"place": place, "why": why})


def _named(message: StoredMessage) -> str:
    return f"{message.offset_msg_id} (queue {message.queue_id}, {message.queue_offset})"
