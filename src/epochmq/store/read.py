"""Reads messages by queue offset, time and log position, never beyond `readable` (INV-23)."""

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from itertools import islice

import msgspec

from epochmq.model.record import HEAD_BYTES_MAX, MAGIC_V1, MAGIC_V2, check, store_time_at
from epochmq.native import library
from epochmq.store.adjacent_records import AdjacentRecords
from epochmq.store.batch_queue import BatchQueue, BatchRun
from epochmq.store.batch_read import read_batches
from epochmq.store.consume_queue import ConsumeQueue
from epochmq.store.damaged_ranges import DamagedRange
from epochmq.store.draft import BATCH_UNIT, FRONT, PRE_BLANK_SIZE, UNIT
from epochmq.store.log_memory import Lacks, LogMemory, NotInMemory, Prefetch
from epochmq.store.pointers import Pointers
from epochmq.store.pull_answers import PullAnswers
from epochmq.store.read_check import ReadCheck
from epochmq.store.store_files import StoreFiles

SCAN_UNITS_MIN = 800
"""A filtered read examines at least this many units before it answers "none matched"."""

DAMAGED_LOOKED_AT = 256
"""Maximum number of successive damaged messages that `behind_damage` skips."""

_EMPTY = memoryview(b"")
_FAR = 1 << 62


class GetStatus(Enum):
    """Result of a read, with RocketMQ's names (`DAMAGED` is ours)."""

    FOUND = 0
    NO_MATCHED_MESSAGE = 1
    MESSAGE_WAS_REMOVING = 2
    OFFSET_FOUND_NULL = 3
    OFFSET_OVERFLOW_BADLY = 4
    OFFSET_OVERFLOW_ONE = 5
    OFFSET_TOO_SMALL = 6
    NO_MATCHED_LOGIC_QUEUE = 7
    NO_MESSAGE_IN_QUEUE = 8
    DAMAGED = 9
    """Ours: the next message is damaged; the reader keeps its offset until it is repaired."""
    COLD = 10
    """Ours: a read that must not wait for the device would have to; see `ReadResult.prefetch`."""

    __hash__ = object.__hash__
    """Each status is one object. `Enum.__hash__` is a Python call, and every pull looks it up."""


class ReadResult(msgspec.Struct, frozen=True, gc=False):
    """The records found, as views of the log; adjacent records share one view."""

    status: GetStatus
    chunks: list[memoryview]
    count: int
    next_offset: int
    """Queue offset where the reader continues."""
    min_offset: int
    max_offset: int
    size: int
    """Bytes in all chunks."""
    reason: str = ""
    """What is damaged (`DAMAGED` only)."""
    prefetch: Prefetch | None = None
    """Brings the messages into memory, in another thread (`COLD` only)."""


Accept = Callable[[int], bool]
Verify = Callable[[memoryview], bool | None]
"""Judges a record; None ends the read before this record, because filtering cost enough. If called
again for the same record, the function decides.
"""


class Reader:
    """The read side of the store; it changes no messages."""

    def __init__(self, files: StoreFiles, pointers: Pointers, check: ReadCheck) -> None:
        self.memory = LogMemory(files, pointers, check)
        self._files = files
        self._log = files.log
        self._check = check
        self._neighbours = AdjacentRecords(files.log)
        self._queues = files.queues
        self._pointers = pointers
        self.found = 0
        self.missed = 0
        self.messages = 0

    def pull_answers(self, header_parts: Sequence[bytes]) -> PullAnswers | None:
        """Return what makes whole answers to pulls; None without native code."""
        native = library.library()
        if native is None:
            return None
        return PullAnswers(
            native,
            self._files,
            self._pointers,
            self._check,
            self.memory,
            header_parts,
            self._count_found,
        )

    def _count_found(self, messages: int) -> None:
        self.found += 1
        self.messages += messages

    @property
    def span(self) -> tuple[int, int]:
        """The log offsets between which records can be read: the log's start, the readable end."""
        return self._pointers.start, self._pointers.readable

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return (min, max) of the queue offsets a reader may request; (0, 0) for an unknown
        queue.
        """
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return 0, 0
        return self._bounds(queue)

    def _bounds(self, queue: ConsumeQueue) -> tuple[int, int]:
        if queue.floor != self._pointers.start:
            if isinstance(queue, BatchQueue):
                self._need_records(queue.run, queue.run.min, 1)
            self._check.set_floor(queue, self._pointers.start)
        low, high = queue.min, queue.visible
        return (low if low < high else high), high

    def read_queue(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        accept: Accept | None = None,
        verify: Verify | None = None,
        *,
        stop: int = _FAR,
        from_memory: bool = False,
        may_copy: bool = True,
    ) -> ReadResult:
        """Read up to `max_count` records and about `max_bytes` bytes (at least one) from `offset`.

        `accept` filters by a unit's tags code, `verify` by the record. No unit at or beyond queue
        offset `stop` is read, except the one at `offset`.

        With `from_memory` the read does not wait for the device: its status is COLD if records are
        not in memory (see `LogMemory`). Within `LogMemory.only` it raises `NotInMemory` instead.
        Without `may_copy` all chunks are views of the log.
        """
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return self._miss(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        low, high = self._bounds(queue)
        if low <= offset < high:
            span = (offset, high if stop >= high else max(stop, offset + 1))
            if (from_memory or self.memory.is_only) and (
                offset < queue.trusted
                or self._pointers.readable - self._pointers.start > self.memory.window_bytes
                or isinstance(queue, BatchQueue)
            ):
                missing = self._missing(queue, span, max_count, max_bytes, accept, verify)
                if missing is not None:
                    if not from_memory:
                        raise NotInMemory(missing)
                    self.missed += 1
                    return ReadResult(GetStatus.COLD, [], 0, offset, low, high, 0, "", missing)
            if isinstance(queue, BatchQueue):
                return self._batches(queue, span, max_count, max_bytes, accept, verify)
            if accept is None and verify is None:
                return self._plain(queue, span, (low, high), max_count, max_bytes, may_copy)
            return self._filtered(queue, span, max_count, max_bytes, accept, verify)
        if high < offset <= queue.next:
            # Another master has shown the messages before `offset` already, and this one has not
            # confirmed them yet (after an election). The offset is right: the reader waits.
            return self._miss(GetStatus.OFFSET_OVERFLOW_ONE, offset, low, high)
        if high == 0:
            return self._miss(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        if offset < low:
            return self._miss(GetStatus.OFFSET_TOO_SMALL, low, low, high)
        if offset == high:
            return self._miss(GetStatus.OFFSET_OVERFLOW_ONE, high, low, high)
        return self._miss(GetStatus.OFFSET_OVERFLOW_BADLY, high, low, high)

    def _plain_queue(
        self, topic: str, queue_id: int, offset: int
    ) -> tuple[ConsumeQueue, int] | None:
        """Return a plain queue and its readable end, if it has message `offset`."""
        queue = self._queues.find(topic, queue_id)
        if queue is None or isinstance(queue, BatchQueue):
            return None
        low, high = self._bounds(queue)
        return (queue, high) if low <= offset < high else None

    def units(
        self, topic: str, queue_id: int, offset: int, count: int
    ) -> list[tuple[int, int, int]]:
        """Return up to `count` units of a plain queue from `offset` on, up to the first hole."""
        if (located := self._plain_queue(topic, queue_id, offset)) is None:
            return []
        queue, high = located
        units, _ = self._units(queue, offset, min(count, high - offset), _FAR)
        found = list(UNIT.iter_unpack(units))
        holes = [at for at, unit in enumerate(found) if unit[1] == PRE_BLANK_SIZE]
        return found[: holes[0]] if holes else found

    # What is not in memory -------------------------------------------------------------------

    def missing_messages(
        self, topic: str, queue_id: int, offset: int, max_count: int, max_bytes: int
    ) -> Prefetch | None:
        """Return a call that brings the next messages of a queue into memory; None if they are.

        The arguments are those of `read_queue`.
        """
        if (located := self._plain_queue(topic, queue_id, offset)) is None:
            return None
        queue, high = located
        return self._missing(queue, (offset, high), max_count, max_bytes, None, None)

    def _missing(
        self,
        queue: ConsumeQueue,
        span: tuple[int, int],
        max_count: int,
        max_bytes: int,
        accept: Accept | None,
        verify: Verify | None,
    ) -> Prefetch | None:
        """Return a call that brings into memory what a read touches; None if it is there.

        A filter of tags is compared with the units, but the records of an earlier run are checked
        before that, also those that the reader does not want.
        """
        first, stop = span
        run, shape = queue, UNIT
        if isinstance(queue, BatchQueue):
            run, shape = queue.run, BATCH_UNIT
            first = queue.position(first)
            stop = run.next
            if first < run.trusted:  # a unit is compared with the units beside it
                first = max(first - 1, run.min)
                max_count += 2
        is_filtered = accept is not None or verify is not None
        count = max(SCAN_UNITS_MIN, max_count) if is_filtered else max_count
        units = run.units(first, min(count, stop - first), is_reader=True)
        if len(units) < shape.size:
            return None
        begin, end = shape.unpack_from(units)[0], shape.unpack_from(units, len(units) - shape.size)
        memory = self.memory
        if not memory.may_lack(begin) or memory.is_here(begin, end[0] + end[1] - begin):
            return None
        found = shape.iter_unpack(units)
        if accept is not None and first >= run.trusted:
            found = islice((unit for unit in found if accept(unit[2])), max_count)
        places = ((unit[0], unit[1]) for unit in found)
        return memory.missing_records(places, _FAR if is_filtered else max_bytes)

    def tags_codes(self, topic: str, queue_id: int, offset: int, count: int) -> list[int]:
        """Return the tags codes of up to `count` units of a plain queue, without a look at the log.

        They are for estimates: neither the units nor their records are checked.
        """
        if (located := self._plain_queue(topic, queue_id, offset)) is None:
            return []
        queue, high = located
        units = queue.units(offset, min(count, high - offset))
        return [tags for _, _, tags in UNIT.iter_unpack(units)]

    def _units(
        self, queue: ConsumeQueue, first: int, count: int, room: int
    ) -> tuple[bytes, DamagedRange | None]:
        """Return the usable units, and the damage that makes the next unit unusable."""
        units = queue.units(first, count, is_reader=True)
        if first < queue.trusted or self._check.damage.ranges:
            return self._check.units(queue, first, units, room)
        return units, None

    def _damaged(self, queue: ConsumeQueue, offset: int, damage: DamagedRange) -> ReadResult:
        self.missed += 1
        low, high = self._bounds(queue)
        return ReadResult(GetStatus.DAMAGED, [], 0, offset, low, high, 0, str(damage))

    def _changed(self, queue: ConsumeQueue, offset: int) -> ReadResult:
        """Report a record that changed since its check; the next read checks the record again."""
        self._check.found_changed(queue, offset)
        reason = f"the record of message {offset} of {queue.folder} has changed on the disk"
        self.missed += 1
        low, high = self._bounds(queue)
        return ReadResult(GetStatus.DAMAGED, [], 0, offset, low, high, 0, reason)

    def _miss(self, status: GetStatus, next_offset: int, low: int, high: int) -> ReadResult:
        self.missed += 1
        return ReadResult(status, [], 0, next_offset, low, high, 0)

    def _plain(
        self,
        queue: ConsumeQueue,
        span: tuple[int, int],
        bounds: tuple[int, int],
        max_count: int,
        max_bytes: int,
        may_copy: bool,
    ) -> ReadResult:
        """Read without a filter: adjacent records in the log are returned as one view."""
        offset, stop = span
        units, damage = self._units(queue, offset, min(max_count, stop - offset), max_bytes)
        if damage is not None and not units:
            return self._damaged(queue, offset, damage)
        chunks, records, passed, size, changed = self._neighbours.find(
            queue, offset, units, max_bytes, may_copy=may_copy
        )
        if changed and not passed:
            return self._changed(queue, offset)
        if not chunks:
            return self._result(queue, chunks, records, offset + passed, size)
        self.found += 1
        self.messages += records
        return ReadResult(GetStatus.FOUND, chunks, records, offset + passed, *bounds, size)

    def _result(
        self,
        queue: ConsumeQueue,
        chunks: list[memoryview],
        count: int,
        after: int,
        total: int,
    ) -> ReadResult:
        low, high = self._bounds(queue)
        if not chunks:
            return self._miss(GetStatus.OFFSET_FOUND_NULL, max(after, low), low, high)
        self.found += 1
        self.messages += count
        return ReadResult(GetStatus.FOUND, chunks, count, after, low, high, total)

    def _filtered(
        self,
        queue: ConsumeQueue,
        span: tuple[int, int],
        max_count: int,
        max_bytes: int,
        accept: Accept | None,
        verify: Verify | None,
    ) -> ReadResult:
        low, high = self._bounds(queue)
        chunks: list[memoryview] = []
        total = 0
        at, end = span
        offset = at
        scan = min(max(SCAN_UNITS_MIN, max_count), end - offset)
        units, damage = self._units(queue, offset, scan, _FAR)
        if damage is not None and not units:
            return self._damaged(queue, offset, damage)
        for start, size, tags in UNIT.iter_unpack(units):
            at += 1
            if accept is not None and not accept(tags):
                continue
            record = self._log.slice(start, size)
            if record is None:
                continue
            if not self._neighbours.begins(record, (start, size, at - 1, queue.queue_id)):
                at -= 1
                if at == offset:
                    return self._changed(queue, at)
                break
            if verify is not None:
                verdict = verify(record)
                if verdict is None:
                    if at - 1 > span[0]:
                        at -= 1
                        break
                    verdict = verify(record)  # a read examines at least one record
                if not verdict:
                    continue
            if total + size > max_bytes and chunks:
                at -= 1
                break
            chunks.append(record)
            total += size
            if len(chunks) >= max_count:
                break
        if not chunks:
            return self._miss(GetStatus.NO_MATCHED_MESSAGE, max(at, offset + 1), low, high)
        return self._result(queue, chunks, len(chunks), at, total)

    def _batches(
        self,
        queue: BatchQueue,
        span: tuple[int, int],
        max_count: int,
        max_bytes: int,
        accept: Accept | None,
        verify: Verify | None,
    ) -> ReadResult:
        """As `_plain` and `_filtered`, for a queue whose records may hold many messages."""
        filtered = accept is not None or verify is not None
        scan = max(SCAN_UNITS_MIN, max_count) if filtered else max_count
        first = self._position(queue, span[0])
        units = queue.run.units(first, scan)
        damage = None
        if first < queue.run.trusted or self._check.damage.ranges:
            units, damage = self._check.units(queue, first, units, _FAR if filtered else max_bytes)
            if damage is not None and not units:
                return self._damaged(queue, span[0], damage)
        found = read_batches(
            units, span, (max_count, max_bytes), partial(self._batch, queue), accept, verify
        )
        if found.changed and found.next_offset == span[0]:
            return self._changed(queue, span[0])
        if filtered and not found.chunks:
            low, high = self._bounds(queue)
            after = max(found.next_offset, span[0] + 1)
            return self._miss(GetStatus.NO_MATCHED_MESSAGE, after, low, high)
        return self._result(queue, found.chunks, found.messages, found.next_offset, found.size)

    def _batch(self, queue: BatchQueue, start: int, size: int, base: int) -> memoryview | None:
        """Return the record that holds the messages from `base` on; None if it has changed."""
        record = self._log.slice(start, size)
        if record is None or not self._neighbours.begins(
            record, (start, size, base, queue.queue_id)
        ):
            return None
        return record

    def message_at(self, offset: int, size: int | None = None) -> memoryview | None:
        """Return the record at log offset `offset`; None if there is none or it is not readable.

        `offset` may come from any client, and a message body may look like the head of a record.
        """
        pointers = self._pointers
        if offset < pointers.start or offset + FRONT.size > pointers.readable:
            return None
        self.memory.need(offset, FRONT.size)
        if self._check.fault_in(offset, FRONT.size) is not None:
            return None
        front = self._log.slice(offset, FRONT.size)
        if front is None:
            return None
        found, magic, _crc, _queue, _flag, _queue_offset, own, _sys = FRONT.unpack(front)
        if magic not in (MAGIC_V1, MAGIC_V2) or own != offset:
            return None
        if (size is not None and size != found) or offset + found > pointers.readable:
            return None
        self.memory.need(offset, found)
        if self._check.fault_in(offset, found) is not None:
            return None
        record = self._log.slice(offset, found)
        if record is None or check(record, 0, found, crc=True) <= 0:
            return None
        return record

    def _position(self, queue: BatchQueue, queue_offset: int) -> int:
        """Return `BatchQueue.position` after checking the units on both sides of the result."""
        run, damage = queue.run, self._check.damage
        while True:
            found = queue.position(queue_offset)
            first, before = max(run.min, found - 1), damage.units_rebuilt
            if first >= run.trusted:
                return found
            self._need_records(run, first, 2)
            self._check.units(queue, first, run.units(first, 2), _FAR)
            if damage.units_rebuilt == before:
                return found

    def _unit(
        self, queue: ConsumeQueue, queue_offset: int, lacks: Lacks | None = None
    ) -> tuple[int, int, int] | None:
        """Return the unit of one message; None if the unit or its record is damaged or missing.

        Within `LogMemory.only`, `lacks` is asked about the record if the unit is checked by it.
        """
        memory = self.memory
        if isinstance(queue, BatchQueue):
            first = self._position(queue, queue_offset)
            self._need_records(queue.run, first, 1)
            units, _ = self._check.units(queue, first, queue.run.units(first, 1), 1)
            return queue.shape.unpack(units) if units else None
        units = queue.units(queue_offset, 1, is_reader=True)
        is_checked = queue_offset >= queue.trusted
        if memory.is_only and units and not is_checked:
            start, size, _ = UNIT.unpack(units)
            if 0 < size != PRE_BLANK_SIZE and (lacks or memory.need)(start, size):
                return None
        if not is_checked or self._check.damage.ranges:
            units, _ = self._check.units(queue, queue_offset, units, 1)
        return UNIT.unpack(units) if units else None

    def _need_records(self, run: ConsumeQueue, first: int, count: int) -> None:
        """Within `LogMemory.only`, raise `NotInMemory` if units are checked by missing records."""
        if self.memory.is_only and first < run.trusted:
            if isinstance(run, BatchRun):  # a unit is compared with the units beside it
                first, count = max(first - 1, run.min), count + 2
            for start, size, _ in run.shape.iter_unpack(run.units(first, count)):
                if size > 0:
                    self.memory.need(start, size)

    def store_time_of(
        self, queue: ConsumeQueue, queue_offset: int, lacks: Lacks | None = None
    ) -> int:
        """Return the store time (ms) of a queue's message; -1 if it is missing.

        Within `LogMemory.only`, the result is also -1 if `lacks` returns True for the record.
        """
        unit = self._unit(queue, queue_offset, lacks)
        if unit is None or unit[1] == PRE_BLANK_SIZE:
            return -1
        if self.memory.is_only and (lacks or self.memory.need)(
            unit[0], min(unit[1], HEAD_BYTES_MAX)
        ):
            return -1
        record = self._log.slice(unit[0], unit[1])
        return -1 if record is None else store_time_at(record, 0)

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Return the store time (ms) of message `queue_offset`; -1 if readers may not see it.

        Within `LogMemory.only` the result is also -1 if the record is not in memory.
        """
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return -1
        low, high = self._bounds(queue)
        if not low <= queue_offset < high:
            return -1
        return self.store_time_of(queue, queue_offset, self.memory.lacks)

    def offset_by_time(self, topic: str, queue_id: int, wall_ms: int, upper: bool = False) -> int:
        """Return the first message stored at or after `wall_ms`, else the queue's end.

        With `upper`, return the last message stored at or before it, else the first message.
        Returns 0 for an unknown queue.
        """
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return 0
        first, high = self._bounds(queue)
        low = first
        target = wall_ms + 1 if upper else wall_ms
        while low < high:
            middle = _middle(low, high)
            if self.store_time_of(queue, middle) < target:
                low = middle + 1
            else:
                high = middle
        return max(low - 1, first) if upper else low

    def offset_at_place(self, topic: str, queue_id: int, log_offset: int) -> int:
        """Return the first message at or behind `log_offset`, else the end; 0 for an unknown
        queue.
        """
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return 0
        low, high = self._bounds(queue)
        while low < high:
            middle = _middle(low, high)
            unit = self._unit(queue, middle)
            if unit is not None and unit[0] < log_offset:
                low = middle + 1
            else:
                high = middle
        return low

    def behind_damage(self, topic: str, queue_id: int, offset: int) -> int:
        """Return the next message after `offset` that is not damaged.

        If there are many damaged messages, the returned one may be damaged as well.
        """
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return offset
        stop = min(offset + DAMAGED_LOOKED_AT, self._bounds(queue)[1])
        following = range(offset + 1, stop)
        return next((at for at in following if self._unit(queue, at) is not None), stop)

    def earliest_time(self) -> int:
        """Return the store time (ms) of the oldest record kept; -1 for an empty log."""
        pointers = self._pointers
        record = self.message_at(pointers.start)
        return -1 if record is None else store_time_at(record, 0)


def _middle(low: int, high: int) -> int:
    """Return the number in `[low, high)` that has the most zeros at its end, in binary.

    A binary search that begins again after messages were added, because it had to wait for the
    device, examines the same messages again, which are in memory now.
    """
    zeros = (low ^ (high - 1)).bit_length() - 1
    return (high - 1) >> zeros << zeros if zeros >= 0 else low
