"""Checks one block of the log a second time: whether its bytes are what was written.

It compares the block's checksum, and each record that has bytes in the block: place, lengths, the
body's checksum. Everything is read by `File.read`, so that the check may run outside the event
loop.
"""

from epochmq.base.errors import EnvironmentFault
from epochmq.model.log_blocks import digest
from epochmq.store.checksums import Block, BlockChecksums, BlockVerdict
from epochmq.store.commit_log import CommitLog
from epochmq.store.damaged_ranges import DamagedRange, DamageTable
from epochmq.store.file_records import FileRecords
from epochmq.store.segment import Segment


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
        self._bad: list[DamagedRange] = []
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
                self._bad.append(DamagedRange(block.start, block.start + block.covered, reason))
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
