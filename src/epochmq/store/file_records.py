"""Finds the bytes of a log file that are not part of a sound record.

A record is sound if its place, its lengths and the checksum of its body agree. Where a record
begins is known only from the records before it: a body may contain bytes that look like a record.
"""

from collections.abc import Callable, Iterator

from epochmq.base import limits
from epochmq.model.record import BLANK, MAGIC_BLANK, OFFSET_AT, offset_at
from epochmq.store.damaged_ranges import DamagedRange
from epochmq.store.scan import ScanEnd, walk
from epochmq.store.written_blocks import BLOCK_BYTES

RECORD_BYTES_MAX = limits.FRAME_BYTES_MAX
"""Upper limit of a record's size. The scan begins so far before a block that the record at the
block's start is known, even if bodies contain bytes that look like a record.
"""
MAGIC_FRONT = b"\xda\xa3\x20"
"""The common first bytes of the magic numbers of both record versions."""

WINDOW_BYTES = 1 << 20
"""Bytes that are read at once to check many records."""


class FileRecords:
    """The records of one log file `[start, end)`, written up to `log_end`."""

    def __init__(
        self, read: Callable[[int, int], bytes], start: int, end: int, log_end: int
    ) -> None:
        self._read = read
        self._start = start
        self._end = end
        self._log_end = log_end

    def bad(self, low: int, high: int, lead: int = RECORD_BYTES_MAX) -> list[DamagedRange]:
        """Return the ranges in `[low, high)` that are not part of a sound record, as far as
        known.

        The search for a record's begin starts `lead` bytes before `low`. With fewer bytes than a
        record may have, it costs less, but bytes of a body may be mistaken for a damaged record.
        """
        found: list[DamagedRange] = []
        first = max(self._start, low - lead)
        at = first if first == self._start else self._next_sound(first, high, high)
        while (at := self._behind_sound(at, high)) < high:
            size, reason = self._look(at)
            after = at + size
            if reason:
                if not size or self._look(after)[1]:
                    after = self._next_sound(at + 1, at + 1 + 2 * RECORD_BYTES_MAX, high)
                if after > low:
                    found.append(DamagedRange(at, after, reason))
            at = after
        return found

    def _behind_sound(self, at: int, high: int) -> int:
        """Return where the sound records from `at` on end that lie wholly before `high`."""
        end = ScanEnd()
        while (size := min(WINDOW_BYTES, high - at, self._log_end - at)) > 0:
            for _ in walk(memoryview(self._read(at, size)), at, 0, end):
                pass
            if end.offset == at:
                break
            at = end.offset
        return at

    def _next_sound(self, low: int, high: int, default: int) -> int:
        """Return where the first sound record begins that begins in `[low, high)`."""
        places = self._places(low, min(self._log_end, high))
        return next((at for at in places if not self._look(at)[1]), default)

    def _places(self, low: int, high: int) -> Iterator[int]:
        """Yield the offsets in `[low, high)` where something looks like a record of that offset."""
        for start in range(low, high, BLOCK_BYTES):
            stop = min(start + BLOCK_BYTES, high)
            data = self._read(start, stop - start + OFFSET_AT + 8)
            at = data.find(MAGIC_FRONT, 4)
            while 0 <= at < stop - start + 4:
                place = at - 4
                if place + OFFSET_AT + 8 <= len(data) and offset_at(data, place) == start + place:
                    yield start + place
                at = data.find(MAGIC_FRONT, at + 1)

    def _look(self, at: int) -> tuple[int, str]:
        """Return (size, '') of a sound record at `at`; else its size, 0 if unknown, and the reason.

        A record that continues behind the log's end cannot be judged yet, and counts as sound.
        """
        room = self._end - at
        if at >= self._log_end or room < BLANK.size:
            return room, ""
        size, magic = BLANK.unpack(self._read(at, BLANK.size))
        if magic == MAGIC_BLANK and size == room:
            return room, ""
        if self._log_end < at + size <= self._end:
            return room, ""
        if not BLANK.size < size <= min(room, RECORD_BYTES_MAX):
            return 0, "a record's length is wrong"
        end = ScanEnd()
        if next(walk(memoryview(self._read(at, size)), at, 0, end), None) is None:
            return size, end.reason
        return size, ""
