"""Checks one block of the log a second time: whether its bytes are what was written.

It compares the block's checksum, and each record that has bytes in the block: place, lengths, the
body's checksum. Everything is read by `File.read`, so that the check may run outside the event
loop.
"""

from collections.abc import Callable, Iterator

from epochmq.base import limits
from epochmq.base.errors import EnvironmentFault
from epochmq.model.log_blocks import digest
from epochmq.model.record import BLANK, MAGIC_BLANK, OFFSET_AT, offset_at
from epochmq.store.checksums import Block, BlockChecksums, BlockVerdict
from epochmq.store.commit_log import CommitLog
from epochmq.store.damaged_ranges import DamageTable
from epochmq.store.scan import ScanEnd, walk
from epochmq.store.segment import Segment
from epochmq.store.written_blocks import BLOCK_BYTES

RECORD_BYTES_MAX = limits.FRAME_BYTES_MAX
"""Upper limit of a record's size. The scan begins so far before a block that the record at the
block's start is known, even if bodies contain bytes that look like a record.
"""
MAGIC_FRONT = b"\xda\xa3\x20"
"""The common first bytes of the magic numbers of both record versions."""

Bad = tuple[int, int, str]
"""(start, end, reason) of bytes that are not a sound record."""


class Examination:
    """One check; created on the loop, run outside it, concluded on the loop."""

    def __init__(
        self,
        log: CommitLog,
        checksums: BlockChecksums,
        damage: DamageTable,
        segment: Segment,
        start: int,
        end: int,
    ) -> None:
        self._checksums = checksums
        self._damage = damage
        self._segment = segment
        self._log_end = min(log.committed, segment.end)
        self._block: Block = checksums.block_at(start)
        self._generation = checksums.generation
        self._bad: list[Bad] = []
        self._error = ""
        self._start, self._end = start, end
        self.digest = ""
        """That of the bytes `[start, end)`."""

    def run(self) -> None:
        """Read and check the block; nothing is changed."""
        segment, block = self._segment, self._block
        try:
            data = segment.file.read(block.start - segment.start, block.stop - block.start)
            if block.verify(data) is BlockVerdict.WRONG:
                reason = "the bytes do not agree with their checksum"
                self._bad.append((block.start, block.start + block.covered, reason))
            elif block.start + block.covered < self._end:
                records = FileRecords(self._read, segment.start, segment.end, self._log_end)
                self._bad += records.bad(self._start, self._end)
            low = self._start - block.start
            self.digest = digest([memoryview(data)[low : self._end - block.start]])
        except EnvironmentFault as error:
            self._error = str(error)

    def conclude(self) -> str:
        """Report damage; return why the block is not sound, '' if it is sound."""
        if self._error:
            return self._error
        if self._generation != self._checksums.generation:
            return "the log was cut meanwhile"
        for start, end, reason in self._bad:
            self._damage.report(start, end, reason)
        return self._bad[0][2] if self._bad else ""

    def _read(self, offset: int, size: int) -> bytes:
        return self._segment.file.read(offset - self._segment.start, size)


class FileRecords:
    """The records of one log file `[start, end)`, written up to `log_end`."""

    def __init__(
        self, read: Callable[[int, int], bytes], start: int, end: int, log_end: int
    ) -> None:
        self._read = read
        self._start = start
        self._end = end
        self._log_end = log_end

    def bad(self, low: int, high: int) -> list[Bad]:
        """Return the ranges in `[low, high)` that are not part of a sound record, as far as
        known.
        """
        found: list[Bad] = []
        first = max(self._start, low - RECORD_BYTES_MAX)
        at = first if first == self._start else self._next_sound(first, high)
        while at < high:
            size, reason = self._look(at)
            after = at + size
            if reason:
                if not size or self._look(after)[1]:
                    after = self._next_sound(at + 1, high)
                if after > low:
                    found.append((at, after, reason))
            at = after
        return found

    def _next_sound(self, low: int, default: int) -> int:
        """Return where the first sound record from `low` on begins."""
        places = self._places(low, min(self._log_end, low + 2 * RECORD_BYTES_MAX))
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
