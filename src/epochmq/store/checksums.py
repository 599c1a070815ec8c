"""Checksums of the commit log's bytes, kept beside it: they tell damage in any byte of a record.

RocketMQ's record format has a checksum of the body only. So each block of 64 KiB of a log file has
an entry in `checksums/<name of the log file>`: how many bytes of the block the entry covers, their
CRC-32, and a CRC-32 of the entry itself and of the block's place. Programs that do not know the
folder ignore it.

An entry is written after the bytes that it covers are on the device, and it is taken back, durably,
before they change (a cut of the log). So a block that differs from its entry is damaged; what has
no entry, or an entry that is damaged itself, is UNKNOWN, which is never an error.
"""

import logging
from enum import Enum
from struct import Struct

from epochmq.base.errors import EnvironmentFault
from epochmq.base.ports import Buffer, Disk, File
from epochmq.model.crc import crc32
from epochmq.store.chores import Step
from epochmq.store.commit_log import CommitLog
from epochmq.store.draft import file_name
from epochmq.store.segment import Segment
from epochmq.store.written_blocks import BLOCK_BYTES

_log = logging.getLogger(__name__)

FOLDER = "checksums"
BLOCKS_A_STEP = 16
STEPS_A_CHORE = 8
BLOCKS_AT_ONCE = 256
"""Blocks whose checksums are known already, and are written in one turn of the event loop."""
_TABLES_MAX = 16
"""Checksum files kept in memory; the one of a log file of 1 GiB has 192 KiB."""

_ENTRY = Struct(">III")
_CHECKED = Struct(">QII")
_NO_ENTRY = bytes(_ENTRY.size)


class BlockVerdict(Enum):
    """What a block's entry says of its bytes."""

    OK = "ok"
    WRONG = "wrong"
    UNKNOWN = "unknown"


class Block:
    """One block of the log: where it begins, and what its entry covers."""

    __slots__ = ("covered", "crc", "start", "stop")

    def __init__(self, start: int, stop: int, covered: int = 0, crc: int = 0) -> None:
        self.start = start
        self.stop = stop
        """Where the block ends: 64 KiB further on, or at the end of its file."""
        self.covered = covered
        """Bytes from `start` on that the checksum covers; 0 when the block has none."""
        self.crc = crc

    def verify(self, data: Buffer) -> BlockVerdict:
        """Compare `data`, which begins where the block does; what is not covered may be missing."""
        if not self.covered or len(data) < self.covered:
            return BlockVerdict.UNKNOWN
        same = crc32(memoryview(data)[: self.covered]) == self.crc
        return BlockVerdict.OK if same else BlockVerdict.WRONG

    def entry(self) -> bytes:
        """The block's entry in the checksum file."""
        check = crc32(_CHECKED.pack(self.start, self.covered, self.crc))
        return _ENTRY.pack(self.covered, self.crc, check)


Computed = list[tuple[Block, int]]
"""Blocks, and how many bytes of each were read; a block that is damaged covers less."""


class BlockChecksums:
    """The checksum files of one log. All methods are for the loop; steps run beside it."""

    def __init__(self, disk: Disk, log: CommitLog) -> None:
        self._disk = disk
        self._log = log
        self._tables: dict[int, bytearray] = {}
        self._file: File | None = None
        self._file_start = 0
        self._unsynced: set[int] = set()
        self.damaged: set[int] = set()
        """Blocks (where they begin) that had changed when more of them was to be covered."""
        self.usable = True
        """False while the files may be older than the log (a check that changes nothing)."""
        self._generation = 0
        """Changes when the log is cut: what was computed before is void."""
        self._start = 0
        self.known_end = 0
        """What `load` found: up to here the log was on the device; 0 without any entry."""
        self.covered = 0
        """Entries are written from here on; what lacks one before has none since long ago."""

    # Reading ----------------------------------------------------------------------------------

    def block_at(self, offset: int) -> Block:
        """The block that holds byte `offset` of the log, with its checksum if it has one."""
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

        `DiskFailed` when it cannot be read.
        """
        block = self.block_at(offset)
        segment = self._log.find(offset)
        if segment is None or not block.covered:
            return BlockVerdict.UNKNOWN
        return block.verify(segment.file.read(block.start - segment.start, block.covered))

    def _table(self, segment: Segment) -> bytearray | None:
        """The checksum file of a log file, None when there is none or it cannot be read."""
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
        """Find out up to where the log is covered; forget the files below it."""
        self.drop_below(self._log.start)
        self.find_covered()

    def find_covered(self) -> None:
        """Go on behind the newest checksum; a log that has none yet begins with its last file."""
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
        """Write the entries of blocks below `limit`, which is synced, that need not be read.

        They are those that the log has computed while they were written. At most some MiB at once:
        the result is whether there may be more.
        """
        written = self._log.written
        found: Computed = []
        segment = self._log.find(self.covered)
        if segment is None:
            return False
        at = self.covered - (self.covered - segment.start) % BLOCK_BYTES
        while len(found) < BLOCKS_AT_ONCE and (crc := written.crc_of(at)) is not None:
            stop = min(at + BLOCK_BYTES, segment.end)
            if stop > limit:
                break
            found.append((Block(at, stop, stop - at, crc), stop - at))
            at = stop
            if at == segment.end:
                break
        if found:
            self.record(found, self._generation)
        written.drop_below(self.covered)
        return len(found) == BLOCKS_AT_ONCE

    def steps(self, limit: int, *, partial: bool) -> tuple[list[Step], Computed]:
        """Steps that read and compute what is missing below `limit`, and their results.

        With `partial` a block that is not full yet gets an entry too. At most a few MiB at once.
        """
        found: Computed = []
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

    def cover(self, limit: int) -> None:
        """Compute and write everything below `limit`, here and now (clean stop, tools)."""
        while self.record_written(limit):
            pass
        while True:
            before = self.covered
            steps, found = self.steps(limit, partial=True)
            for step in steps:
                step()
            self.record(found, self._generation)
            if self.covered in (before, limit):
                return

    @property
    def generation(self) -> int:
        """To be given to `record` together with what was begun now."""
        return self._generation

    def record(self, found: Computed, generation: int) -> None:
        """Write the entries that steps have computed, unless the log was cut meanwhile."""
        if generation != self._generation:
            return
        try:
            whole = []
            for block, size in found:
                if block.covered == size:
                    whole.append(block)
                else:
                    self.damaged.add(block.start)
            self._put(whole)
            for block, size in found:
                if block.start <= self.covered < block.start + size:
                    self.covered = block.start + size
        except EnvironmentFault as error:
            _log.warning("checksums of the log cannot be written, it goes on without: %s", error)

    def _put(self, blocks: list[Block]) -> None:
        """Write entries, those of adjacent blocks of one file together."""
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
        table = self._table(segment)
        if table is None:
            if self._disk.exists(_path(segment.start)):
                self._remove(segment.start)  # it cannot be read
                self._sync_names()
            table = self._tables[segment.start] = bytearray(_table_bytes(segment))
        first = (blocks[0].start - segment.start) // BLOCK_BYTES * _ENTRY.size
        entries = table[first : first + len(blocks) * _ENTRY.size]
        changed = False
        for number, block in enumerate(blocks):
            at = number * _ENTRY.size
            old = entries[at : at + _ENTRY.size]
            if old == _NO_ENTRY or self.block_at(block.start).covered < block.covered:
                entries[at : at + _ENTRY.size] = block.entry()
                changed = True
        if changed:
            self._open(segment.start, len(table)).write(first, entries)
            table[first : first + len(entries)] = entries
            self._unsynced.add(segment.start)

    def _open(self, start: int, size: int) -> File:
        """The checksum file of the log file at `start`; the one written last stays open."""
        if self._file is None or self._file_start != start:
            self.close()
            self._file = self._disk.open(_path(start), create_size=size)
            self._file_start = start
        return self._file

    # Taking back ------------------------------------------------------------------------------

    def _change(self) -> None:
        """Bytes of the log are about to change: what was computed before is void."""
        self._generation += 1
        self._log.written.clear()

    def invalidate(self, offset: int) -> None:
        """Durably forget every entry that covers bytes at or beyond `offset`.

        To be called before those bytes change. An error is raised: with an old entry, new bytes
        would count as damage.
        """
        self.invalidate_step(offset)()

    def invalidate_step(self, offset: int) -> Step:
        """As `invalidate`: forgets here and now, and returns the step that makes it durable."""
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
        self.damaged = {start for start in self.damaged if start + BLOCK_BYTES <= offset}

        def step() -> None:
            for start in gone:
                self._disk.remove(_path(start))
            if clear is not None:
                clear()
            self._sync_names()

        return step

    def read_again(self, offset: int) -> None:
        """The step of `invalidate_step` is done: a table that was read before it may be an old
        one."""
        for start in [start for start in self._tables if start + self._log.file_bytes > offset]:
            del self._tables[start]

    def _clear(self, segment: Segment, offset: int) -> Step:
        """Forget the entries of one file from `offset` on; the step that clears them in the file.

        The step has a handle of its own: the loop may close the other one meanwhile.
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
        """Where the blocks begin that have bytes of `[start, stop)`."""
        found = []
        while start < stop and (block := self.block_at(start)).stop > start:
            found.append(block.start)
            start = block.stop
        return found

    def forget(self, start: int, stop: int) -> None:
        """Durably take back the entries of `[start, stop)`, whose bytes are about to change."""
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
        found: Computed = []
        for at in self.blocks_of(start, stop):
            segment = self._log.find(at)
            assert segment is not None
            end = min(self.covered, segment.end)
            if at < end:
                _Computation(segment, [self.block_at(at)], end, found)()
        self.record(found, self._generation)
        self.sync()

    def restart(self, offset: int) -> None:
        """Durably forget everything: the log begins again at `offset`."""
        self.restart_step(offset)()

    def restart_step(self, offset: int) -> Step:
        """As `restart`: forgets here and now, and returns the step that makes it durable."""
        step = self.invalidate_step(0)
        self.covered = offset
        return step

    def drop_below(self, log_start: int) -> None:
        """Delete the checksums of log files that retention deleted."""
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
        """Forget one file, which is to be removed."""
        if self._file_start == start:
            self.close()
        self._tables.pop(start, None)
        self._unsynced.discard(start)

    # Durability -------------------------------------------------------------------------------

    def sync_steps(self, *, newest: bool = False) -> list[Step]:
        """Steps that make files durable which are complete, and with `newest` the last one."""
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
    """One step beside the loop: read blocks of one log file and compute their checksums."""

    def __init__(self, segment: Segment, blocks: list[Block], end: int, found: Computed) -> None:
        self._segment = segment
        self._blocks = blocks
        self._end = end
        self._found = found

    def __call__(self) -> None:
        try:
            for block in self._blocks:
                size = min(block.stop, self._end) - block.start
                data = self._segment.file.read(block.start - self._segment.start, size)
                # What was covered before and has changed since keeps its old entry.
                if block.verify(data) is not BlockVerdict.WRONG:
                    block.covered, block.crc = len(data), crc32(data)
                self._found.append((block, len(data)))
        except EnvironmentFault as error:
            # Retention may have closed the file; nothing is lost but the checksums.
            _log.info("no checksums for %s: %s", self._segment.path, error)


def _block(segment: Segment, number: int) -> Block:
    start = segment.start + number * BLOCK_BYTES
    return Block(start, min(start + BLOCK_BYTES, segment.end))


def _path(start: int) -> str:
    return f"{FOLDER}/{file_name(start)}"


def _table_bytes(segment: Segment) -> int:
    return -(-(segment.end - segment.start) // BLOCK_BYTES) * _ENTRY.size
