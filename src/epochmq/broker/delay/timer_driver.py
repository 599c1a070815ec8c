"""Timer driver: places messages of the timer topic on the timer wheel and delivers due messages.

It connects the core (`Timer`) with the store, the timer files and the internal writer. Each tick
does a limited piece of work. Messages are placed on the wheel in every role, at a replica only up
to the queue offset that its master has covered. Messages are delivered only while
`Serving.delivers` is true. If the timer files are wrong, they are rebuilt from the timer topic.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from epochmq.base.errors import EnvironmentFault
from epochmq.base.unbounded import UNLIMITED
from epochmq.broker.delay.delivery import TimerStore
from epochmq.broker.delay.slot_reading import SlotReading, cancels_now, merged
from epochmq.broker.delay.timed import (
    WheelMessage,
    cancelled_name,
    due_wall,
    names_of,
    restore,
    roll,
    waiting,
)
from epochmq.broker.delay.timed_messages import Timer
from epochmq.broker.delay.timer_counts import TimerCounts
from epochmq.broker.delay.timer_metrics import TimerMetrics
from epochmq.broker.internal_writes.internal_writer import InternalWriter, Origin, WriteOutcome
from epochmq.model import record
from epochmq.model.message import StoredMessage
from epochmq.model.names import TIMER_TOPIC
from epochmq.model.property_names import REAL_TOPIC
from epochmq.store.cold_reads import ColdReads
from epochmq.store.draft import Draft
from epochmq.store.log_memory import Prefetch
from epochmq.store.native_send import TIMED
from epochmq.store.read import GetStatus
from epochmq.store.remake import Remade
from epochmq.store.timer.timer_checkpoint import OlderProgress
from epochmq.store.timer.timer_files import SlotLink, TimerFiles
from epochmq.store.timer.wheel import DEFAULT, DELETE, ROLL, TimerDamaged, Unit
from epochmq.store.waits import TimedMessage

ENQUEUE_COUNT = 256
"""Limit of the messages that one tick places on the wheel."""
DELIVER_COUNT = 256
DELIVER_BYTES = 4 * 1024 * 1024
SLOTS_COUNT = 1024
"""Limit of the empty slots that one tick passes."""
UNITS_COUNT = 4096
"""Limit of the units of one slot that one tick collects (for merging see `MERGED_PER_READ`)."""
CLEAN_MS = 60_000
_READ_BYTES = 1 << 30

log = logging.getLogger(__name__)


class TimerDriver:
    """Drives the timer of one broker.

    `log_bounds` returns the begin and end of the commit log (log offsets). `epoch_at` returns the
    epoch that wrote the byte before a log offset. `cold_reads` reads what is not in memory.
    """

    def __init__(
        self,
        core: Timer,
        files: TimerFiles,
        store: TimerStore,
        internal_writer: InternalWriter,
        log_bounds: Callable[[], tuple[int, int]],
        epoch_at: Callable[[int], int],
        cold_reads: ColdReads,
    ) -> None:
        self.core = core
        self.files = files
        self.metrics = TimerMetrics()
        self.counts = TimerCounts()
        self.finished: list[int] = []
        """Delivered slots, to be emptied when the deliveries are synced to the device."""
        self.stop_enqueue = self.stop_dequeue = False
        self.enqueued = self.delivered = self.discarded = self.rebuilds = 0
        self._store = store
        self._internal_writer = internal_writer
        self._log_bounds = log_bounds
        self._epoch_at = epoch_at
        self._cold_reads = cold_reads
        self._is_reading = self._was_read = self._must_go_on = False
        """Messages are being read from the device; were read after the last tick; before it."""
        self.delivers = False
        self._reading: SlotReading | None = None
        self._collecting = False
        self._backlog = False
        self._turn = 0
        """Counts events that make a pending outcome of the internal writer stale."""
        self._awaits_answer = self._is_damaged = False
        self._clean_at = 0

    def tick(self, wall: int, *, delivers: bool) -> None:
        """Do a limited piece of work at wall time `wall` (ms); `delivers` allows deliveries."""
        try:
            self._change_role(delivers, wall)
            if self._is_damaged:
                if not self._awaits_answer:
                    self.rebuild()
                return
            if self.core.is_behind(wall):
                if not self.finished and not self.core.flying:
                    self._follow_back(wall)
                return
            if delivers and not self.core.flying and self._is_out_of_reach(wall):
                log.warning(
                    "the timer's position %(read_ms)d is older than its wheel",
                    {"read_ms": self.core.read_ms},
                )
                self.core.skip_to(wall)
                self.rebuild()
            self._must_go_on, self._was_read = self._was_read, False
            if not self.stop_enqueue and not self._is_reading:
                self._enqueue(wall)
            if delivers and not self.stop_dequeue and not self._is_reading:
                self._deliver(wall)
            self._clean(wall)
        except TimerDamaged as error:
            log.error(
                "the timer's files are rebuilt from the timer topic: %(error)s", {"error": error}
            )
            self.find_damaged()
        except EnvironmentFault as error:
            log.error("the timer's files cannot be written now: %(error)s", {"error": error})

    def next_deadline(self, wall: int) -> int | None:
        """Return the wall time (ms) of the next tick that has work; None without work."""
        puts = self.delivers and not self.stop_dequeue
        if self._is_damaged:
            return None if self._awaits_answer else wall
        if self._is_reading:
            return None
        if self._backlog or (self._collecting and puts):
            return wall
        return self.core.next_deadline(wall) if puts else None

    def find_damaged(self) -> None:
        """Rebuild the timer files as soon as the internal writer has reported its outcome.

        Otherwise messages in flight would be delivered twice (INV-27).
        """
        self._is_damaged = True
        if not self._awaits_answer:
            self.rebuild()

    def rebuild(self) -> None:
        """Reset the timer files, and place all messages of the timer topic on the wheel again."""
        self._turn += 1
        self._awaits_answer = self._is_damaged = False
        self._reading = None
        self.rebuilds += 1
        self.finished.clear()
        self.files.reset(self.core.position)
        self.metrics.reset()
        first = max(self._store.queue_bounds(TIMER_TOPIC, 0)[0], 0)
        self.core.begin_again(first, self.files.log.end)

    def clear(self, slots_ms: Collection[int]) -> None:
        """Empty delivered slots; errors are only logged, damage is handled when a slot is read."""
        self.finished = [slot_ms for slot_ms in self.finished if slot_ms not in slots_ms]
        try:
            self.files.clear(slots_ms)
        except (TimerDamaged, EnvironmentFault) as error:
            log.error("delivered slots of the timer cannot be emptied: %(error)s", {"error": error})

    def count_at(self, slot_ms: int) -> int:
        """Return the number of messages in a slot; a damaged slot counts as empty."""
        try:
            return self.files.count(slot_ms)
        except TimerDamaged:
            return 0

    def behind(self) -> int:
        """Return the number of messages of the timer topic that are not on the wheel yet."""
        return max(0, self._store.queue_bounds(TIMER_TOPIC, 0)[1] - self.core.cursor)

    def statistics(self) -> dict[str, int]:
        return {
            **self.core.statistics(),
            "enqueued": self.enqueued,
            "delivered": self.delivered,
            "discarded": self.discarded,
            "rebuilds": self.rebuilds,
        }

    def _is_out_of_reach(self, wall: int) -> bool:
        """Return whether `read_ms` is so far back that present messages may not fit on the wheel.

        This happens if the clock of this broker, or of the broker that delivered before, was days
        behind. New messages would wait for slots to pass, and slots wait for the messages.
        """
        core = self.core
        span_ms = self.files.wheel.slots * core.precision_ms
        return core.read_ms > 0 and wall - core.read_ms > span_ms // 2

    def _change_role(self, delivers: bool, wall: int) -> None:
        if delivers == self.delivers:
            return
        self.delivers = delivers
        self._reading = None
        self._turn += 1
        self._awaits_answer = False
        if delivers:
            is_whole = self.core.keep_older(self._holds)
            high = max(self._store.queue_bounds(TIMER_TOPIC, 0)[1], 0)
            if not self.core.start_delivery(wall, high):
                log.error(
                    "the timer topic ends at %(high)d, before messages that the timer wheel has",
                    {"high": high},
                )
                self.rebuild()
            elif not is_whole:
                log.warning("the log was cut since the clock went back: the timer wheel is rebuilt")
                self.rebuild()
        else:
            self.files.rewind(self.core.fall_back())

    def _holds(self, row: OlderProgress) -> bool:
        """Return whether the log still contains the deliveries of an older progress pair."""
        return row.log_end <= self._log_bounds()[1] and row.epoch == self._epoch_at(row.log_end)

    def _follow_back(self, wall: int) -> None:
        """Follow a wall clock that went back.

        If the clock was an hour ahead, late messages are in a slot that is due in an hour and are
        not delivered. They are placed on the wheel again (INV-27).
        """
        core = self.core
        self._turn += 1
        self._reading = None
        if core.has_skipped:
            core.unskip()
            self.rebuild()
        if core.is_behind(wall):
            end = self._log_bounds()[1]
            core.set_back(wall, end, self._epoch_at(end))

    def _must_wait(self, missing: Prefetch | None) -> bool:
        """Return whether messages are `missing` in memory; then another thread reads them.

        What has left the memory again at the next tick is read in the event loop.
        """
        if missing is None or self._must_go_on or not self._cold_reads.has_room:
            return False

        def done() -> None:
            self._is_reading = False
            self._was_read = True

        self._is_reading = True
        self._cold_reads.run(missing, done)
        return True

    # Enqueue ---------------------------------------------------------------------------------

    def _enqueue(self, wall: int) -> None:
        core = self.core
        self._backlog = False
        if not self.delivers and not core.catching_up:
            return
        stop = core.covered if core.catching_up else UNLIMITED
        count = min(ENQUEUE_COUNT, stop - core.cursor)
        place = TIMER_TOPIC, 0, core.cursor
        if self._must_wait(self._store.missing_messages(*place, count, _READ_BYTES)):
            return
        waits = self._store.waits(core.cursor, count)
        if waits:
            self._hang_plain(waits, wall)
            end = max(self._store.queue_bounds(TIMER_TOPIC, 0)[1], 0)
            self._backlog = core.cursor < min(end, stop)
            return
        found = self._store.read_queue(*place, count, _READ_BYTES, None, lambda _: True, stop=stop)
        if found.count:
            self._hang(found.chunks, wall)
            self._backlog = core.cursor < min(max(found.max_offset, 0), stop)
        elif core.cursor < (low := max(found.min_offset, 0)):  # retention deleted the messages
            core.enqueued(min(low, stop), self.files.log.end)
        elif found.status is GetStatus.NO_MATCHED_MESSAGE:  # holes
            core.enqueued(min(found.next_offset, stop), self.files.log.end)

    def _hang(self, raws: Sequence[memoryview], wall: int) -> None:
        """Place records of the timer topic on the wheel, and move the cursor behind them."""
        topics = self._add(raws, wall)
        self._hung(topics, record.queue_offset_at(raws[-1], 0) + 1, wall)

    def _add(self, raws: Sequence[memoryview], wall: int) -> list[str]:
        """Place records on the wheel; return the real topics of those that got a place."""
        core, last_ms = self.core, self._last_ms()
        links: list[SlotLink] = []
        entries: list[WheelMessage] = []
        delays: list[int] = []
        for raw in raws:
            at = record.offset_at(raw, 0)
            entry = waiting(raw)
            if entry is None:
                self._discard(at, "says no time or place, or is damaged")
                continue
            offset, stored = record.queue_offset_at(raw, 0), record.store_time_at(raw, 0)
            place = core.place(offset, entry.deliver_wall_ms, stored, delete=bool(entry.cancels))
            if place is not None:
                if place.slot_ms >= last_ms:
                    place = core.farthest(place.magic)
                link = SlotLink(
                    place.slot_ms, place.magic, at, len(raw), entry.topic_hash, place[2]
                )
                links.append(link)
                entries.append(entry)
                delays.append(entry.deliver_wall_ms - stored)
        positions = self.files.add(links, wall) if links else []
        for link, entry, position in zip(links, entries, positions, strict=True):
            if core.joined(link.slot_ms, link.deliver_wall_ms, position) and cancels_now(link):
                core.cancel(cancelled_name(entry), link.deliver_wall_ms)
        topics = [entry.topic for entry in entries]
        self.counts.placed(topics, delays)
        return topics

    def _hang_plain(self, waits: Sequence[TimedMessage], wall: int) -> None:
        """Do the same as `_hang` for messages that are valid and cancel nothing."""
        core, last_ms = self.core, self._last_ms()
        place_of, joined = core.place, core.joined
        links: list[SlotLink] = []
        topics: list[str] = []
        delays: list[int] = []
        after = core.cursor
        for offset, stored, due, topic, topic_hash, at, size in waits:
            place = place_of(offset, due, stored)
            if place is not None:
                if place.slot_ms >= last_ms:
                    place = core.farthest(place.magic)
                slot_ms, magic, deliver_wall_ms = place
                links.append(SlotLink(slot_ms, magic, at, size, topic_hash, deliver_wall_ms))
                topics.append(topic)
                delays.append(due - stored)
            after = offset + 1
        positions = self.files.add(links, wall) if links else []
        for link, position in zip(links, positions, strict=True):
            joined(link.slot_ms, link.deliver_wall_ms, position)
        self.counts.placed(topics, delays)
        self._hung(topics, after, wall)

    def _last_ms(self) -> int:
        """Return the first slot (wall ms) that the wheel does not reach."""
        return self.core.read_ms + self.files.wheel.slots * self.core.precision_ms

    def _hung(self, topics: Sequence[str], after: int, wall: int) -> None:
        self._count(topics, wall)
        self.enqueued += len(topics)
        self.core.enqueued(after, self.files.log.end)

    def _count(self, topics: Sequence[str], wall: int) -> None:
        for topic, count in Counter(topics).items():
            self.metrics.add([topic], count, wall)

    # Deliver ---------------------------------------------------------------------------------

    def _deliver(self, wall: int) -> None:
        core = self.core
        for _ in range(SLOTS_COUNT):
            slot_ms = core.wants(wall)
            if slot_ms is not None and not self._open(slot_ms, wall):
                return
            batch = core.batch(wall, DELIVER_COUNT)
            if batch:
                try:
                    self._put(batch, wall)
                except EnvironmentFault:
                    core.withdraw()  # nothing is in flight: the batch is tried again
                    raise
                return
            slot_ms, held = core.read_ms, core.size
            if not core.advance(wall, self.files.log.end):
                return
            if held:
                self.finished.extend(range(slot_ms, core.read_ms, core.precision_ms))

    def _open(self, slot_ms: int, wall: int) -> bool:
        """Read the units of a slot and of later due slots, and open them; return whether open.

        A large slot is read in several ticks.
        """
        reading = self._reading
        if reading is None or reading.slot_ms != slot_ms:
            reading = self._reading = SlotReading(self.files, slot_ms, self.core.key_of)
        self._collecting = not reading.read(UNITS_COUNT)
        if self._collecting:
            return False
        self._reading = None
        readings = [reading, *self._more_slots(reading, wall)]
        self.core.opened(merged(readings), len(readings))
        for position in [position for one in readings for position in one.deletes]:
            unit = self.files.unit(position)
            raw = self._record(unit)
            entry = None if raw is None else waiting(raw)
            if entry is not None:
                self.core.cancel(cancelled_name(entry), unit.deliver_wall_ms)
        return True

    def _more_slots(self, first: SlotReading, wall: int) -> list[SlotReading]:
        """Read the following slots that are over as well, as long as all fit in one batch."""
        core, more = self.core, list[SlotReading]()
        slot_ms, count = first.slot_ms + core.precision_ms, len(first.keys())
        while count and core.spans(slot_ms, wall):
            count += self.files.count(slot_ms)
            if count > DELIVER_COUNT:
                break
            reading = SlotReading(self.files, slot_ms, core.key_of)
            while not reading.read(UNITS_COUNT):
                pass
            more.append(reading)
            slot_ms += core.precision_ms
        return more

    def _put(self, batch: Sequence[int], wall: int) -> None:
        """Put the units of a batch; a unit that needs no put counts as stored."""
        units = self._units(batch)
        if self._must_wait(self._store.missing_records([(u.offset, u.size) for u in units])):
            self.core.withdraw()
            return
        if self._put_plain(units, wall):
            return
        if not self._hang_again(units, wall):
            return
        messages: list[StoredMessage | None] = []
        drafts: list[Draft] = []
        places: list[int] = []
        for at, unit in enumerate(units):
            message, draft = self._prepare(unit, wall)
            messages.append(message)
            if draft is not None:
                places.append(at)
                drafts.append(draft)
        topics = [m if m is None else m.properties.get(REAL_TOPIC, "") for m in messages]
        if drafts:
            self._write(drafts, units, places, topics, wall)
        else:
            self._finish_batch(topics, [True] * len(units), wall)

    def _write(
        self,
        drafts: Sequence[Draft] | Remade,
        units: Sequence[Unit],
        places: Sequence[int],
        topics: Sequence[str | None],
        wall: int,
    ) -> None:
        """Pass messages to the internal writer.

        `places` are their places in the batch `units`; the others count as stored. `topics`: see
        `_finish_batch`.
        """
        held, turn = [True] * len(units), self._turn

        def done(outcomes: Sequence[WriteOutcome]) -> None:
            if turn != self._turn:
                return  # another role or wheel: the messages are put again, not lost
            for at, outcome in zip(places, outcomes, strict=True):
                held[at] = outcome is not WriteOutcome.LATER
                if outcome is WriteOutcome.ILLEGAL:
                    self._discard(units[at].offset, "is illegal as it would be stored")
            self._finish_batch(topics, held, wall)

        self._awaits_answer = True
        self.core.put_begins(self.files.log.end)
        self._internal_writer.put(drafts, Origin.TIMER, wall, done)

    def _put_plain(self, units: Sequence[Unit], wall: int) -> bool:
        """Put the first units with native code; return False if it cannot make them.

        Also False if the native code stops between messages of the same time.
        """
        core = self.core
        if core.cancels or any(
            unit.magic != DEFAULT or core.may_be_done(unit.deliver_wall_ms) for unit in units
        ):
            return False
        sources = [(unit.offset, unit.size, unit.write_wall_ms) for unit in units]
        remade = self._store.remake(TIMED, sources, wall)
        if remade is not None and self.core.splits(len(units) - len(remade)):
            self._store.remake(TIMED, sources[len(remade) :], wall)  # learns the topic of the stop
            remade = self._store.remake(TIMED, sources, wall)
        if remade is None or self.core.splits(len(units) - len(remade)):
            return False
        count = len(remade)
        self.core.put_back(len(units) - count)
        self._write(remade, units[:count], range(count), remade.run.topics(), wall)
        return True

    def _units(self, batch: Sequence[int]) -> list[Unit]:
        """Return the first units of a batch, up to `DELIVER_BYTES`; the rest goes into the next."""
        units: list[Unit] = []
        size = 0
        for unit in self.files.units(batch):
            size += unit.size
            if units and size > DELIVER_BYTES:
                break
            units.append(unit)
        self.core.put_back(len(batch) - len(units))
        return units

    def _finish_batch(self, topics: Sequence[str | None], held: Sequence[bool], wall: int) -> None:
        """Count the stored messages and report the batch to the core.

        `topics` are the real topics; None for a message that is gone or was delivered before.
        """
        self._awaits_answer = False
        over = [topic for topic, ok in zip(topics, held, strict=True) if ok and topic is not None]
        for topic, count in Counter(over).items():
            self.metrics.add([topic], -count, wall)
            self.counts.dequeued.add(topic, count)
        self.delivered += len(over)
        self.core.batch_put(held, wall, self.files.log.end)

    def _prepare(self, unit: Unit, wall: int) -> tuple[StoredMessage | None, Draft | None]:
        """Return the message of a unit and the draft to put for it; None for what is not needed."""
        raw = self._record(unit)
        if raw is None:
            self._discard(unit.offset, "is no longer in the log, which keeps messages too briefly")
            return None, None
        message = record.decode(raw)
        if message.topic != TIMER_TOPIC:
            raise TimerDamaged(f"the message at {unit.offset} is not the timer topic's")
        if unit.magic & ROLL:
            return message, roll(message) if self._rolls(message, unit) else None
        due = due_wall(message.properties, message.store_wall_ms)
        if due is None or due > wall:
            raise TimerDamaged(f"the message at {unit.offset} hangs in another's slot")
        if self.core.was_done(message.queue_offset, due):
            return None, None  # not counted any more: see `TimerMetrics.merge`
        if unit.magic & DELETE:
            return message, None
        if self.core.cancels and self.core.is_cancelled(names_of(message), unit.deliver_wall_ms):
            return message, None
        draft = restore(message, unit.write_wall_ms, wall)
        if draft is None:
            self._discard(message.offset, "names no topic")
        return message, draft

    def _hang_again(self, units: Sequence[Unit], wall: int) -> bool:
        """Place units again that were at the farthest place of the wheel, before their own time.

        Returns False if the wheel was rebuilt instead. That is needed if late messages wait after
        the clock went back by more than the wheel reaches: until they are delivered, a checkpoint
        would not cover the new units.
        """
        raws = []
        for unit in units:
            raw = self._record(unit) if unit.magic & ROLL else None
            if raw is not None and unit.deliver_wall_ms < self._time_of(raw):
                raws.append(raw)
        if raws and self.core.waits_for_late:
            log.warning(
                "the clock went back further than the wheel reaches: the timer wheel is rebuilt"
            )
            self.rebuild()
            return False
        self._count(self._add(raws, wall), wall)
        return True

    def _time_of(self, raw: memoryview) -> int:
        entry, stored = waiting(raw), record.store_time_at(raw, 0)
        return stored if entry is None else self.core.time_of(entry.deliver_wall_ms, stored)

    def _rolls(self, message: StoredMessage, unit: Unit) -> bool:
        """Return whether the message must be rolled: put into the timer topic again, once."""
        due, stored = due_wall(message.properties, message.store_wall_ms), message.store_wall_ms
        if due is None or unit.deliver_wall_ms < self.core.time_of(due, stored):
            return False
        return self.core.place(message.queue_offset, due, stored) is not None

    def _record(self, unit: Unit) -> memoryview | None:
        raw = self._store.message_at(unit.offset, unit.size)
        if raw is None and unit.offset >= self._log_bounds()[0]:
            raise TimerDamaged(f"no message of {unit.size} bytes is at {unit.offset} of the log")
        return raw

    # Cleaning --------------------------------------------------------------------------------

    def _clean(self, wall: int) -> None:
        """Delete timer log files whose messages are all past, once a minute (`CLEAN_MS`)."""
        if wall < self._clean_at:
            return
        self._clean_at = wall + CLEAN_MS
        spare = 2 * self.core.window_ms
        self.files.clean(min(wall, self.core.read_ms) - spare)

    def _discard(self, offset: int, why: str) -> None:
        self.discarded += 1
        log.error(
            "the timed message at %(offset)d of the log %(why)s; discarded",
            {"offset": offset, "why": why},
        )
