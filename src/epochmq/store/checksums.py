"""Checksum files of the commit log: they show damage in any byte of a record, also in its head.

RocketMQ's record format has a checksum of the body only. So each block of 64 KiB of a log file has
an entry in `checksums/<name of the log file>`: how many bytes of the block the entry covers, their
CRC-32, and a CRC-32 of the entry itself and of the block's offset. Programs that do not know the
folder ignore it.

An entry is written after the bytes that it covers are synced. It is invalidated, durably, before
these bytes change (a cut of the log). So a block that differs from its entry is damaged. A block
without an entry, or with a damaged entry, is UNKNOWN, which is never an error.

Most checksums are computed while the log writes the bytes. Others are computed later, from bytes
that are read again: the device may have changed them meanwhile. So the records are checked first,
and a block that has bytes of a damaged record gets no entry.
"""

import logging
from dataclasses import dataclass, field
from enum import Enum
from struct import Struct

from epochmq.base.errors import EnvironmentFault
from epochmq.base.ports import Buffer, Disk, File
from epochmq.model.crc import crc32
from epochmq.store.chores import Step
from epochmq.store.commit_log import CommitLog
from epochmq.store.damaged_ranges import DamagedRange
from epochmq.store.draft import file_name
from epochmq.store.file_records import FileRecords
from epochmq.store.segment import Segment
from epochmq.store.written_blocks import BLOCK_BYTES

_log = logging.getLogger(__name__)

FOLDER = "checksums"
BLOCKS_A_STEP = 16
LEAD_BYTES = 4 * BLOCK_BYTES
"""How far before a step's first block the begin of a record is searched."""
STEPS_A_CHORE = 8
BLOCKS_AT_ONCE = 256
"""Limit of blocks with known checksums whose entries are written in one turn of the event loop."""
_TABLES_MAX = 16
"""Limit of checksum files in memory; the file for 1 GiB of log has 192 KiB."""

_ENTRY = Struct(">III")
_CHECKED = Struct(">QII")


class BlockVerdict(Enum):
    """The result of comparing a block's bytes with its entry."""

    OK = "ok"
    WRONG = "wrong"
    UNKNOWN = "unknown"


class Block:
    """One block of the log, and what its checksum entry covers."""

    __slots__ = ("covered", "crc", "start", "stop")

    def __init__(self, start: int, stop: int, covered: int = 0, crc: int = 0) -> None:
        self.start = start
        self.stop = stop
        """Where the block ends: 64 KiB behind `start`, or at the end of its file."""
        self.covered = covered
        """Bytes from `start` on that the checksum covers; 0 if the block has no entry."""
        self.crc = crc

    def verify(self, data: Buffer) -> BlockVerdict:
        """Compare `data`, which begins at the block's start; bytes that are not covered may be
        missing.
        """
        if not self.covered or len(data) < self.covered:
            return BlockVerdict.UNKNOWN
        same = crc32(memoryview(data)[: self.covered]) == self.crc
        return BlockVerdict.OK if same else BlockVerdict.WRONG

    def entry(self) -> bytes:
        """Return the block's entry for the checksum file."""
        return _entry(self.start, self.covered, self.crc)


def _entry(start: int, covered: int, crc: int) -> bytes:
    """Return the entry of the block at `start`, whose first `covered` bytes have the CRC-32
    `crc`.
    """
    return _ENTRY.pack(covered, crc, crc32(_CHECKED.pack(start, covered, crc)))


@dataclass
class Computed:
    """The results of steps that compute checksums."""

    blocks: list[tuple[Block, int]] = field(default_factory=list)
    """Blocks, and how many bytes of each were read; the entry of a damaged block covers fewer."""
    bad: list[DamagedRange] = field(default_factory=list)
    """The damaged ranges found."""


class BlockChecksums:
    """The checksum files of one log. Call all methods on the loop; steps may run outside it."""

    def __init__(self, disk: Disk, log: CommitLog) -> None:
        self._disk = disk
        self._log = log
        self._tables: dict[int, bytearray] = {}
        self._file: File | None = None
        self._file_start = 0
        self._unsynced: set[int] = set()
        self.usable = True
        """False while the files may be older than the log (a check that changes nothing)."""
        self._generation = 0
        """Changes when the log is cut: earlier results are void."""
        self._start = 0
        self.known_end = 0
        """Up to here the log was synced, according to the entries found by `load`; 0 without
        entries.
        """
        self.covered = 0
        """Entries are written from this offset on; earlier blocks without an entry get none."""

    # Reading ----------------------------------------------------------------------------------

    def block_at(self, offset: int) -> Block:
        """Return the block that holds byte `offset` of the log, with its checksum if it has one."""
        segment = self._log.find(offset)
        if segment is None:
            return Block(offset, offset)
        number = (offset - segment.start) // BLOCK_BYTES
        block = _block(segment, number)
        table = self._table(segment)
        place = number * _ENTRY.size
        if table is None:
            return block
        covered, crc, check = _ENTRY.unpack_from(table, place)
        checked = _CHECKED.pack(block.start, covered, crc)
        if 0 < covered <= block.stop - block.start and check == crc32(checked):
            block.covered, block.crc = covered, crc
        return block

    def verify(self, offset: int) -> BlockVerdict:
        """Read the block that holds byte `offset`, and compare it with its checksum.

        Raises `DiskFailed` if it cannot be read.
        """
        block = self.block_at(offset)
        segment = self._log.find(offset)
        if segment is None or not block.covered:
            return BlockVerdict.UNKNOWN
        return block.verify(segment.file.read(block.start - segment.start, block.covered))

    def _table(self, segment: Segment) -> bytearray | None:
        """Return the checksum file of a log file; None if it is missing or unreadable."""
        table = self._tables.get(segment.start)
        if table is None and self.usable:
            try:
                data = self._disk.read_file(_path(segment.start))
            except EnvironmentFault as error:
                _log.warning("the checksums of %s are not used: %s", segment.path, error)
                data = None
            if data is None or len(data) != _table_bytes(segment):
                return None
            table = self._tables[segment.start] = bytearray(data)
            if len(self._tables) > _TABLES_MAX:
                del self._tables[next(iter(self._tables))]
        return table

    # Writing ----------------------------------------------------------------------------------

    def load(self) -> None:
        """Find up to where the log is covered; forget the files below it."""
        self.drop_below(self._log.start)
        self.find_covered()

    def find_covered(self) -> None:
        """Continue behind the newest entry; without any entry, begin with the log's last file."""
        log = self._log
        self.known_end = 0
        if not log.segments:
            self.covered = log.end
            return
        first, found = log.segments[-1], False
        for name in reversed(self._names() if self.usable else []):
            if (segment := log.find(int(name))) is not None:
                first, found = segment, True
                break
        self.covered = first.start
        while self.covered < first.end:
            block = self.block_at(self.covered)
            self.covered = block.start + block.covered
            if self.covered < block.stop:
                break
        self.known_end = self.covered if found else 0

    def record_written(self, limit: int) -> bool:
        """Write entries below the synced offset `limit` for blocks whose checksums are known.

        The log computed these checksums while it wrote the blocks. One call handles some MiB at
        most; returns whether there may be more, False also if the disk refuses.
        """
        written = self._log.written
        segment = self._log.find(self.covered)
        if segment is None:
            return False
        first = at = self.covered - (self.covered - segment.start) % BLOCK_BYTES
        entries = bytearray()
        full = BLOCKS_AT_ONCE * _ENTRY.size
        while len(entries) < full and at < segment.end:
            stop, crc = min(at + BLOCK_BYTES, segment.end), written.crc_of(at)
            if crc is None or stop > limit:
                break
            entries += _entry(at, stop - at, crc)
            at = stop
        if entries:
            try:
                self._put_entries(segment, first, entries)
                self.covered = at
            except EnvironmentFault as error:
                _warn(error)
        written.drop_below(self.covered)
        return len(entries) == full and self.covered == at

    def steps(self, limit: int, *, partial: bool) -> tuple[list[Step], Computed]:
        """Return steps that compute the missing checksums below `limit`, and their results.

        With `partial`, a block that is not full yet gets an entry too. A few MiB at most per call.
        """
        found = Computed()
        steps: list[Step] = []
        at = self.covered
        known = self._log.written.first
        if known is not None and known > at:
            limit = min(limit, known)
        while at < limit and len(steps) < STEPS_A_CHORE:
            segment = self._log.find(at)
            if segment is None:
                break
            first = (at - segment.start) // BLOCK_BYTES
            stop = min(limit, segment.end) - segment.start
            last = min(first + BLOCKS_A_STEP, -(-stop // BLOCK_BYTES))
            blocks = [
                self.block_at(segment.start + number * BLOCK_BYTES) for number in range(first, last)
            ]
            end = segment.start + stop
            if blocks[-1].stop > end and not partial:
                blocks.pop()
            if not blocks:
                break
            steps.append(_Computation(segment, blocks, end, found))
            at = min(blocks[-1].stop, end)
        return steps, found

    def cover(self, limit: int) -> list[DamagedRange]:
        """Compute and write all entries below `limit` now (clean stop, tools).

        Returns the damaged ranges found.
        """
        while self.record_written(limit):
            pass
        bad: list[DamagedRange] = []
        while True:
            before = self.covered
            steps, found = self.steps(limit, partial=True)
            for step in steps:
                step()
            bad += self.record(found, self._generation)
            if self.covered in (before, limit):
                return bad

    @property
    def generation(self) -> int:
        """Number to pass to `record`, together with results of steps created now."""
        return self._generation

    def record(self, found: Computed, generation: int) -> list[DamagedRange]:
        """Write the entries that steps have computed, unless the log was cut meanwhile.

        Returns the damaged ranges that the steps found.
        """
        if generation != self._generation:
            return []
        try:
            self._put([block for block, size in found.blocks if block.covered == size])
            for block, size in found.blocks:
                if block.start <= self.covered < block.start + size:
                    self.covered = block.start + size
        except EnvironmentFault as error:
            _warn(error)
        return found.bad

    def _put(self, blocks: list[Block]) -> None:
        """Write entries; adjacent blocks of one file are written together."""
        while blocks:
            segment = self._log.find(blocks[0].start)
            count = 1
            while (
                count < len(blocks)
                and segment is not None
                and blocks[count].start == blocks[count - 1].stop < segment.end
            ):
                count += 1
            if segment is not None:
                self._put_adjacent(segment, blocks[:count])
            blocks = blocks[count:]

    def _put_adjacent(self, segment: Segment, blocks: list[Block]) -> None:
        entries = bytearray().join(block.entry() for block in blocks)
        self._put_entries(segment, blocks[0].start, entries)

    def _put_entries(self, segment: Segment, start: int, entries: bytearray) -> None:
        """Write the entries of adjacent blocks from `start` on; an entry that covers as much
        stays.
        """
        table = self._table(segment)
        if table is None:
            if self._disk.exists(_path(segment.start)):
                self._remove(segment.start)  # it cannot be read
                self._sync_names()
            table = self._tables[segment.start] = bytearray(_table_bytes(segment))
        first = (start - segment.start) // BLOCK_BYTES * _ENTRY.size
        there = table[first : first + len(entries)]
        if any(there):
            for at in range(0, len(entries), _ENTRY.size):
                known = self.block_at(start + at // _ENTRY.size * BLOCK_BYTES).covered
                if known >= _ENTRY.unpack_from(entries, at)[0]:
                    entries[at : at + _ENTRY.size] = there[at : at + _ENTRY.size]
        if entries != there:
            self._open(segment.start, len(table)).write(first, entries)
            table[first : first + len(entries)] = entries
            self._unsynced.add(segment.start)

    def _open(self, start: int, size: int) -> File:
        """Return the checksum file of the log file at `start`; the last one written stays open."""
        if self._file is None or self._file_start != start:
            self.close()
            self._file = self._disk.open(_path(start), create_size=size)
            self._file_start = start
        return self._file

    # Invalidation -----------------------------------------------------------------------------

    def _change(self) -> None:
        """Void earlier results, because bytes of the log are about to change."""
        self._generation += 1
        self._log.written.clear()

    def invalidate(self, offset: int) -> None:
        """Durably remove every entry that covers bytes at or beyond `offset`.

        Call this before those bytes change. An error is raised: with an old entry, new bytes would
        count as damage.
        """
        self.invalidate_step(offset)()

    def invalidate_step(self, offset: int) -> Step:
        """Like `invalidate`: forget the entries now, and return the step that makes it durable."""
        self._change()
        gone = [int(name) for name in reversed(self._names()) if int(name) >= offset]
        segment = self._log.find(offset)
        clear: Step | None = None
        if segment is not None and segment.start < offset:
            if self._table(segment) is None:
                gone.append(segment.start)
            else:
                clear = self._clear(segment, offset)
        for start in gone:
            self._drop(start)
        self.covered = min(self.covered, offset)

        def step() -> None:
            for start in gone:
                self._disk.remove(_path(start))
            if clear is not None:
                clear()
            self._sync_names()

        return step

    def read_again(self, offset: int) -> None:
        """Drop tables read before the step of `invalidate_step` was done; they may be outdated."""
        for start in [start for start in self._tables if start + self._log.file_bytes > offset]:
            del self._tables[start]

    def _clear(self, segment: Segment, offset: int) -> Step:
        """Forget the entries of one file from `offset` on; return the step that clears the file.

        The step has its own file handle: the loop may close the other one meanwhile.
        """
        table = self._tables[segment.start]
        block = self.block_at(offset)
        number = (block.start - segment.start) // BLOCK_BYTES
        if block.covered and block.start + block.covered <= offset:
            number += 1  # the entry covers only what stays
        else:
            self.covered = min(self.covered, block.start)
        place = number * _ENTRY.size
        # Even if they are zeros already: an earlier process may have died before its sync.
        size, zeros = len(table), bytes(len(table) - place)
        table[place:] = zeros
        path = _path(segment.start)

        def step() -> None:
            file = self._disk.open(path, create_size=size)
            try:
                file.write(place, zeros)
                file.sync()
            finally:
                file.close()

        return step

    def blocks_of(self, start: int, stop: int) -> list[int]:
        """Return the starts of the blocks that have bytes in `[start, stop)`."""
        found = []
        while start < stop and (block := self.block_at(start)).stop > start:
            found.append(block.start)
            start = block.stop
        return found

    def forget(self, start: int, stop: int) -> None:
        """Durably remove the entries of `[start, stop)`, whose bytes are about to change."""
        self._change()
        for at in self.blocks_of(start, stop):
            segment = self._log.find(at)
            if segment is None or (table := self._table(segment)) is None:
                continue
            place = (at - segment.start) // BLOCK_BYTES * _ENTRY.size
            table[place : place + _ENTRY.size] = bytes(_ENTRY.size)
            file = self._open(segment.start, len(table))
            file.write(place, bytes(_ENTRY.size))
            file.sync()

    def renew(self, start: int, stop: int) -> None:
        """Compute the entries of `[start, stop)` again, as far as the log was covered."""
        found = Computed()
        for at in self.blocks_of(start, stop):
            segment = self._log.find(at)
            assert segment is not None
            end = min(self.covered, segment.end)
            if at < end:
                _Computation(segment, [self.block_at(at)], end, found)()
        self.record(found, self._generation)
        self.sync()

    def restart(self, offset: int) -> None:
        """Durably remove all entries, because the log restarts at `offset`."""
        self.restart_step(offset)()

    def restart_step(self, offset: int) -> Step:
        """Like `restart`: forget the entries now, and return the step that makes it durable."""
        step = self.invalidate_step(0)
        self.covered = offset
        return step

    def drop_below(self, log_start: int) -> None:
        """Delete the checksum files of log files that retention deleted."""
        if log_start == self._start:
            return
        for name in self._names():
            if int(name) < log_start:
                self._remove(int(name))
        self._start = log_start

    def _names(self) -> list[str]:
        return [name for name in self._disk.list(FOLDER) if len(name) == 20 and name.isdecimal()]

    def _remove(self, start: int) -> None:
        self._drop(start)
        self._disk.remove(_path(start))

    def _drop(self, start: int) -> None:
        """Forget one file before it is removed."""
        if self._file_start == start:
            self.close()
        self._tables.pop(start, None)
        self._unsynced.discard(start)

    # Durability -------------------------------------------------------------------------------

    def sync_steps(self, *, newest: bool = False) -> list[Step]:
        """Return steps that sync complete checksum files, and with `newest` also the last one."""
        done = sorted(start for start in self._unsynced if newest or start != self._file_start)
        self._unsynced.difference_update(done)
        return [lambda starts=done: self._sync_files(starts)] if done else []  # type: ignore[misc]

    def sync(self) -> None:
        """Make all entries durable (clean stop)."""
        starts = sorted(self._unsynced)
        self._unsynced.clear()
        if starts:
            self._sync_files(starts)

    def _sync_files(self, starts: list[int]) -> None:
        for start in starts:
            if self._disk.exists(_path(start)):
                file = self._disk.open(_path(start))
                try:
                    file.sync()
                finally:
                    file.close()
        self._sync_names()
        self._disk.sync_dir("")

    def _sync_names(self) -> None:
        if self._disk.exists(FOLDER):
            self._disk.sync_dir(FOLDER)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class _Computation:
    """A step outside the event loop: reads adjacent blocks of one log file and computes their
    checksums, as far as the records in them are sound.
    """

    def __init__(self, segment: Segment, blocks: list[Block], end: int, found: Computed) -> None:
        self._segment = segment
        self._blocks = blocks
        self._end = end
        self._found = found

    def __call__(self) -> None:
        try:
            bad = self._bad()
            self._found.bad += bad
            for block in self._blocks:
                stop = min(block.stop, self._end)
                data = self._read(block.start, stop - block.start)
                if block.verify(data) is BlockVerdict.WRONG:
                    reason = "the bytes do not agree with their checksum"
                    end = block.start + block.covered
                    self._found.bad.append(DamagedRange(block.start, end, reason))
                elif not any(low < stop and block.start < high for low, high, _ in bad):
                    block.covered, block.crc = len(data), crc32(data)
                self._found.blocks.append((block, len(data)))
        except EnvironmentFault as error:
            # Retention may have closed the file; nothing is lost but the checksums.
            _log.info("no checksums for %s: %s", self._segment.path, error)

    def _bad(self) -> list[DamagedRange]:
        """Return the damaged records that have bytes in the blocks.

        What a search with a short lead finds is looked at again with the whole lead.
        """
        segment = self._segment
        records = FileRecords(self._read, segment.start, segment.end, self._end)
        low = self._blocks[0].start + self._blocks[0].covered
        high = min(self._blocks[-1].stop, self._end)
        found = records.bad(low, high, LEAD_BYTES)
        return found and records.bad(low, high)

    def _read(self, offset: int, size: int) -> bytes:
        return self._segment.file.read(offset - self._segment.start, size)


def _warn(error: EnvironmentFault) -> None:
    _log.warning("checksums of the log cannot be written, it goes on without: %s", error)


def _block(segment: Segment, number: int) -> Block:
    start = segment.start + number * BLOCK_BYTES
    return Block(start, min(start + BLOCK_BYTES, segment.end))


def _path(start: int) -> str:
    return f"{FOLDER}/{file_name(start)}"


def _table_bytes(segment: Segment) -> int:
    return -(-(segment.end - segment.start) // BLOCK_BYTES) * _ENTRY.size
