"""The POP state of one broker: check points, acknowledgements, and the background work of POP.

`PopState` joins the parts of POP: the windows of popped messages, the POP buffer, ordered POP, the
waiting pops (long polling) and the revive driver.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
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
from epochmq.broker.pop.revive_counts import ACK
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
    """A check point that a pop made, with its revive queue and the window that it covers."""

    check_point: CheckPoint
    queue_id: int
    window: PopWindow | None


@dataclass
class _Acked:
    """Acknowledged messages of one check point, and the callbacks of the requests."""

    offsets: list[int]
    waiting: list[Callable[[bool], None]]
    due_wall_ms: int
    late: bool
    """Whether the invisible time seemed to be over: then the acknowledgements count only if the
    check point is known here."""


class PopState:
    """All POP state of a broker. No method blocks; results are reported to callbacks."""

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
        now_ms: Callable[[], int],
    ) -> None:
        """Build the parts of POP.

        `escapes` returns whether this broker is an acting master, which must not write to its own
        log. `host` is the store host for acknowledgement records. `now_ms` returns the monotonic
        time.
        """
        self._store = store
        self._internal_writer = internal_writer
        self._offsets = offsets
        self._host = host
        self._broker_name = broker_name
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
        """Number of role changes. A request that spans a change must not use its old state."""
        self._running = self._delivers = False
        """Whether the revive queues were started in this role; whether they are driven now."""
        self._next_queue = -1
        self._acks: dict[tuple[int, Key], _Acked] = {}
        """Acknowledgements of this turn of the loop, by revive queue and check point key."""
        self._escapes = escapes
        self._now_ms = now_ms
        self._choose_pin: Callable[[str], int | None] = _nowhere
        """Chooses the pinned queue of another master for the check points of a topic, while this
        broker is an acting master. None: there is no such master."""

    def use_other_masters(
        self, choose_pin: Callable[[str], int | None], fetch: FetchFromGroup
    ) -> None:
        """Connect POP with other broker groups (RIP-32).

        `choose_pin` returns the pinned queue number of the master that stores the check points of a
        topic, or None. `fetch` reads messages of check points of another broker group.
        """
        self._choose_pin = choose_pin
        self.driver.fetch_from(fetch)

    def adopt_options(self, options: PopKeys) -> None:
        self._options = options

    # Between requests ------------------------------------------------------------------------

    def tick(self, now: int, wall: int, *, delivers: bool) -> None:
        """Do a limited piece of background work; `now` is monotonic ms, `wall` is wall ms.

        Commits offsets that are confirmed now, writes check points of the POP buffer that are due,
        and revives if `delivers` is true.
        """
        self.write_acks(wall)  # before what is due is looked at
        self.confirmed.run_due()
        begun = self._now_ms()
        for slot in self.buffer.due(now, WRITES_PER_TICK):
            self._write(slot, now, wall)
        self.driver.counts.scan_times.observe(self._now_ms() - begun)
        self._delivers = delivers
        if not delivers:  # a lease may be renewed: by then the wall clock may say something else
            return
        if not self._running:
            self._running = True
            self.driver.start(self.revive_queues())
        self.driver.retry_v2 = self._options.enable_retry_topic_v2
        self.driver.tick(now, wall)

    def next_deadline(self, now: int) -> int | None:
        """Return the monotonic time (ms) of the next tick that has work; None without work."""
        wanted = [self.driver.next_deadline(now)] if self._delivers else []
        wanted += [self.buffer.next_deadline(), self.orders.next_deadline()]
        wanted.append(self.polls.polls.next_deadline())
        return min((at for at in wanted if at is not None), default=None)

    def role_changed(self) -> None:
        """Forget the state in memory, which belongs to the old role.

        The next master reads the check points from its own log.
        """
        self.role_changes += 1
        self._running = self._delivers = False
        self.driver.stop()
        self.windows.clear()
        self.confirmed.clear()
        self.buffer.clear()

    def drop_topic(self, topic: str) -> None:
        """Forget the POP state of a deleted topic.

        A new topic of the same name begins at its first message, so a pending window must not
        commit an offset past it.
        """
        self.windows.drop(lambda key: key.topic == topic)
        self.orders.drop(lambda key: key.topic == topic)
        self.buffer.drop_topic(topic)

    def drop_group(self, group: str) -> None:
        """Forget the windows and ordered batches of a deleted consumer group."""
        self.windows.drop(lambda key: key.group == group)
        self.orders.drop(lambda key: key.group == group)

    def apply_committed_orders(self, now: int, wall: int) -> None:
        """Reconcile ordered batches and committed offsets before this broker serves ordered POP.

        Both are replicated, but separately, so one may be older than the other.
        """

        def committed(key: QueueKey) -> tuple[int, int]:
            return self._offsets.get(*key), self._offsets.begun_at(*key)

        for key, offset in self.orders.apply_committed(committed, now):
            self._commit(key, offset, wall)

    def finish(self, now: int, wall: int) -> None:
        """Write all check points of the POP buffer to the log before a stop.

        So a clean stop repeats no delivery.
        """
        self.write_acks(wall)
        for slot in self.buffer.pop_all():
            self._write(slot, now, wall)

    def revive_queues(self) -> int:
        config = self._topics.get(self.topic)
        return self._options.revive_queue_num if config is None else config.read_queue_nums

    def next_revive_queue(self, topic: str) -> int:
        """Return the revive queue number for the receipt handles of one pop of `topic`.

        It is a queue of the own revive topic, round robin. At an acting master it is a pinned queue
        of another master. Raises `Refused` if an acting master finds no such master.
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
        """Return the revive queue for a check point that replaces one in `queue_id`.

        A change of the invisible time writes such a check point. Raises `Refused` like
        `next_revive_queue`.
        """
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

    def in_flight(self) -> Iterator[tuple[QueueKey, list[int]]]:
        """Yield queues of this broker, and the queue offsets of messages that were popped and are
        not finished, rising.

        Finished is what is acknowledged, or written to the retry topic. A queue can be yielded many
        times, a message once. The state may change while a caller takes its time.
        """
        known: set[Key] = set()
        for entry in self.driver.open_check_points():
            point = entry.check_point
            known.add(point.key)
            if point.broker_name in (None, "", self._broker_name):
                key = QueueKey(point.group, point.topic, point.queue_id)
                yield key, sorted(offset for _, offset in entry.open_messages())
        for slot in self.buffer.slots():
            point = slot.check_point
            if point.key not in known:  # else it is written, and was read already
                open_bits = slot.full & ~slot.acked
                yield (
                    QueueKey(point.group, point.topic, point.queue_id),
                    [at for bit, at in enumerate(slot.offsets) if open_bits >> bit & 1],
                )
        for key, batch in self.orders.batches():
            yield key, sorted({*batch.offsets} - batch.acked_offsets())

    # Check points ----------------------------------------------------------------------------

    def keep(self, taken: Sequence[PoppedCheckPoint], now: int, wall: int, done: Stored) -> None:
        """Store check points in the POP buffer or in the log; `done` gets a bool for each.

        Once a check point is stored, its window counts as taken. The window's offset is committed
        when the check point is confirmed.
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
                self.driver.count_check_point(taken[number].check_point, outcome)
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
        """Mark the window as safe, and commit the consumer offset that is safe now."""
        offset = self.windows.offset_to_commit(window)
        if offset is None:
            return
        self._commit(window.key, offset, wall)

    def _commit(self, key: QueueKey, offset: int, wall: int) -> None:
        try:
            self._offsets.commit(*key, offset, wall)
        except Refused as error:
            log.error(
                "the offset of %(group)s in %(topic)s is not stored: %(remark)s",
                {"group": key.group, "topic": key.topic, "remark": error.remark},
            )

    def _write(self, slot: BufferSlot, now: int, wall: int) -> None:
        self.driver.given(slot.check_point.key, slot.until_ms)
        draft = records.check_point_draft(slot.as_written(), self.topic, slot.queue_id, wall)

        def stored(outcomes: Sequence[WriteOutcome]) -> None:
            self.driver.count_check_point(slot.check_point, outcomes[0])
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
        """Return the state of a popped message; None if it is unknown.

        Reads on in the revive queue first. The state is unknown while the check point is in the POP
        buffer, this broker does not drive the revive queue, or more records must be read.
        """
        core = self.driver.queues.get(queue_id)
        if key in self.buffer or core is None or not self.driver.read(queue_id, now, wall):
            return None
        return core.seen(key, offset)

    def first_popped_ms(self, key: Key, queue_id: int) -> int:
        """Return when the messages of a check point were first popped (wall ms).

        Falls back to `key.pop_time` if the check point is not known here.
        """
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
        """Acknowledge messages of one check point; `done` gets whether the acknowledgement counts.

        `offsets` are queue offsets. `invisible_ms` is the invisible time of the receipt handle.
        Acknowledgements of check points in the POP buffer take effect at once; the others are
        written by `write_acks`, one record for each check point.
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
        """Write all acknowledgements of this turn of the loop in one batch for each destination."""
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
                self.driver.counts.count_written(key.group, key.topic, ACK, outcome)
                kept = outcome is WriteOutcome.STORED and self._count(key, queue_id, acked)
                for done in acked.waiting:
                    done(kept)

        self._internal_writer.put(drafts, Origin.POP, wall, stored)

    def _count(self, key: Key, queue_id: int, acked: _Acked) -> bool:
        """Apply acknowledgements that are in the log; return whether all came in time.

        A message that was delivered again meanwhile is not acknowledged. A late acknowledgement
        also fails if its check point is not known, for example after a start: then nobody knows
        whether the message was delivered again.
        """
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
        """Keep acknowledgements in memory at an acting master, which must not write to its log.

        They concern check points in its own log. The progress of the revive queue moves past
        finished check points, and the returning master takes over that progress. If the process
        stops before, the messages are delivered again (H18).
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
