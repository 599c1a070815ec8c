"""Turns queue units into views of the log; records that are adjacent in the log share one view.

Each record must begin as it was written: magic number, size, log offset, queue id, queue offset.
Bytes that this process checked once may have changed on the device since, and may be read from it
again. The native code examines many units at a time. Without it no record is examined, because a
page that cannot be read would kill the process (`native/sigbus_guard.c`).
"""

from typing import NamedTuple

from epochmq.model.record import MAGIC_V1, MAGIC_V2
from epochmq.native import library
from epochmq.store.commit_log import CommitLog
from epochmq.store.consume_queue import ConsumeQueue
from epochmq.store.draft import FRONT, PRE_BLANK_SIZE, UNIT, UNIT_BYTES
from epochmq.store.units import NEIGHBOURS_MAX, NativeNeighbours

_MAGICS = (MAGIC_V1, MAGIC_V2)


class FoundRecords(NamedTuple):
    """The records found, in the order of their units."""

    chunks: list[memoryview]
    records: int
    passed: int
    """Number of units processed, including units without a record."""
    size: int
    changed: bool
    """Whether the record of the next unit differs from what was written."""


class AdjacentRecords:
    """Finds the records of queue units in one log."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        native = library.library()
        self._native = None if native is None else NativeNeighbours(native)

    def find(
        self,
        queue: ConsumeQueue,
        first: int,
        units: bytes,
        room: int,
        *,
        may_copy: bool = True,
    ) -> FoundRecords:
        """Return the records of `units` up to `room` bytes; `first` is the first unit's number.

        At least one record is returned, if it is sound. Without `may_copy` all chunks are views of
        the log, so that they need no memory of their own.
        """
        if self._native is None:
            return self._unseen(units, room)
        if len(units) == UNIT_BYTES:
            return self._one(queue, first, units)
        at, size, _tags = UNIT.unpack_from(units)
        segment = None if size == PRE_BLANK_SIZE else self._log.find(at)
        if segment is not None and len(units) <= NEIGHBOURS_MAX * UNIT_BYTES:
            native, view = self._native, segment.view
            found = native.find(
                view, segment.start, units, first, queue.queue_id, room, may_copy=may_copy
            )
            if found.passed * UNIT_BYTES == len(units):  # the usual case: all, in one file
                return FoundRecords(
                    native.chunks(view), found.records, found.passed, found.size, changed=False
                )
        return self._many(self._native, queue, first, units, room, may_copy)

    def _one(self, queue: ConsumeQueue, first: int, unit: bytes) -> FoundRecords:
        """Do the same as `_many`, faster, for a single unit."""
        at, size, _tags = UNIT.unpack(unit)
        segment = None if size == PRE_BLANK_SIZE else self._log.find(at)
        if segment is None:
            return FoundRecords([], 0, 1, 0, changed=False)
        low = at - segment.start
        record = segment.view[low : low + size]
        if not self.begins(record, (at, size, first, queue.queue_id)):
            return FoundRecords([], 0, 0, 0, changed=True)
        return FoundRecords([record], 1, 1, size, changed=False)

    def begins(self, record: memoryview, wanted: tuple[int, int, int, int]) -> bool:
        """Whether a record begins as written: (log offset, size, queue offset, queue id)."""
        if self._native is None:
            return True
        if len(record) < FRONT.size:
            return False
        size, magic, _crc, queue_id, _flag, number, own, _sys = FRONT.unpack_from(record)
        return (own, size, number, queue_id) == wanted and magic in _MAGICS

    def _many(
        self,
        native: NativeNeighbours,
        queue: ConsumeQueue,
        first: int,
        units: bytes,
        room: int,
        may_copy: bool,
    ) -> FoundRecords:
        chunks: list[memoryview] = []
        records = passed = total = 0
        count = len(units) // UNIT_BYTES
        while passed < count:
            at, size, _tags = UNIT.unpack_from(units, passed * UNIT_BYTES)
            if records and total + size > room:
                break
            segment = None if size == PRE_BLANK_SIZE else self._log.find(at)
            if segment is None:
                passed += 1
                continue
            rest = units[passed * UNIT_BYTES : (passed + NEIGHBOURS_MAX) * UNIT_BYTES]
            view = segment.view
            found = native.find(
                view,
                segment.start,
                rest,
                first + passed,
                queue.queue_id,
                room - total,
                may_copy=may_copy,
            )
            chunks += native.chunks(view)
            records += found.records
            passed += found.passed
            total += found.size
            if found.changed or not found.passed:
                return FoundRecords(chunks, records, passed, total, changed=True)
        return FoundRecords(chunks, records, passed, total, changed=False)

    def _unseen(self, units: bytes, room: int) -> FoundRecords:
        """Do the same as `_many`, without examining the records."""
        spans: list[tuple[int, int]] = []
        start = end = total = records = passed = 0
        for at, size, _tags in UNIT.iter_unpack(units):
            if size != PRE_BLANK_SIZE:
                if records and total + size > room:
                    break
                if at != end:
                    if records:
                        spans.append((start, end))
                    start = at
                end = at + size
                total += size
                records += 1
            passed += 1
        if records:
            spans.append((start, end))
        chunks = [chunk for low, high in spans if (chunk := self._log.slice(low, high - low))]
        return FoundRecords(chunks, records if chunks else 0, passed, total, changed=False)
