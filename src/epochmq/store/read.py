"""Reading by queue offset, by time and by log position; never beyond `readable` (INV-23)."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from epochmq.model.record import MAGIC_V1, MAGIC_V2, check, store_time_at
from epochmq.store.batch_queue import BatchQueue
from epochmq.store.batch_read import read_batches
from epochmq.store.commit_log import CommitLog
from epochmq.store.consume_queue import ConsumeQueue
from epochmq.store.layout import FRONT, PRE_BLANK_SIZE, UNIT
from epochmq.store.pointers import Pointers
from epochmq.store.queue_table import QueueTable

SCAN_UNITS_MIN = 800
"""A filtered read looks at this many units at least before it answers "none matched"."""

_EMPTY = memoryview(b"")
_FAR = 1 << 62


class GetStatus(Enum):
    """Outcome of a read (facts/store.md 2.2; names are upstream's)."""

    FOUND = 0
    NO_MATCHED_MESSAGE = 1
    MESSAGE_WAS_REMOVING = 2
    OFFSET_FOUND_NULL = 3
    OFFSET_OVERFLOW_BADLY = 4
    OFFSET_OVERFLOW_ONE = 5
    OFFSET_TOO_SMALL = 6
    NO_MATCHED_LOGIC_QUEUE = 7
    NO_MESSAGE_IN_QUEUE = 8


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Records found, as views of the log; neighbours in the log share one view."""

    status: GetStatus
    chunks: list[memoryview]
    count: int
    next_offset: int
    """Where the reader goes on."""
    min_offset: int
    max_offset: int
    size: int
    """Bytes in all chunks."""


Accept = Callable[[int], bool]
Verify = Callable[[memoryview], bool]


class Reader:
    """Read side of the store; changes nothing."""

    def __init__(self, log: CommitLog, queues: QueueTable, pointers: Pointers) -> None:
        self._log = log
        self._queues = queues
        self._pointers = pointers
        self.found = 0
        self.missed = 0
        self.messages = 0

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """(min, max) of what a reader may ask for; (0, 0) for an unknown queue."""
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return 0, 0
        return self._bounds(queue)

    def _bounds(self, queue: ConsumeQueue) -> tuple[int, int]:
        if queue.floor != self._pointers.start:
            queue.set_floor(self._pointers.start)
        return min(queue.min, queue.visible), queue.visible

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
    ) -> ReadResult:
        """Up to `max_count` records and about `max_bytes` (at least one record) from `offset`.

        `accept` judges a unit's tags code, `verify` the record itself. Nothing that begins at
        queue offset `stop` or behind it is looked at.
        """
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return self._miss(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        low, high = self._bounds(queue)
        if low <= offset < high:
            span = (offset, min(high, max(stop, offset + 1)))
            if isinstance(queue, BatchQueue):
                return self._batches(queue, span, max_count, max_bytes, accept, verify)
            if accept is None and verify is None:
                return self._plain(queue, span, max_count, max_bytes)
            return self._filtered(queue, span, max_count, max_bytes, accept, verify)
        if high == 0:
            return self._miss(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        if offset < low:
            return self._miss(GetStatus.OFFSET_TOO_SMALL, low, low, high)
        if offset == high:
            return self._miss(GetStatus.OFFSET_OVERFLOW_ONE, high, low, high)
        return self._miss(GetStatus.OFFSET_OVERFLOW_BADLY, high, low, high)

    def units(
        self, topic: str, queue_id: int, offset: int, count: int
    ) -> list[tuple[int, int, int]]:
        """Units of an ordinary queue from `offset` on, up to the first hole."""
        queue = self._queues.find(topic, queue_id)
        if queue is None or isinstance(queue, BatchQueue):
            return []
        low, high = self._bounds(queue)
        if not low <= offset < high:
            return []
        found = list(UNIT.iter_unpack(queue.units(offset, min(count, high - offset))))
        holes = [at for at, unit in enumerate(found) if unit[1] == PRE_BLANK_SIZE]
        return found[: holes[0]] if holes else found

    def _miss(self, status: GetStatus, next_offset: int, low: int, high: int) -> ReadResult:
        self.missed += 1
        return ReadResult(status, [], 0, next_offset, low, high, 0)

    def _plain(
        self, queue: ConsumeQueue, span: tuple[int, int], max_count: int, max_bytes: int
    ) -> ReadResult:
        """No filter: neighbours in the log are handed out as one view."""
        spans: list[tuple[int, int]] = []
        start = end = total = count = holes = 0
        offset, high = span
        units = queue.units(offset, min(max_count, high - offset))
        for at, size, _tags in UNIT.iter_unpack(units):
            if size == PRE_BLANK_SIZE:
                holes += 1
                continue
            if total + size > max_bytes and count:
                break
            if at != end:
                if count:
                    spans.append((start, end))
                start = at
            end = at + size
            total += size
            count += 1
        if count:
            spans.append((start, end))
        chunks = self._chunks(spans)
        return self._result(queue, chunks, count, offset + count + holes, total)

    def _chunks(self, spans: list[tuple[int, int]]) -> list[memoryview]:
        """Views of the log; most spans lie in the file of the one before."""
        chunks: list[memoryview] = []
        low = high = 0
        view = _EMPTY
        for start, end in spans:
            if start < low or end > high:
                segment = self._log.find(start)
                if segment is None or end > segment.end:
                    continue
                low, high, view = segment.start, segment.end, segment.view
            chunks.append(view[start - low : end - low])
        return chunks

    def _result(
        self, queue: ConsumeQueue, chunks: list[memoryview], count: int, after: int, total: int
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
        for start, size, tags in UNIT.iter_unpack(queue.units(offset, scan)):
            at += 1
            if accept is not None and not accept(tags):
                continue
            record = self._log.slice(start, size)
            if record is None or (verify is not None and not verify(record)):
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
        found = read_batches(
            queue, span, (scan, max_count, max_bytes), self._log.slice, accept, verify
        )
        if filtered and not found.chunks:
            low, high = self._bounds(queue)
            after = max(found.next_offset, span[0] + 1)
            return self._miss(GetStatus.NO_MATCHED_MESSAGE, after, low, high)
        return self._result(queue, found.chunks, found.messages, found.next_offset, found.size)

    def message_at(self, offset: int, size: int | None = None) -> memoryview | None:
        """The record that starts at `offset`; None when none does or it may not be read.

        `offset` may be any stranger's, and a message's body may look like the head of a record.
        """
        pointers = self._pointers
        if offset < pointers.start or offset + FRONT.size > pointers.readable:
            return None
        front = self._log.slice(offset, FRONT.size)
        if front is None:
            return None
        found, magic, _crc, _queue, _flag, _queue_offset, own, _sys = FRONT.unpack(front)
        if magic not in (MAGIC_V1, MAGIC_V2) or own != offset:
            return None
        if (size is not None and size != found) or offset + found > pointers.readable:
            return None
        record = self._log.slice(offset, found)
        if record is None or check(record, 0, found, crc=True) <= 0:
            return None
        return record

    def store_time_of(self, queue: ConsumeQueue, queue_offset: int) -> int:
        """Store time of a queue's message; -1 when it is not there."""
        unit = queue.unit(queue_offset)
        if unit is None or unit[1] == PRE_BLANK_SIZE:
            return -1
        record = self._log.slice(unit[0], unit[1])
        return -1 if record is None else store_time_at(record, 0)

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Store time of message `queue_offset`; -1 when a reader may not see it."""
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return -1
        low, high = self._bounds(queue)
        return self.store_time_of(queue, queue_offset) if low <= queue_offset < high else -1

    def offset_by_time(self, topic: str, queue_id: int, wall_ms: int, upper: bool = False) -> int:
        """First message stored at or after `wall_ms`, else the end; with `upper` the last one
        stored at or before it, else the first. 0 for an unknown queue."""
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return 0
        first, high = self._bounds(queue)
        low = first
        target = wall_ms + 1 if upper else wall_ms
        while low < high:
            middle = (low + high) // 2
            if self.store_time_of(queue, middle) < target:
                low = middle + 1
            else:
                high = middle
        return max(low - 1, first) if upper else low

    def offset_at_place(self, topic: str, queue_id: int, log_offset: int) -> int:
        """First message that lies at `log_offset` or behind it, else the end; 0 for no queue."""
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return 0
        low, high = self._bounds(queue)
        while low < high:
            middle = (low + high) // 2
            unit = queue.unit(middle)
            if unit is not None and unit[0] < log_offset:
                low = middle + 1
            else:
                high = middle
        return low

    def earliest_time(self) -> int:
        """Store time of the oldest record kept; -1 for an empty log."""
        pointers = self._pointers
        record = self.message_at(pointers.start)
        return -1 if record is None else store_time_at(record, 0)
