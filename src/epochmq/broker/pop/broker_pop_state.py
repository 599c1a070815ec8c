"""Everything POP keeps of one broker, and the work it does between requests."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from epochmq.base.errors import Refused
from epochmq.broker.config.feature_keys import PopKeys
from epochmq.broker.consume.consumer_offsets import ConsumerOffsets
from epochmq.broker.internal_writes.internal_writer import InternalWriter, Origin, WriteOutcome
from epochmq.broker.pop import pop_records as records
from epochmq.broker.pop.ordered_pop import Orders
from epochmq.broker.pop.pop_buffer import BufferSlot, PopBuffer
from epochmq.broker.pop.pop_polls import PopPolls
from epochmq.broker.pop.pop_records import CheckPoint, Key, revive_topic
from epochmq.broker.pop.pop_windows import PopWindow, QueueKey, Windows
from epochmq.broker.pop.revive import MessageState
from epochmq.broker.pop.revive_driver import Confirmed, FetchFromGroup, ReviveDriver, ReviveTopics
from epochmq.model.revive_routing import is_pinned
from epochmq.store.draft import Draft
from epochmq.store.store import Store
from epochmq.wire.codes import ResponseCode

WRITES_PER_TICK = 1_024

log = logging.getLogger(__name__)

Stored = Callable[[Sequence[bool]], None]


@dataclass
class PoppedCheckPoint:
    """A check point that a pop made, the window it covers, its revive queue."""

    check_point: CheckPoint
    queue_id: int
    window: PopWindow | None


@dataclass
class _Acked:
    """Messages of one check point, and who wants to hear of it."""

    offsets: list[int]
    waiting: list[Callable[[bool], None]]
    due_wall_ms: int
    late: bool
    """Their time seemed to be over: they count only where the check point is known."""


class PopState:
    """Owned by the node; nothing in it waits."""

    def __init__(
        self,
        store: Store,
        internal_writer: InternalWriter,
        offsets: ConsumerOffsets,
        topics: ReviveTopics,
        options: PopKeys,
        *,
        cluster: str,
        broker_name: str,
        host: bytes,
        escapes: Callable[[], bool],
    ) -> None:
        """`escapes` says whether the own log is not to be written: this is an acting master."""
        self._store = store
        self._internal_writer = internal_writer
        self._offsets = offsets
        self._host = host
        self.topic = revive_topic(cluster)
        self._topics = topics
        self._options = options
        self.windows = Windows()
        self.confirmed = Confirmed(lambda: store.pointers.readable)
        self.buffer = PopBuffer(
            stay_ms=options.pop_ck_stay_buffer_time,
            spare_ms=options.pop_ck_stay_buffer_time_out,
            slots_max=options.pop_ck_max_buffer_size,
        )
        self.orders = Orders()
        self.polls = PopPolls(
            per_key_max=options.pop_polling_size,
            keys_max=options.pop_polling_map_size,
            total_max=options.max_pop_polling_size,
        )
        self.driver = ReviveDriver(
            store,
            internal_writer,
            offsets,
            topics,
            self.confirmed,
            topic=self.topic,
            broker_name=broker_name,
            end=lambda: store.pointers.appended,
        )
        self.role_changes = 0
        """Counts roles: what one began is not what the next one knows."""
        self._running = self._delivers = False
        """Whether the revive queues are read in this role; whether that goes on now."""
        self._next_queue = -1
        self._acks: dict[tuple[int, Key], _Acked] = {}
        """Acknowledgements of this turn, by revive queue and check point."""
        self._escapes = escapes
        self._choose_pin: Callable[[str], int | None] = _nowhere
        """Which master keeps the check points of a topic while this is an acting master."""

    def use_other_masters(
        self, choose_pin: Callable[[str], int | None], fetch: FetchFromGroup
    ) -> None:
        """Give check points to the master that `choose_pin` names, and read its messages."""
        self._choose_pin = choose_pin
        self.driver.fetch_from(fetch)

    def adopt_options(self, options: PopKeys) -> None:
        self._options = options

    # Between requests ------------------------------------------------------------------------

    def tick(self, now: int, wall: int, *, delivers: bool) -> None:
        """Bounded work: progress that is confirmed now, young check points, reviving."""
        self.write_acks(wall)  # before what is due is looked at
        self.confirmed.run_due()
        for slot in self.buffer.due(now, WRITES_PER_TICK):
            self._write(slot, now, wall)
        self._delivers = delivers
        if not delivers:  # a lease may be renewed: by then the wall clock may say something else
            return
        if not self._running:
            self._running = True
            self.driver.start(self.revive_queues())
        self.driver.retry_v2 = self._options.enable_retry_topic_v2
        self.driver.tick(now, wall)

    def next_deadline(self, now: int) -> int | None:
        """Monotonic; None when nothing but a request brings work."""
        wanted = [self.driver.next_deadline(now)] if self._delivers else []
        wanted += [self.buffer.next_deadline(), self.orders.next_deadline()]
        wanted.append(self.polls.polls.next_deadline())
        return min((at for at in wanted if at is not None), default=None)

    def role_changed(self) -> None:
        """What is kept in memory was true of another role; who is master reads its own log."""
        self.role_changes += 1
        self._running = self._delivers = False
        self.driver.stop()
        self.windows.clear()
        self.confirmed.clear()
        self.buffer.clear()

    def drop_topic(self, topic: str) -> None:
        """A topic is deleted. Made anew, it begins with its first message: what is under way must
        not move a group past it."""
        self.windows.drop(lambda key: key.topic == topic)
        self.orders.drop(lambda key: key.topic == topic)
        self.buffer.drop_topic(topic)

    def drop_group(self, group: str) -> None:
        """A group is deleted."""
        self.windows.drop(lambda key: key.group == group)
        self.orders.drop(lambda key: key.group == group)

    def apply_committed_orders(self, now: int, wall: int) -> None:
        """Before batches are handed out in order here: they and the offsets came each by itself."""

        def committed(key: QueueKey) -> tuple[int, int]:
            return self._offsets.get(*key), self._offsets.begun_at(*key)

        for key, offset in self.orders.apply_committed(committed, now):
            self._commit(key, offset, wall)

    def finish(self, now: int, wall: int) -> None:
        """Before a stop: young check points go into the log, so that nothing is repeated."""
        self.write_acks(wall)
        for slot in self.buffer.pop_all():
            self._write(slot, now, wall)

    def revive_queues(self) -> int:
        config = self._topics.get(self.topic)
        return self._options.revive_queue_num if config is None else config.read_queue_nums

    def next_revive_queue(self, topic: str) -> int:
        """The number that a pop's handles carry: a queue of the own log, or of another master's.

        `Refused` when no master can keep the check points that a slave must not write.
        """
        if self._escapes():
            queue_id = self._choose_pin(topic)
            if queue_id is None:
                raise Refused(
                    ResponseCode.SYSTEM_BUSY,
                    f"no living master of another group that has {topic} can keep check points now;"
                    " pop again",
                )
            return queue_id
        self._next_queue += 1
        return self._next_queue % self.revive_queues()

    def hiding_queue(self, queue_id: int, topic: str) -> int:
        """Where the check point goes that follows one in `queue_id`; `Refused` as a pop's."""
        if is_pinned(queue_id) == self._escapes():
            return queue_id
        return self.next_revive_queue(topic)

    def statistics(self) -> dict[str, int]:
        return {
            **self.windows.statistics(),
            **self.driver.statistics(),
            **self.buffer.statistics(),
            **self.orders.statistics(),
        }

    # Check points ----------------------------------------------------------------------------

    def keep(self, taken: Sequence[PoppedCheckPoint], now: int, wall: int, done: Stored) -> None:
        """Keep check points, in memory or in the log; `done` hears which are kept.

        A window counts as taken then, and is committed once its check point is confirmed.
        """
        kept = [True] * len(taken)
        writing: list[int] = []
        drafts: list[Draft] = []
        for number, one in enumerate(taken):
            until_ms = now + one.check_point.invisible_time
            if self._buffers(one.window) and self.buffer.add(
                BufferSlot(one.check_point, one.queue_id, one.window, until_ms), now
            ):
                if one.window is not None:
                    self.windows.arrived(one.window)
                continue
            writing.append(number)
            self.driver.given(one.check_point.key, until_ms)
            drafts.append(
                records.check_point_draft(one.check_point, self.topic, one.queue_id, wall)
            )
        if not drafts:
            done(kept)
            return

        def stored(outcomes: Sequence[WriteOutcome]) -> None:
            for number, outcome in zip(writing, outcomes, strict=True):
                kept[number] = outcome is WriteOutcome.STORED
                self._window_stored(taken[number].window, wall, stored=kept[number])
            done(kept)

        self._internal_writer.put(drafts, Origin.POP, wall, stored)

    def _buffers(self, window: PopWindow | None) -> bool:
        options = self._options
        if not options.enable_pop_buffer_merge or window is None:
            return False
        return self.windows.width(window.key) < options.pop_ck_offset_max_queue_size

    def _window_stored(self, window: PopWindow | None, wall: int, *, stored: bool) -> None:
        if window is None:
            return
        if not stored:
            self.windows.failed(window)
            return
        self.windows.arrived(window)
        self._commit_when_confirmed(window, wall)

    def _commit_when_confirmed(self, window: PopWindow, wall: int) -> None:
        self.confirmed.when(self._store.pointers.appended, lambda: self.finish_window(window, wall))

    def finish_window(self, window: PopWindow, wall: int) -> None:
        """The window needs no more care: commit what of the queue is safe now."""
        offset = self.windows.offset_to_commit(window)
        if offset is None:
            return
        self._commit(window.key, offset, wall)

    def _commit(self, key: QueueKey, offset: int, wall: int) -> None:
        try:
            self._offsets.commit(*key, offset, wall)
        except Refused as error:
            log.error("the offset of %s in %s is not kept: %s", key.group, key.topic, error.remark)

    def _write(self, slot: BufferSlot, now: int, wall: int) -> None:
        self.driver.given(slot.check_point.key, slot.until_ms)
        draft = records.check_point_draft(slot.as_written(), self.topic, slot.queue_id, wall)

        def stored(outcomes: Sequence[WriteOutcome]) -> None:
            if outcomes[0] is not WriteOutcome.STORED:
                self.buffer.failed(slot, now)
                return
            self.buffer.written(slot)
            if slot.window is not None:
                self._commit_when_confirmed(slot.window, wall)

        self._internal_writer.put([draft], Origin.REVIVE, wall, stored)

    # Acknowledgements ------------------------------------------------------------------------

    def seen(
        self, key: Key, queue_id: int, offset: int, now: int, wall: int
    ) -> MessageState | None:
        """What is known of a message; None when it cannot be said, as there is more to read."""
        core = self.driver.queues.get(queue_id)
        if key in self.buffer or core is None or not self.driver.read(queue_id, now, wall):
            return None
        return core.seen(key, offset)

    def first_popped_ms(self, key: Key, queue_id: int) -> int:
        """When a pop took what the check point of `key` stands for, as far as it is known here."""
        found, core = self.buffer.check_point(key), self.driver.queues.get(queue_id)
        if found is None and core is not None:
            found = core.check_point(key)
        return key.pop_time if found is None else found.first_popped_ms

    def ack(
        self,
        key: Key,
        queue_id: int,
        offsets: list[int],
        wall: int,
        done: Callable[[bool], None],
        *,
        invisible_ms: int = 0,
    ) -> None:
        """Acknowledge messages of one check point; `done` hears whether that is kept.

        What must be written goes out with `write_acks`, one record a check point.
        """
        left: list[int] = []
        for offset in offsets:
            slot = self.buffer.ack(key, offset)
            if slot is None:
                left.append(offset)
            elif slot.done and slot.window is not None:
                self.finish_window(slot.window, wall)
        if not left:
            done(True)
            return
        due = key.pop_time + invisible_ms
        late = 0 < invisible_ms <= wall - key.pop_time and not is_pinned(queue_id)
        acked = self._acks.setdefault((queue_id, key), _Acked([], [], due, late))
        acked.offsets.extend(offset for offset in left if offset not in acked.offsets)
        acked.waiting.append(done)

    def write_acks(self, wall: int) -> None:
        """Write the acknowledgements of this turn, all at once."""
        if not self._acks:
            return
        acks, self._acks = self._acks, {}
        own = {place: acked for place, acked in acks.items() if not is_pinned(place[0])}
        away = {place: acked for place, acked in acks.items() if is_pinned(place[0])}
        if own and self._escapes():
            self._remember(own)
        elif own:
            self._write_acks(own, wall)
        if away:
            self._write_acks(away, wall)

    def _write_acks(self, acks: dict[tuple[int, Key], _Acked], wall: int) -> None:
        drafts = [
            records.ack_draft(
                key, acked.offsets, self.topic, queue_id, wall, self._host, acked.due_wall_ms
            )
            for (queue_id, key), acked in acks.items()
        ]

        def stored(outcomes: Sequence[WriteOutcome]) -> None:
            for ((queue_id, key), acked), outcome in zip(acks.items(), outcomes, strict=True):
                kept = outcome is WriteOutcome.STORED and self._count(key, queue_id, acked)
                for done in acked.waiting:
                    done(kept)

        self._internal_writer.put(drafts, Origin.POP, wall, stored)

    def _count(self, key: Key, queue_id: int, acked: _Acked) -> bool:
        """Acknowledgements are in the log: whether they came in time. What was handed out again
        meanwhile is not acknowledged; whether it was cannot be said of one that is late, where its
        check point is not known, as after a start."""
        core = self.driver.queues.get(queue_id)
        if core is None:
            return not acked.late
        too_late = (
            (MessageState.DELIVERED, MessageState.UNKNOWN)
            if acked.late
            else (MessageState.DELIVERED,)
        )
        still = [at for at in acked.offsets if core.seen(key, at) not in too_late]
        core.add_pending_ack(key, still)
        return len(still) == len(acked.offsets)

    def _remember(self, acks: dict[tuple[int, Key], _Acked]) -> None:
        """Acknowledgements of check points in the own log, at a slave that must not write there.

        They are kept in memory; with the progress of the revive queue, which moves past check
        points of which nothing is open, they go to the master when that returns. What is lost with
        both is delivered again (H18).
        """
        for (queue_id, key), acked in acks.items():
            core = self.driver.queues.get(queue_id)
            known = core is not None and all(
                core.seen(key, offset) in (MessageState.OPEN, MessageState.ACKED)
                for offset in acked.offsets
            )
            if core is not None:
                core.add_acks(key, acked.offsets)
            for done in acked.waiting:
                done(known)


def _nowhere(topic: str) -> int | None:
    return None
