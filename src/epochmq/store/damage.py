"""Distinguishes damage in the log from a torn tail, before anything is changed (INV-16, INV-20).

A crash may leave the log's last writes torn. So a bad record ends the log only if nothing shows
that the log was longer. It is damage

- after a clean stop, before the end that the stop recorded;
- after a crash, below the offset that the checkpoint's mark or the checksums call synced; if the
  machine has not rebooted, also before any valid record, since the death of a process tears no more
  than its last write;
- in a store of RocketMQ or of an older version, which has no mark: after a clean stop before
  records that queues know, or before any valid record if no queue knows any; after a crash before
  a valid record that the checkpoint's times call synced.

Blocks with correct checksums are not read again: only the others are read record by record. A
block with a wrong checksum is damaged even if all its records look right.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from epochmq.base.errors import StoreDamaged
from epochmq.model.crc import crc32
from epochmq.model.record import BLANK, MAGIC_BLANK
from epochmq.store.checkpoint import Checkpoint
from epochmq.store.checksums import Block, BlockChecksums, BlockVerdict
from epochmq.store.commit_log import CommitLog
from epochmq.store.file_records import MAGIC_FRONT
from epochmq.store.queue_table import QueueTable
from epochmq.store.scan import DispatchEntry, ScanEnd, walk, walk_log
from epochmq.store.segment import Segment
from epochmq.store.written_blocks import BLOCK_BYTES

_SEARCH_BYTES = 1 << 20
_POLYNOMIAL = 0xEDB88320
"""The polynomial of CRC-32, bits in reverse order."""
_RANGES_TOLD = 5
_QUEUES_TOLD = 5


@dataclass
class Damage:
    """A damaged range: bytes `[start, stop)` of the log differ from what was written."""

    path: str
    """Path of the log file."""
    file_start: int
    start: int
    stop: int
    reason: str
    bit: int | None = None
    """Number of the single flipped bit in the file, if the checksum shows it."""
    messages: list[tuple[str, int, int, int]] = field(default_factory=list)
    """(topic, queue id, first queue offset, end of the queue offsets) from the consume queues."""

    def __str__(self) -> str:
        at = self.start - self.file_start
        told = "".join(
            f", {topic}/{queue_id} offset {low}" + (f" to {high - 1}" if high - low > 1 else "")
            for topic, queue_id, low, high in self.messages[:_QUEUES_TOLD]
        )
        more = len(self.messages) - _QUEUES_TOLD
        last = self.stop - self.file_start - 1
        text = f"{self.path} bytes {at} to {last} (log offsets {self.start} to {self.stop - 1})"
        return f"{text}: {self.reason}{told}" + (f" and {more} more queues" if more > 0 else "")


class LogDamaged(StoreDamaged):
    """The log is damaged, and the store does not start; nothing was changed."""

    def __init__(self, damages: Sequence[Damage]) -> None:
        self.damages = list(damages)
        ranges = "; ".join(map(str, self.damages[:_RANGES_TOLD]))
        more = len(self.damages) - _RANGES_TOLD
        self.ranges = f"the log is damaged: {ranges}"
        if more > 0:
            self.ranges += f"; and {more} more ranges"
        super().__init__(
            f"{self.ranges}. Nothing was changed. Copy the bytes from a replica (epochmq store"
            " repair DIR --from HOST:PORT), or give these messages up and keep all others"
            " (epochmq store repair DIR --skip-damaged)"
        )


@dataclass(frozen=True)
class Expected:
    """What other files say about the log's end."""

    clean: bool
    """Whether the process was stopped cleanly."""
    exact: int | None = None
    """The log's end, after a clean stop of this program; else None."""
    synced: int = 0
    """Up to this offset, at least, the log was on the device, in complete records."""
    boundary: int = 0
    """A log offset where a record is known to begin."""
    same_boot: bool = False
    """Whether the machine has not rebooted since the last write, and no sync failed."""
    reach: int = 0
    """Log offset up to which the consume queues know records."""
    safe_wall: int = 0
    """Records stored up to this time (ms) are on the device."""
    has_mark: bool = False


def expected_of(
    checkpoint: Checkpoint, checksums: BlockChecksums, reach: int, *, clean: bool, boot: str
) -> Expected:
    """Collect what checkpoint, checksums and queues say about the log's end."""
    mark = checkpoint.mark
    synced = checksums.known_end
    safe_wall = checkpoint.safe_wall_ms()
    if mark is None:
        return Expected(clean, synced=synced, reach=reach, safe_wall=safe_wall)
    return Expected(
        clean,
        exact=mark.end if clean and mark.clean else None,
        synced=max(synced, mark.end if mark.end > mark.start else 0),
        boundary=mark.end,
        same_boot=bool(boot) and boot == mark.boot,
        reach=reach,
        safe_wall=safe_wall,
        has_mark=True,
    )


class DamageSearch:
    """Searches a log that nobody writes for damage; changes nothing."""

    def __init__(
        self,
        log: CommitLog,
        queues: QueueTable,
        checksums: BlockChecksums,
        expected: Expected,
        *,
        anywhere: bool,
    ) -> None:
        self._log = log
        self._queues = queues
        self._checksums = checksums
        self._expected = expected
        self._anywhere = anywhere
        self.end = 0
        """Where the log ends: valid records follow each other up to here."""

    def run(self, start: int) -> list[Damage]:
        """Return the damage, in log order, from the file of log offset `start` on."""
        first = self._log.find(start)
        if first is None:
            return self._missing_files()
        segments = self._log.segments[self._log.segments.index(first) :]
        wrong, sure = self._check_blocks(segments)
        known = [self._expected.boundary, self._expected.reach]
        at = max([first.start, *(one for one in known if first.start <= one <= sure)])
        damages = self._walk(first.start if wrong else at)
        if damages and at > first.start and not wrong:
            damages = self._walk(first.start)  # perhaps no record began there
        for block in wrong:
            inside = [
                damage
                for damage in damages
                if damage.start < block.start + block.covered and damage.stop > block.start
            ]
            found = self._in_block(block)
            if not inside:
                damages.append(found)
            elif len(inside) == 1 and found.bit is not None:
                self._tell_bit(inside[0], found.bit)
        damages.sort(key=lambda damage: damage.start)
        for damage in damages:
            damage.messages = self._messages(damage.start, damage.stop)
        return damages

    def _missing_files(self) -> list[Damage]:
        """Return the damage of a log that has no files."""
        expected = self._expected
        lost = expected.synced if expected.has_mark else 0
        self.end = self._log.end
        return [Damage("commitlog", 0, 0, lost, "all files are missing")] if lost else []

    # Blocks -----------------------------------------------------------------------------------

    def _check_blocks(self, segments: Sequence[Segment]) -> tuple[list[Block], int]:
        """Return blocks with wrong checksums, and the offset up to which checksums are correct."""
        wrong: list[Block] = []
        sure: int | None = None
        for segment in segments:
            for start in range(segment.start, segment.end, BLOCK_BYTES):
                block = self._checksums.block_at(start)
                verdict = BlockVerdict.UNKNOWN
                if block.covered:
                    verdict = block.verify(_read(segment, start, block.covered))
                if verdict is BlockVerdict.WRONG:
                    wrong.append(block)
                elif sure is None and (
                    verdict is BlockVerdict.UNKNOWN or block.start + block.covered < block.stop
                ):
                    sure = block.start + block.covered
        return wrong, segments[-1].end if sure is None else sure

    def _in_block(self, block: Block) -> Damage:
        """Locate the damage in a block whose records all look right: in a head or in properties."""
        segment = self._log.find(block.start)
        assert segment is not None
        data = _read(segment, block.start, block.covered)
        bit = flipped_bit(data, block.crc)
        low, high = block.start, block.start + block.covered
        if bit is not None:
            low = block.start + bit // 8
            high = low + 1
            bit += (block.start - segment.start) * 8
        spans = self._spans(segment, low, high)
        start, stop = (spans[0][0], spans[-1][1]) if spans else (low, high)
        text = "a checksum of 64 KiB is wrong" if bit is None else f"bit {bit} of it was flipped"
        return Damage(segment.path, segment.start, start, stop, text, bit)

    def _tell_bit(self, damage: Damage, bit: int) -> None:
        """Note the flipped bit, if it explains the block's checksum and is in the bad record."""
        if damage.start <= damage.file_start + bit // 8 < damage.stop:
            damage.bit = bit

    def _spans(self, segment: Segment, low: int, high: int) -> list[tuple[int, int]]:
        """Return (start, end) of the records of one file that have bytes in `[low, high)`."""
        return [
            (entry.offset, entry.offset + entry.size)
            for entry in walk(segment.view, segment.start, 0, ScanEnd(), crc=False)
            if entry.offset < high and entry.offset + entry.size > low
        ]

    # Records ----------------------------------------------------------------------------------

    def _walk(self, at: int) -> list[Damage]:
        """Return the damage found by reading the records from `at` on, where a record begins."""
        damages: list[Damage] = []
        end = self._next_end(at)
        self.end = end.offset
        while (stop := self._damaged_to(end.offset)) is not None:
            damages += self._damages(end.offset, stop, end.reason)
            end = self._next_end(stop)
        return damages

    def _next_end(self, at: int) -> ScanEnd:
        """Return where the valid records from `at` on end."""
        end = ScanEnd()
        segments = self._log.segments
        segment = self._log.find(at)
        if segment is None:
            end.set(at, False, "end of file")
            return end
        for _ in self._entries(segment, at - segment.start, end):
            pass
        if end.rolled and segment is not segments[-1]:
            rest = segments[segments.index(segment) + 1 :]
            for _ in walk_log(
                rest,
                end,
                safe_wall=self._safe_wall,
                safe_end=self._expected.synced,
                anywhere=self._anywhere,
            ):
                pass
        return end

    @property
    def _safe_wall(self) -> int | None:
        return None if self._expected.clean else self._expected.safe_wall

    def _entries(self, segment: Segment, at: int, end: ScanEnd) -> Iterator[DispatchEntry]:
        return walk(
            segment.view,
            segment.start,
            at,
            end,
            safe_wall=self._safe_wall,
            safe_end=self._expected.synced,
            anywhere=self._anywhere,
        )

    def _damaged_to(self, at: int) -> int | None:
        """Return where the damage that begins at `at` ends; None if the log may end at `at`."""
        expected = self._expected
        bound = expected.synced if expected.exact is None else expected.exact
        if at < bound:
            found = self._next_record(at)
            return bound if found is None else found.offset
        if expected.exact is not None:
            return None
        if expected.clean:
            return self._damaged_unmarked(at)
        if expected.has_mark and not expected.same_boot:
            return None
        found = self._next_record(at)
        if found is None or not (expected.same_boot or found.store_wall_ms <= expected.safe_wall):
            return None
        return found.offset

    def _damaged_unmarked(self, at: int) -> int | None:
        """Return the same after a clean stop without a mark, for example of RocketMQ."""
        reach = self._expected.reach
        if 0 < reach <= at:
            return None  # RocketMQ may leave records behind an end that it cut
        found = self._next_record(at)
        if found is not None:
            return found.offset
        segment = self._log.find(at)
        known = segment is not None and at < reach <= self._log.segments[-1].end
        if not known or segment is None:
            return None
        rest = _read(segment, at, min(reach, segment.end) - at)
        return reach if any(rest) else None

    def _next_record(self, at: int) -> DispatchEntry | None:
        """Return the first valid record behind `at`, in the same file or in a later one."""
        for segment in self._log.segments:
            if segment.end > at + 1:
                found = self._find_record(segment, max(at + 1, segment.start) - segment.start)
                if found is not None:
                    return found
        return None

    def _find_record(self, segment: Segment, at: int) -> DispatchEntry | None:
        for low, high in segment.data:
            for step in range(max(low, at), high, _SEARCH_BYTES):
                data = _read(segment, segment.start + step, _SEARCH_BYTES + 8)
                place = data.find(MAGIC_FRONT, 4)
                while place >= 0:
                    start = step + place - 4
                    if start >= at:
                        found = next(walk(segment.view, segment.start, start, ScanEnd()), None)
                        if found is not None:
                            return found
                    place = data.find(MAGIC_FRONT, place + 1)
        return None

    def _damages(self, start: int, stop: int, reason: str) -> list[Damage]:
        """Split a damaged range by files; a correct blank at a file's end is left out."""
        found = []
        for segment in self._log.between(start, stop):
            low, high = max(start, segment.start), min(stop, segment.end)
            if stop >= segment.end:
                high = self._blank_before(segment, low)
            if low < high:
                found.append(Damage(segment.path, segment.start, low, high, reason))
        end = self._log.segments[-1].end
        if stop > end:
            found.append(Damage("commitlog", end, max(start, end), stop, "files are missing"))
        return found

    def _blank_before(self, segment: Segment, low: int) -> int:
        """Return where the file's blank begins behind `low`; the file's end if none is found."""
        size = segment.end - segment.start
        data = _read(segment, low, segment.end - low)
        place = data.find(MAGIC_BLANK.to_bytes(4, "big"), 4)
        while place >= 0:
            at = low - segment.start + place - 4
            if BLANK.unpack_from(data, place - 4)[0] == size - at:
                return segment.start + at
            place = data.find(MAGIC_BLANK.to_bytes(4, "big"), place + 1)
        return segment.end

    def _messages(self, start: int, stop: int) -> list[tuple[str, int, int, int]]:
        """Return the queue offsets whose records are in `[start, stop)`."""
        found = []
        for queue in self._queues.all():
            low, high = queue.end_before(start), queue.end_before(stop)
            if low < high:
                found.append((queue.topic, queue.queue_id, low, high))
        return found


def _read(segment: Segment, offset: int, size: int) -> bytes:
    return segment.file.read(offset - segment.start, size)


def flipped_bit(data: bytes, crc: int) -> int | None:
    """Return the number of the single bit of `data` whose change gives checksum `crc`, or None.

    Bits are numbered from the lowest bit of the first byte. A flipped bit changes a CRC by a value
    that depends only on the bit's distance from the end, and differs for each bit of such a block.
    """
    wanted = crc32(data) ^ crc
    if not wanted:
        return None
    change = _POLYNOMIAL  # of the last byte's highest bit; then those before it, one by one
    for distance in range(len(data) * 8):
        if change & 0x7FFFFFFF == wanted:
            return len(data) * 8 - 1 - distance
        change = change >> 1 ^ (_POLYNOMIAL if change & 1 else 0)
    return None
