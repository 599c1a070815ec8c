"""Appends messages to the commit log: one log write per run, and units in the queues' tails.

This is the hot path. Each message costs one packed record head, five pieces in one join, and one
packed unit. Each run costs one write. A run ends at the end of a log file; the rest continues in
the next file. If the write fails, the queue offsets are released again (rocketmq#6570).
"""

import re
from collections.abc import Callable, Sequence
from functools import cached_property

import msgspec

from epochmq.base.errors import DiskFailed, DiskFull
from epochmq.base.limits import (
    PROPERTIES_BYTES_MAX,
    RECORD_EXTRA_BYTES_MAX,
    RETRY_TOPIC_LENGTH_MAX,
    TOPIC_LENGTH_MAX,
)
from epochmq.base.ports import Buffer
from epochmq.model import properties as props
from epochmq.model.crc import crc32
from epochmq.model.property_names import INNER_BASE
from epochmq.model.record import HEADS
from epochmq.model.record import TRAILING_BLANK_BYTES as TAIL_BYTES
from epochmq.model.sink_mark import SinkMark
from epochmq.model.sys_flag import (
    BORN_V6,
    HOSTS_V6_MASK,
    INNER_BATCH,
    STORE_V6,
    TX_MASK,
    TX_PREPARED,
    TX_ROLLBACK,
)
from epochmq.model.tags import java_hash
from epochmq.native import library
from epochmq.store.batch_queue import inner_count
from epochmq.store.consume_queue import WRITE_UNITS, ConsumeQueue
from epochmq.store.draft import LENGTHS, UNIT, UNIT_BYTES, Appended, Draft, PutStatus
from epochmq.store.held_keys import Staged
from epochmq.store.native_batch import CheckedBatch, NativeBatch, Placed
from epochmq.store.native_send import SendRun
from epochmq.store.sink_runs import SinkRun
from epochmq.store.store_files import StoreFiles

CLOCK_STEP_MS = 3000
"""If the wall clock goes back by less than this (ms), store times wait for it (RocketMQ's
checkpoint margin).
"""

Result = Appended | PutStatus
IsNew = Callable[[SinkMark, int], bool]
"""Whether none of a sink's messages, given by the first mark and their number, is in the log."""

_HEAD = HEADS[0].pack
_UNIT = UNIT.pack
_NO_UNIT = (TX_PREPARED, TX_ROLLBACK)
_V6_BYTES = 12
"""Additional bytes of a record for an IPv6 host."""
_TOPIC = re.compile(r"[%|a-zA-Z0-9_+-]+")


def unsure(_mark: SinkMark, _count: int) -> bool:
    """Return False: without a memory of sinks nobody knows whether the messages are new."""
    return False


class Appender:
    """Appends records to the log in order; all appends of this broker go through here."""

    def __init__(
        self,
        files: StoreFiles,
        store_host: bytes,
        on_run: Callable[[list[ConsumeQueue]], None],
        on_failure: Callable[[Exception], None],
        on_clock_back: Callable[[int], None],
    ) -> None:
        """`on_run` is called after each successful run or roll; it gets each grown queue once.

        `on_failure` is called if a write or a roll failed: nothing of that run is in the log.
        `on_clock_back` is called if the wall clock went back so far that store times follow it.
        """
        options, queues = files.options, files.queues
        self._on_run = on_run
        self._on_failure = on_failure
        self._on_clock_back = on_clock_back
        self._log = files.log
        self._queues = queues
        self._topics = queues.topics
        self._body_max = options.message_bytes_max
        self._plain_max = min(PROPERTIES_BYTES_MAX, options.message_bytes_max)
        self._topic_max = RETRY_TOPIC_LENGTH_MAX if options.wide_topics else TOPIC_LENGTH_MAX
        self._index = options.index
        self._store_host = store_host
        self._store_v6 = len(store_host) == 20
        self.last_wall = 0
        """Newest store time (ms); along the log, store times do not decrease for a small clock
        step.
        """
        self.staged: Staged = []
        self._record_max = min(
            options.message_bytes_max, options.commit_log_file_bytes - TAIL_BYTES
        )
        self.count = 0
        self.bytes = 0

    @cached_property
    def _native_batch(self) -> NativeBatch | None:
        """The native encoder, made for the first whole batch; None without native code."""
        native = library.library()
        if native is None:
            return None
        return NativeBatch(native, self._store_host, self._record_max, self._index)

    def append(self, drafts: Sequence[Draft], wall: int) -> list[Result]:
        """Append in order; return for each draft its position, or the reason for its refusal."""
        if wall != self.last_wall:
            self._set_wall(wall)
        results: list[Result] = []
        self._run(drafts, results)
        while len(results) < len(drafts):
            self._run(drafts[len(results) :], results)
        return results

    def saw(self, wall: int) -> None:
        """Follow the store time `wall` (ms) of another broker's record that joins the log.

        Call this before the record's bytes are written: if that broker's clock is far behind, the
        checkpoint would otherwise claim that they are synced.
        """
        if wall > self.last_wall:
            self.last_wall = wall
        elif self.last_wall - wall >= CLOCK_STEP_MS:
            self.last_wall = wall
            self._on_clock_back(wall)

    def _set_wall(self, wall: int) -> None:
        """Set the store time: it does not follow a small step back of the clock, but a large
        one.
        """
        if wall > self.last_wall:
            self.last_wall = wall
        elif self.last_wall - wall > CLOCK_STEP_MS:
            self.last_wall = wall
            self._on_clock_back(wall)

    def _run(self, drafts: Sequence[Draft], results: list[Result]) -> None:
        """Append drafts that fit the active file, then open the next file if needed."""
        offset = self._log.end
        limit = self._log.active_end - TAIL_BYTES
        wall = self.last_wall
        store_host = self._store_host
        staged = self.staged if self._index else None
        topics = self._topics
        touched: list[ConsumeQueue] = []
        parts: list[bytes] = []
        before = (len(results), len(self.staged))
        for draft in drafts:
            try:
                queue = topics[draft.topic][draft.queue_id]
            except KeyError:
                if not self._make_queue(draft) or draft.topic in self._queues.batch:
                    used = self._append_elsewhere(draft, offset, limit, parts, touched, results)
                    if used < 0:
                        break
                    offset += used
                    continue
                queue = topics[draft.topic][draft.queue_id]
            body = draft.body
            properties = draft.properties
            size = queue.base_bytes + len(body) + len(properties)
            sys_flag = draft.sys_flag
            head = _HEAD
            if self._store_v6 or len(draft.born_host) != 8 or sys_flag & HOSTS_V6_MASK:
                size, sys_flag, head = self._wide(draft, size)
            if offset + size > limit or size > self._plain_max or b"\0" in properties:
                if (status := self._check(draft, size)) is not None:
                    results.append(status)
                    continue
                if offset + size > limit:
                    break
            queue_offset = queue.next
            kind = sys_flag & TX_MASK
            if kind in _NO_UNIT:
                queue_offset = 0
            else:
                if queue_offset == queue.settled:
                    touched.append(queue)
                queue.next = queue_offset + 1
                tags_code = draft.tags_code if queue.delay_ms is None else wall + queue.delay_ms
                queue.tail += _UNIT(offset, size, tags_code)
            # fmt: off
            parts += (
                head(size, queue.magic, crc32(body), draft.queue_id, draft.flag, queue_offset,
                     offset, sys_flag, draft.born_wall_ms, draft.born_host, wall, store_host,
                     draft.reconsume_times, draft.prepared_offset, len(body)),
                body, queue.name, LENGTHS[len(properties)], properties,
            )
            # fmt: on
            if staged is not None and draft.keys and kind != TX_ROLLBACK:
                staged.append((draft.topic, draft.keys, offset, wall))
            results.append(Appended(offset, size, queue_offset, wall))
            offset += size
        self._finish(drafts, parts, touched, results, before)

    def _append_elsewhere(
        self,
        draft: Draft,
        offset: int,
        limit: int,
        parts: list[bytes],
        touched: list[ConsumeQueue],
        results: list[Result],
    ) -> int:
        """Append a draft to a batch queue; return the record's bytes, 0 if refused, -1 without
        room.

        An inner batch gets its first queue offset here, as property INNER_BASE.
        """
        queue = self._queues.batch.get(draft.topic, {}).get(draft.queue_id)
        if queue is None:
            results.append(PutStatus.MESSAGE_ILLEGAL)
            return 0
        if draft.sys_flag & INNER_BATCH:
            base = b"%s\x01%d" % (INNER_BASE.encode(), queue.next)
            properties = props.append(draft.properties, base)
            draft = msgspec.structs.replace(draft, properties=properties)
        size = queue.base_bytes + len(draft.body) + len(draft.properties)
        size, sys_flag, head = self._wide(draft, size)
        if (status := self._check(draft, size)) is not None:
            results.append(status)
            return 0
        if offset + size > limit:
            return -1
        wall = self.last_wall
        queue_offset = queue.next
        kind = sys_flag & TX_MASK
        if kind in _NO_UNIT:
            queue_offset = 0
        else:
            if queue_offset == queue.settled:
                touched.append(queue)
            count = inner_count(sys_flag, draft.properties)
            queue.add(offset, size, draft.tags_code, wall, count)
        # fmt: off
        parts += (
            head(size, queue.magic, crc32(draft.body), draft.queue_id, draft.flag, queue_offset,
                 offset, sys_flag, draft.born_wall_ms, draft.born_host, wall, self._store_host,
                 draft.reconsume_times, draft.prepared_offset, len(draft.body)),
            draft.body, queue.name, LENGTHS[len(draft.properties)], draft.properties,
        )
        # fmt: on
        if self._index and draft.keys and kind != TX_ROLLBACK:
            self.staged.append((draft.topic, draft.keys, offset, wall))
        results.append(Appended(offset, size, queue_offset, wall))
        return size

    def _finish(
        self,
        drafts: Sequence[Draft],
        parts: list[bytes],
        touched: list[ConsumeQueue],
        results: list[Result],
        before: tuple[int, int],
    ) -> None:
        """Write the run; open the next file if drafts are left; undo the run if the write fails."""
        first, staged = before
        if parts and not self._put(b"".join(parts), len(parts) // 5, touched, staged):
            del results[first:]
            results += [PutStatus.SERVICE_NOT_AVAILABLE] * len(drafts)
            return
        left = len(drafts) - (len(results) - first)
        if left:
            try:
                self._roll()
            except (DiskFull, DiskFailed) as error:
                results += [PutStatus.CREATE_MAPPED_FILE_FAILED] * left
                self._on_failure(error)

    def _roll(self) -> None:
        """Open the next file, and report the blank at once, because a later write may fail."""
        end = self._log.end
        self._log.roll()
        if self._log.end > end:
            self._on_run([])

    def _put(self, data: Buffer, count: int, touched: list[ConsumeQueue], staged: int) -> bool:
        """Write `count` records whose units and keys are in memory already; undo those on
        failure.
        """
        try:
            self._log.write(data)
        except (DiskFull, DiskFailed) as error:
            self._undo(touched, staged)
            self._on_failure(error)
            return False
        self.count += count
        self.bytes += len(data)
        for queue in touched:
            queue.settled = queue.next
            if not queue.dirty:
                self._queues.mark_dirty(queue)
            if queue.next - queue.written >= WRITE_UNITS:
                self._write_out(queue)
        self._on_run(touched)
        return True

    def append_packed(
        self, batch: CheckedBatch, wall: int, is_new: IsNew = unsure
    ) -> Placed | PutStatus | None:
        """Append a whole batch in native code; return None, and change nothing, if Python must do
        it.

        Python handles the first message of a queue, the end of a file, whatever may be refused, and
        a sink's messages that are not one run of which all are `is_new`.
        """
        native = self._native_batch
        queue = self._topics.get(batch.topic, {}).get(batch.queue_id)
        if native is None or queue is None or queue.delay_ms is not None:
            return None
        if wall != self.last_wall:
            self._set_wall(wall)
        log = self._log
        offset, queue_offset, staged = log.end, queue.next, len(self.staged)
        made = native.make(
            batch,
            self._head_of(batch, queue),
            queue.name,
            java_hash(batch.topic + "#"),
            (offset, log.active_end - TAIL_BYTES - offset, queue_offset),
            self.last_wall,
        )
        if made is None or (made.mark is not None and not is_new(made.mark, made.count)):
            return None
        queue.next = queue_offset + made.count
        queue.tail += made.units
        if made.keys is not None:
            self.staged.append(made.keys)
        if not self._put(made.records, made.count, [queue], staged):
            return PutStatus.SERVICE_NOT_AVAILABLE
        run = None
        if made.mark is not None:
            run = SinkRun(made.mark, made.count, batch.queue_id, queue_offset, made.units)
        return Placed(offset, len(made.records), queue_offset, made.count, made.ids, run)

    def append_run(self, run: SendRun, wall: int) -> bool:
        """Append single sends that the native code decoded; return whether they were appended.

        If False, nothing has changed, and Python must append them: at the end of a file, for a
        queue of another kind, or after a failed write.
        """
        if wall != self.last_wall:
            self._set_wall(wall)
        log = self._log
        offset, wall = log.end, self.last_wall
        end = offset + run.size
        if end > log.active_end - TAIL_BYTES:
            return False
        queues: list[ConsumeQueue] = []
        nexts: list[tuple[int, int]] = []
        for topic, queue_id in run.places():
            queue = self._plain(topic, queue_id)
            if queue is None:
                return False
            queues.append(queue)
            nexts.append((queue.next, -1 if queue.delay_ms is None else queue.delay_ms))
        if not run.finish(offset, wall, nexts):
            return False
        units = run.units
        for queue, (count, at) in zip(queues, run.rows(), strict=True):
            queue.next += count
            queue.tail += units[at : at + count * UNIT_BYTES]
        staged = len(self.staged)
        if (keys := run.keys(offset, end, wall)) is not None:
            self.staged.append(keys)
        return self._put(run.records, run.count, queues, staged)

    def is_plain_topic(self, topic: str) -> bool:
        """Whether a topic may have plain queues, with one message per record."""
        return self._is_name(topic) and not self._queues.is_batched(topic)

    def _plain(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a plain queue (one message per record), created if needed."""
        queue = self._topics.get(topic, {}).get(queue_id)
        if queue is None and not self._queues.is_batched(topic):
            queue = self._queues.get(topic, queue_id)
        return queue

    def _head_of(self, batch: CheckedBatch, queue: ConsumeQueue) -> bytes:
        """Return the record head of a batch, with zeros for the fields that the native code
        fills.
        """
        sys_flag = batch.sys_flag & ~HOSTS_V6_MASK
        sys_flag |= STORE_V6 * self._store_v6 | BORN_V6 * (len(batch.born_host) == 20)
        # fmt: off
        return HEADS[sys_flag >> 4 & 3].pack(
            0, queue.magic, 0, batch.queue_id, 0, 0, 0, sys_flag, batch.born_wall_ms,
            batch.born_host, self.last_wall, self._store_host, batch.reconsume_times, 0, 0,
        )
        # fmt: on

    def _undo(self, touched: list[ConsumeQueue], staged: int) -> None:
        for queue in touched:
            queue.undo()
        del self.staged[staged:]

    def _write_out(self, queue: ConsumeQueue) -> None:
        """Write a queue's units; on an error they stay in memory, because they are derived data."""
        try:
            queue.write_out()
        except (DiskFull, DiskFailed) as error:
            self._on_failure(error)

    def _wide(self, draft: Draft, size: int) -> tuple[int, int, Callable[..., bytes]]:
        """Return size, flags and packing function of a record with an IPv6 host."""
        sys_flag = draft.sys_flag & ~HOSTS_V6_MASK
        if self._store_v6:
            size += _V6_BYTES
            sys_flag |= STORE_V6
        if len(draft.born_host) == 20:
            size += _V6_BYTES
            sys_flag |= BORN_V6
        return size, sys_flag, HEADS[sys_flag >> 4 & 3].pack

    def _make_queue(self, draft: Draft) -> bool:
        """Create the draft's queue; return False if its name or number cannot be stored."""
        if self._is_name(draft.topic) and 0 <= draft.queue_id < 1 << 31:
            self._queues.get(draft.topic, draft.queue_id)
            return True
        return False

    def _is_name(self, topic: str) -> bool:
        return _TOPIC.fullmatch(topic) is not None and len(topic) <= self._topic_max

    def _check(self, draft: Draft, size: int) -> PutStatus | None:
        """Return why `draft` can never be stored; None if it can."""
        if len(draft.properties) > PROPERTIES_BYTES_MAX:
            return PutStatus.PROPERTIES_SIZE_EXCEEDED
        if len(draft.body) > self._body_max or b"\0" in draft.properties:
            return PutStatus.MESSAGE_ILLEGAL
        if size > self._body_max + RECORD_EXTRA_BYTES_MAX:
            return PutStatus.MESSAGE_ILLEGAL
        if size + TAIL_BYTES > self._log.file_bytes:
            return PutStatus.MESSAGE_ILLEGAL
        return None

    def fits_one_file(self, drafts: Sequence[Draft]) -> PutStatus | None:
        """Return why a batch cannot be stored as a whole, or None; open the next file if needed."""
        total = 0
        topic, queue_id, base = "", -1, 0
        plain_max = self._plain_max
        for draft in drafts:
            if draft.queue_id != queue_id or draft.topic != topic:
                topic, queue_id = draft.topic, draft.queue_id
                if not self._make_queue(draft):
                    return PutStatus.MESSAGE_ILLEGAL
                base = self._queues.get(topic, queue_id).base_bytes
                base += _V6_BYTES * self._store_v6
            size = base + len(draft.body) + len(draft.properties)
            if len(draft.born_host) != 8:
                size += _V6_BYTES
            if size > plain_max or b"\0" in draft.properties:
                if (status := self._check(draft, size)) is not None:
                    return status
            total += size
        if total + TAIL_BYTES > self._log.file_bytes:
            return PutStatus.MESSAGE_ILLEGAL
        if self._log.end + total + TAIL_BYTES > self._log.active_end:
            try:
                self._roll()
            except (DiskFull, DiskFailed) as error:
                self._on_failure(error)
                return PutStatus.CREATE_MAPPED_FILE_FAILED
        return None
