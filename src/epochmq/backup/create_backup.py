"""Makes a backup of a broker group that runs: what is new in its log, and all its tables.

The log is copied up to the offset that was confirmed after the progress of consumers was read. So
no progress leads past the end of the copied log, and no failover truncates what was copied.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from epochmq import __version__
from epochmq.backup.backup_files import BackupFiles
from epochmq.backup.backup_snapshot import BackupSnapshot, Piece, piece_of
from epochmq.backup.backup_source import BackupSource
from epochmq.backup.broker_tables import (
    ALL,
    CONFIGURATION,
    TOPICS,
    checkpoint_of,
    encode_table,
    topics_of,
)
from epochmq.backup.record_check import RecordCheck
from epochmq.base.errors import EnvironmentFault, NotReachable, StoreDamaged, UsageError
from epochmq.base.limits import BULK_READ_BYTES_MAX, FRAME_BYTES_MAX
from epochmq.store.timer import timer_checkpoint
from epochmq.wire.codes import RequestCode

PIECE_BYTES = 64 << 20
"""A piece is written when so many bytes of whole records were read."""
NEAR_BYTES = 4 << 20
"""The tables are read when at most so much of the log is left to copy."""
COMPARED_BYTES = 1 << 20
"""So much of the end of an older piece is compared with the broker's log."""
TRIES = 10
"""How often the log is copied before the tables are read, and how often these are read at most."""

Progress = Callable[[int, int], None]
"""Called with (bytes of the log copied, bytes to copy)."""


@dataclass(frozen=True, slots=True)
class Created:
    """The result of a backup."""

    snapshot: BackupSnapshot
    copied_bytes: int
    """Bytes of the log that this backup read from the broker."""
    lost_bytes: int
    """Bytes after the previous backup that retention had deleted before this one."""
    seconds: float


async def create_backup(
    source: BackupSource, files: BackupFiles, progress: Progress | None = None
) -> Created:
    """Back up the broker group of `source` into `files`.

    An interrupted call leaves the earlier backups as they were; the next call continues with the
    pieces that it wrote.

    Args:
        source: the broker group.
        files: where its backups are.
        progress: called after each read from the log.

    Raises:
        UsageError: `files` has backups of another log.
        StoreDamaged: the broker's log, or the newest backup, is damaged.
        NotReachable: the group had no master for too long.
    """
    began = time.monotonic()
    run = BackupRun(source, files, await source.file_bytes(), progress)
    await run.resume()
    snapshot = await run.finish()
    return Created(snapshot, run.copied_bytes, run.lost_bytes, time.monotonic() - began)


class BackupRun:
    """One backup of one broker group."""

    def __init__(
        self, source: BackupSource, files: BackupFiles, file_bytes: int, progress: Progress | None
    ) -> None:
        self._source, self._files, self._progress = source, files, progress
        self._file_bytes = file_bytes
        self._check = RecordCheck(file_bytes)
        self._previous: BackupSnapshot | None = None
        self._pieces: list[Piece] = []
        self._start = 0
        """The first byte of the broker's log."""
        self._end = 0
        """End of the last piece."""
        self._buffer = bytearray(PIECE_BYTES + FRAME_BYTES_MAX + BULK_READ_BYTES_MAX)
        """Used again for each piece: new memory costs more than the copy."""
        self._filled = 0
        """Bytes at the front of the buffer: the log from `_end` on, as far as it was read."""
        self._sound = 0
        """Bytes at the front of the buffer that are whole sound records."""
        self.copied_bytes = 0
        self.lost_bytes = 0

    # Where to begin --------------------------------------------------------------------------

    async def resume(self) -> None:
        """Find the end of the log that earlier backups have copied."""
        bounds = await self._source.bounds()
        self._start = self._end = bounds.start
        previous = self._previous = await asyncio.to_thread(self._files.latest)
        if previous is not None:
            await self._continue(previous)
        await self._adopt_loose_pieces()

    async def _continue(self, previous: BackupSnapshot) -> None:
        if previous.file_bytes != self._file_bytes:
            raise self._another_log(f"with log files of {previous.file_bytes:,} bytes")
        if previous.log_end < self._start:
            self.lost_bytes = self._start - previous.log_end
            return
        for piece in previous.pieces[-1:]:
            data = await asyncio.to_thread(self._files.read_piece, piece)
            try:
                is_same = await self._is_in_log(piece.start, data)
            except NotReachable:
                confirmed = (await self._source.bounds()).confirmed
                if confirmed >= piece.end:
                    raise
                raise self._another_log(
                    f"which goes on to offset {piece.end:,}, where the broker's log ends at"
                    f" {confirmed:,}"
                ) from None
            if not is_same:
                raise self._another_log(f"which differs before offset {piece.end:,}")
        self._pieces = [piece for piece in previous.pieces if piece.end > self._start]
        self._end = previous.log_end

    def _another_log(self, how: str) -> UsageError:
        return UsageError(
            f"{self._files.url} has backups of another log, {how}: give another directory, so that"
            " they stay what they are"
        )

    async def _adopt_loose_pieces(self) -> None:
        """Use the pieces that an interrupted backup left, as far as they are in the log."""
        loose = await asyncio.to_thread(self._files.pieces)
        confirmed = (await self._source.bounds()).confirmed
        while ends := [e for s, e in loose if s == self._end and self._end < e <= confirmed]:
            start, end = self._end, max(ends)
            data = await asyncio.to_thread(self._files.piece_bytes, start, end)
            sound, _ = await asyncio.to_thread(self._check.sound_bytes, memoryview(data), start)
            if sound < len(data) or not await self._is_in_log(start, data):
                return  # a piece of other bytes, which the next one replaces, or `prune` deletes
            self._pieces.append(piece_of(start, data))
            self._end = end

    async def _is_in_log(self, start: int, data: bytes) -> bool:
        """Return whether the end of a piece is in the broker's log, as far as it still has it."""
        end = start + len(data)
        low = max(end - COMPARED_BYTES, start, self._start)
        read = low
        while read < end:
            part = await self._source.log(read, end - read)
            if part.data != data[read - start : read - start + len(part.data)] or not part.data:
                return False
            read += len(part.data)
        return True

    # Log and tables --------------------------------------------------------------------------

    async def finish(self) -> BackupSnapshot:
        """Copy the log, read the tables, and write the snapshot."""
        for _ in range(TRIES):  # a log that grows faster than it is copied is never near
            confirmed = (await self._source.bounds()).confirmed
            if confirmed - self._read_end <= NEAR_BYTES:
                break
            await self._copy(confirmed)
        for _ in range(TRIES):
            taken = datetime.now(UTC)
            changes = self._source.changes
            before = await self._read_tables(ALL)
            target = (await self._source.bounds()).confirmed
            if self._source.changes != changes:
                continue  # another master may have confirmed less of the log
            await self._copy(target)
            tables = before | await self._read_tables(CONFIGURATION)
            if topics_of(before[TOPICS]) <= topics_of(tables[TOPICS]):
                await asyncio.to_thread(self._write_piece)
                return await self._write_snapshot(tables, taken)
            # The progress of consumers in a topic that was deleted meanwhile must not be kept: it
            # would count for a new topic of the same name.
        raise EnvironmentFault(
            f"broker group {self._files.broker_name} changed its master, or deleted topics, during"
            f" each of {TRIES} attempts to read its tables; try again later"
        )

    async def _read_tables(self, wanted: Mapping[str, RequestCode]) -> dict[str, bytes]:
        found = {}
        for path, code in wanted.items():
            if path == timer_checkpoint.FILE:
                table = checkpoint_of(await self._source.timer_checkpoint())
            else:
                content = await self._source.table(code)
                table = None if content is None else encode_table(content)
            if table is not None:
                found[path] = table
        return found

    async def _write_snapshot(self, tables: dict[str, bytes], taken: datetime) -> BackupSnapshot:
        snapshot = BackupSnapshot(
            id=self._new_id(taken),
            cluster=self._files.cluster,
            broker_name=self._files.broker_name,
            version=__version__,
            file_bytes=self._file_bytes,
            log_start=self._start,
            log_end=self._end,
            pieces=self._pieces,
            tables=tables,
        )
        snapshot.check()
        await asyncio.to_thread(self._files.write_snapshot, snapshot)
        return snapshot

    def _new_id(self, taken: datetime) -> str:
        """Return an id that is later than the previous one, also after the clock went back."""
        found = format_id(taken)
        if self._previous is None or found > self._previous.id:
            return found
        last = datetime.strptime(self._previous.id, "%Y%m%dT%H%M%S.%fZ")
        return format_id(last + timedelta(milliseconds=1))

    # Copying ---------------------------------------------------------------------------------

    @property
    def _read_end(self) -> int:
        return self._end + self._filled

    async def _copy(self, target: int) -> None:
        """Read the log up to `target`; the next part is read while this one is checked."""
        begin, at = self._read_end, self._read_end
        reading = self._start_read(at, target)
        while reading is not None:
            part = await reading
            at += len(part)
            reading = self._start_read(at, target) if part else None
            try:
                await asyncio.to_thread(self._add, part)
            except BaseException:
                if reading is not None:
                    reading.cancel()
                raise
            if self._progress is not None:
                self._progress(at - begin, target - begin)

    def _start_read(self, at: int, target: int) -> "asyncio.Task[bytes] | None":
        if at >= target:
            return None

        async def read() -> bytes:
            return (await self._source.log(at, min(target - at, BULK_READ_BYTES_MAX))).data

        return asyncio.create_task(read())

    def _add(self, data: bytes) -> None:
        """Check bytes of the log, and write a piece when there are enough."""
        filled = self._filled + len(data)
        self._buffer[self._filled : filled] = data
        self._filled = filled
        self.copied_bytes += len(data)
        start = self._end + self._sound
        with memoryview(self._buffer) as whole, whole[self._sound : filled] as rest:
            sound, problem = self._check.sound_bytes(rest, start)
        if problem:
            raise StoreDamaged(
                f"the log of broker {self._files.broker_name} is damaged at {start + sound:,}"
                f" ({problem}): no backup was made; `epochmq cluster show` tells what the broker"
                " knows of it, `epochmq store repair` repairs a stopped broker"
            )
        self._sound += sound
        if self._sound >= PIECE_BYTES:
            self._write_piece()

    def _write_piece(self) -> None:
        """Write the whole records of the buffer as a piece."""
        if self._sound:
            with memoryview(self._buffer) as whole:
                piece = self._files.write_piece(self._end, whole[: self._sound])
                rest = self._filled - self._sound
                whole[:rest] = bytes(whole[self._sound : self._filled])
            self._pieces.append(piece)
            self._end, self._filled, self._sound = piece.end, rest, 0


def format_id(taken: datetime) -> str:
    """Return the id of a snapshot taken at a time in UTC."""
    return f"{taken:%Y%m%dT%H%M%S}.{taken.microsecond // 1000:03d}Z"
