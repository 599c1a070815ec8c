"""The scrub: searches old parts of the log for damage at run time, and repairs it from a replica.

The search reads blocks outside the event loop, as many bytes at a time as its caller requests, and
compares them with their checksums. A repair writes a replica's bytes over damaged ones only if they
are what was written here: the block's checksum must match, or without one the record's own
checksum, and all bytes beside the damage must be equal. If the replica is damaged in the same
block, both copies are combined by the checksum (`block_merge`). The old bytes are kept in `cut/`
before.

To compare replicas, the caller gets digests of what the search has read. `examination` checks a
differing block a second time, and `give_checksums` adds checksums to blocks that are equal.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from epochmq.base.errors import DiskFailed, DiskFull, EnvironmentFault
from epochmq.model.crc import crc32
from epochmq.model.log_blocks import digest
from epochmq.model.record import DAMAGED, check, offset_at
from epochmq.store.block_merge import merge
from epochmq.store.checksums import Block, BlockVerdict, Computed
from epochmq.store.chores import Chores
from epochmq.store.damage import flipped_bit
from epochmq.store.damaged_ranges import DamagedRange, DamageTable
from epochmq.store.draft import FRONT
from epochmq.store.examination import Examination
from epochmq.store.file_records import MAGIC_FRONT
from epochmq.store.log_end import keep
from epochmq.store.pointers import Pointers
from epochmq.store.read_check import ReadCheck
from epochmq.store.segment import Segment
from epochmq.store.store_files import StoreFiles
from epochmq.store.written_blocks import BLOCK_BYTES

_log = logging.getLogger(__name__)

CHORE = "scrub"
REPAIR_CHORE = "repair"
BLOCKS_A_STEP = 16


class WantedRange(NamedTuple):
    """Bytes `[start, end)` of the log, whole blocks of one file, to be requested from a replica."""

    start: int
    end: int
    damaged: DamagedRange


class CheckedBlock(NamedTuple):
    """Bytes of a block that the search has read without finding damage: `size` bytes from
    `start`.
    """

    start: int
    size: int
    digest: str
    crc: int
    generation: int
    """Generation of the checksums at that time; another value means that the log was cut since."""


Told = Callable[[list[CheckedBlock]], None]


class Scrub:
    """Search and repair of one log. Call all methods on the loop; steps run outside it."""

    def __init__(
        self,
        files: StoreFiles,
        pointers: Pointers,
        read_check: ReadCheck,
        chores: Chores,
    ) -> None:
        self._disk = files.disk
        self._log = files.log
        self._checksums = files.checksums
        self._pointers = pointers
        self._check = read_check
        self._damage: DamageTable = read_check.damage
        self._chores = chores
        self.position = 0
        """Log offset that the current round has reached."""
        self.rounds = 0
        self.bytes_compared = 0
        self.bytes_unknown = 0
        """Bytes without a checksum that the search has passed."""

    @property
    def is_busy(self) -> bool:
        """Whether a search or a repair is waiting or running."""
        return self._chores.busy(CHORE) or self._chores.busy(REPAIR_CHORE)

    # The search -------------------------------------------------------------------------------

    def search(self, size: int, told: Told | None = None) -> None:
        """Check about `size` bytes below the confirmed offset, then continue from the log's start.

        `told` is called with digests of the bytes, including blocks without a checksum.
        """
        pointers = self._pointers
        stop = min(pointers.confirmed, pointers.synced)
        self.position = max(self.position, pointers.start)
        if self.position >= stop:
            self.position, self.rounds = pointers.start, self.rounds + 1
        blocks: list[tuple[Segment, Block, int]] = []
        while size > 0 and self.position < stop:
            segment = self._log.find(self.position)
            if segment is None:
                break
            block = self._checksums.block_at(self.position)
            wanted = min(block.stop, stop) - block.start if told is not None else 0
            if block.covered or wanted:
                blocks.append((segment, block, wanted))
            if not block.covered:
                self.bytes_unknown += block.stop - block.start
            size -= block.stop - block.start
            self.position = block.stop
        if not blocks:
            return
        wrong: list[tuple[Block, int, str]] = []
        seen: list[CheckedBlock] = []
        generation = self._checksums.generation
        steps = [
            partial(_compare, blocks[at : at + BLOCKS_A_STEP], generation, wrong, seen)
            for at in range(0, len(blocks), BLOCKS_A_STEP)
        ]

        def done(_error: EnvironmentFault | None) -> None:
            if generation != self._checksums.generation:
                return  # the log was cut meanwhile
            self.bytes_compared += sum(block.covered for _, block, _ in blocks)
            for block, size, reason in wrong:
                if self._checksums.block_at(block.start).crc == block.crc:
                    self._damage.report(block.start, block.start + size, reason)
            if told is not None and seen:
                told(seen)

        self._chores.add(CHORE, list(steps), done)

    # Other replicas ---------------------------------------------------------------------------

    def examination(self, start: int, end: int) -> Examination | None:
        """Return a second check of bytes `[start, end)` of one block; None if the log lacks
        them.
        """
        segment = self._log.find(start)
        if segment is None or not start < end <= self._checksums.block_at(start).stop:
            return None
        return Examination(self._log, self._checksums, self._damage, segment, start, end)

    def give_checksums(self, same: Sequence[CheckedBlock]) -> None:
        """Add checksums to full blocks without one, because another replica has the same bytes."""
        for seen in same:
            block = self._checksums.block_at(seen.start)
            full = block.stop - block.start
            # Behind what is covered so far each block gets its own soon.
            if block.covered < seen.size == full and block.stop <= self._checksums.covered:
                block.covered, block.crc = full, seen.crc
                self._checksums.record(Computed([(block, full)]), seen.generation)

    # Repairs ----------------------------------------------------------------------------------

    def wanted(self) -> list[WantedRange]:
        """Return the ranges to request from a replica, one per damaged range."""
        found = []
        stop = self._pointers.confirmed
        for damaged in self._damage.ranges:
            segment = self._log.find(damaged.start)
            if segment is None or not self._pointers.start <= damaged.start < stop:
                continue
            start = damaged.start - (damaged.start - segment.start) % BLOCK_BYTES
            last = min(damaged.end, segment.end) - segment.start
            end = min(segment.start + -(-last // BLOCK_BYTES) * BLOCK_BYTES, segment.end, stop)
            found.append(WantedRange(start, end, damaged))
        return found

    def repair(
        self, wanted: WantedRange, data: bytes, source: str, done: Callable[[str], None]
    ) -> None:
        """Replace damaged bytes by `data` of replica `source`, from `wanted.start`, if it is
        correct.

        `done` is called with the reason for a refusal, '' after success.
        """
        segment = self._log.find(wanted.start)
        if segment is None or wanted.damaged not in self._damage.ranges:
            done("")
            return
        outcome: list[str] = []
        generation = self._checksums.generation
        blocks = [
            self._checksums.block_at(at)
            for at in range(wanted.start, wanted.start + len(data), BLOCK_BYTES)
        ]

        def step() -> None:
            right = _merged(segment, blocks, wanted.start, data)
            reason = _why_not(segment, blocks, wanted, right)
            if not reason and generation == self._checksums.generation:
                reason = self._replace(segment, wanted.start, right)
            outcome.append(reason)

        def finished(error: EnvironmentFault | None) -> None:
            reason = str(error) if error is not None else outcome[0] if outcome else "not done"
            if not reason:
                end = wanted.start + len(data)
                self._check.forget(wanted.start, end)
                self._damage.mark_repaired(wanted.start, end, f"by the bytes of {source}")
            done(reason)

        self._chores.add(REPAIR_CHORE, [step], finished)

    def mend(self, wanted: WantedRange, done: Callable[[str], None]) -> None:
        """Repair without a replica: flip back the single bit that explains a block's checksum.

        `done` as for `repair`. All records in the block must be sound after it.
        """
        segment = self._log.find(wanted.start)
        block = self._checksums.block_at(wanted.damaged.start)
        if segment is None or not block.covered:
            done("its block has no checksum")
            return
        outcome: list[str | bytes] = []

        def step() -> None:
            outcome.append(_mended(segment, block))

        def finished(error: EnvironmentFault | None) -> None:
            found = str(error) if error is not None else outcome[0]
            if isinstance(found, str):
                done(found)
                return
            whole = WantedRange(block.start, block.start + block.covered, wanted.damaged)
            self.repair(whole, found, "this broker, but for one bit that had changed", done)

        self._chores.add(REPAIR_CHORE, [step], finished)

    def _replace(self, segment: Segment, start: int, data: bytes) -> str:
        """Overwrite bytes durably; the old bytes are kept, if they can be read."""
        at = start - segment.start
        try:
            keep(self._disk, segment, at, len(data), f"damaged-{start}")
        except DiskFull:
            return "there is no space to keep the damaged bytes"
        except DiskFailed as error:
            _log.warning("the damaged bytes at log offset %d cannot be kept: %s", start, error)
        segment.file.write(at, data)
        segment.file.sync()
        return ""

    def statistics(self) -> dict[str, int]:
        """Plain figures."""
        return {
            "scrub_rounds": self.rounds,
            "scrub_position": self.position,
            "scrub_compared_bytes": self.bytes_compared,
            "scrub_unknown_bytes": self.bytes_unknown,
        }


def _mended(segment: Segment, block: Block) -> bytes | str:
    """Return the block's bytes before one bit changed, or why they are unknown."""
    right = bytearray(segment.file.read(block.start - segment.start, block.covered))
    if block.verify(right) is not BlockVerdict.OK:
        bit = flipped_bit(bytes(right), block.crc)
        if bit is None:
            return "more than one bit of its block has changed"
        right[bit // 8] ^= 1 << bit % 8
    if _has_damage(right, block.start):
        return "a record is not sound even where its block has the checksum it should have"
    return bytes(right)


def _has_damage(data: bytes | bytearray, log_offset: int) -> bool:
    """Return whether a whole record of the bytes from `log_offset` on is damaged."""
    at = data.find(MAGIC_FRONT, 4)
    while at >= 0:
        start = at - 4
        size = check(data, start, len(data), crc=True)
        own = start + FRONT.size <= len(data) and offset_at(data, start) == log_offset + start
        if own and size == DAMAGED:
            return True
        at = data.find(MAGIC_FRONT, at + 1)
    return False


def _merged(segment: Segment, blocks: list[Block], start: int, data: bytes) -> bytes:
    """Return a replica's bytes from `start` on; blocks that are damaged there too are combined with
    ours, where that gives the block's checksum.
    """
    right = bytearray(data)
    for block in blocks:
        low = block.start - start
        part = data[low : low + block.covered]
        if len(part) < block.covered or block.verify(part) is not BlockVerdict.WRONG:
            continue
        try:
            mine = segment.file.read(block.start - segment.start, block.covered)
        except DiskFailed:
            continue
        found = merge(mine, part, block.crc)
        if found is not None and not _has_damage(found, block.start):
            right[low : low + block.covered] = found
    return bytes(right)


def _compare(
    blocks: list[tuple[Segment, Block, int]],
    generation: int,
    wrong: list[tuple[Block, int, str]],
    seen: list[CheckedBlock],
) -> None:
    """A step outside the event loop: checks blocks, and makes digests where requested."""
    for segment, block, wanted in blocks:
        size = max(block.covered, wanted)
        try:
            data = segment.file.read(block.start - segment.start, size)
        except DiskFailed as error:
            if segment.file.fileno() >= 0:  # else retention closed it
                wrong.append((block, size, str(error)))
            continue
        if len(data) < size:
            wrong.append((block, size, "the file is shorter than it was"))
        elif block.verify(data) is BlockVerdict.WRONG:
            wrong.append((block, block.covered, "the bytes do not agree with their checksum"))
        elif wanted:
            part = memoryview(data)[:wanted]
            seen.append(CheckedBlock(block.start, wanted, digest([part]), crc32(part), generation))


def _why_not(segment: Segment, blocks: list[Block], wanted: WantedRange, data: bytes) -> str:
    """Return why a replica's bytes are not what was written here; '' if they are."""
    damaged = wanted.damaged
    low, high = damaged.start - wanted.start, min(damaged.end, wanted.end) - wanted.start
    if len(data) < high:
        return f"it has only {len(data)} bytes there"
    is_sure = True
    for block in blocks:
        part = memoryview(data)[block.start - wanted.start :][: block.stop - block.start]
        verdict = block.verify(part)
        if verdict is BlockVerdict.WRONG:
            return f"its block at log offset {block.start} does not have the checksum of ours"
        covered = block.covered if verdict is BlockVerdict.OK else 0
        end = min(damaged.end, block.stop)
        is_sure = is_sure and (end <= block.start + covered or damaged.start >= block.stop)
        if covered < len(part) and (reason := _differs(segment, block, covered, part, damaged)):
            return reason
    if is_sure:
        return ""
    size = check(data, low, len(data), crc=True)
    if size != high - low or offset_at(data, low) != damaged.start:
        return "no sound record of that size begins there, and the block has no checksum"
    return ""


def _differs(
    segment: Segment, block: Block, covered: int, part: memoryview, damaged: DamagedRange
) -> str:
    """Return why bytes without a checksum are refused: they must be equal beside the damage."""
    try:
        mine = segment.file.read(block.start - segment.start + covered, len(part) - covered)
    except DiskFailed as error:
        return f"ours cannot be compared: {error}"
    first = block.start + covered
    for place, (one, other) in enumerate(zip(mine, part[covered:], strict=False), first):
        if one != other and not damaged.start <= place < damaged.end:
            return f"its log differs at {place}, which is not known to be damaged here"
    return ""
