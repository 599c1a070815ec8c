"""The follower's log: appends the master's raw bytes, and derives records once they are complete.

A chunk may end inside a record, but not behind the end of its file; the blank at a file's end is
part of the stream. Complete records are checked at once, with their checksum, before the follower
acknowledges them: a damaged record does not spread (S11). Each record's unit is added to its queue
at once too, so that the next queue offsets always come from the whole log (rocketmq#7689), but the
unit is shown only once confirmed.

The bytes are received into a buffer and written from there: unlike a store into a mapping, a write
reports a full disk instead of killing the process, and does not read cold pages first.
"""

from collections.abc import Callable

from epochmq.base.errors import DiskFailed, DiskFull, EnvironmentFault, PeerError, check
from epochmq.base.limits import RAW_WINDOW_BYTES
from epochmq.base.ports import Buffer
from epochmq.base.safeguards import Safeguards
from epochmq.model.record import BLANK, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, store_time_at
from epochmq.model.record import TRAILING_BLANK_BYTES as TAIL_BYTES
from epochmq.native import library
from epochmq.native.memory import NativeMemory
from epochmq.store.append import Appender
from epochmq.store.consume_queue import WRITE_UNITS, ConsumeQueue
from epochmq.store.dispatch import LogDispatcher
from epochmq.store.native_records import AppendedRecords, NativeRecords
from epochmq.store.scan import ScanEnd, walk
from epochmq.store.segment import Segment
from epochmq.store.sinks import SinkMemory
from epochmq.store.store_files import StoreFiles

_SMALLEST = 91
_WRITE_UNITS = 8 * WRITE_UNITS
"""A follower that catches up writes more units at once; the tick writes the rest."""
_HEAD_BYTES = 76
"""Enough bytes of a record to find its store time, with any host type."""


class DamagedStream(PeerError):
    """The master's bytes are not valid records; the log must be cut to the last valid record."""


class Follower:
    """Receives a master's log; active from the first raw byte until `Store.seal_tail`."""

    def __init__(
        self,
        files: StoreFiles,
        appender: Appender,
        sinks: SinkMemory,
        safeguards: Safeguards,
        on_failure: Callable[[Exception], None],
    ) -> None:
        """`on_failure` is called if the units of a queue could not be written."""
        options = files.options
        self._log = files.log
        self._appender = appender
        self._on_failure = on_failure
        self._crc = safeguards.crc_on_scan
        self._index = options.index
        self._native: NativeRecords | None = None
        self._dispatcher = LogDispatcher(
            files.queues,
            options.delays_ms,
            from_start=True,
            index=options.index,
            show=False,
            staged=appender.staged,
            sinks=sinks,
        )
        self._buffer = memoryview(b"")
        self._buffer_at = 0
        """The address of the buffer, for the native code."""
        self._window_at = 0
        """Log offset of the bytes in the window."""
        self.active = False
        self.damaged = False
        """Damaged bytes are at the log's end, and must be cut before more bytes come."""
        self._whole_end = 0
        """End of the complete, checked records or blanks; valid while active."""
        self._head_at = 0
        """Offset of the first record whose store time was not examined yet."""

    def whole_end(self) -> int:
        """Return where the log's complete records end; the log's end if no master is followed."""
        return self._whole_end if self.active else self._log.end

    @property
    def touched(self) -> list[ConsumeQueue]:
        """The queues that grew in the last scan."""
        return list(self._dispatcher.touched)

    def begin(self) -> None:
        """Start following: from now on the log grows by raw bytes."""
        self._log.commit()
        if self._native is None and (native := library.library()) is not None:
            self._native = NativeRecords(native, index=self._index, crc=self._crc)
        self.active = True
        self._whole_end = self._head_at = self._log.end

    def space(self, limit: int) -> memoryview:
        """Return a window for at most `limit` bytes at the log's end; open the next file if
        needed.
        """
        check(not self.damaged, "damaged bytes are cut before more bytes come")
        log = self._log
        if log.end == log.active_end:
            log.roll()
        if not self._buffer:
            memory = NativeMemory(min(RAW_WINDOW_BYTES, log.file_bytes))
            self._buffer, self._buffer_at = memory.view, memory.address
        return self._buffer[: min(limit, log.active_end - log.end)]

    def written(self, count: int) -> list[ConsumeQueue]:
        """Append the window's first `count` bytes to the log; return the queues that grew.

        Raises `DamagedStream` at a bad record: the log is valid up to `whole_end()`.
        """
        self._peek(count)
        self._window_at = self._log.end
        try:
            self._log.write_raw(self._buffer[:count])
        except EnvironmentFault:
            self._head_at = self._whole_end
            raise
        try:
            return self.scan()
        except DamagedStream:
            self.damaged = True
            raise

    def _peek(self, count: int) -> None:
        """Lower the checkpoint's claims before bytes of older records are written.

        Store times come from the master of that time, and a later master's clock may be behind. The
        last record counts even if it is incomplete: no claim may be later than it.
        """
        base, end = self._log.end, self._log.end + count
        at = self._head_at
        native = self._native
        while at + BLANK.size <= end:
            if native is not None and at >= base:
                at = base + self._newest(native, at - base, count)
                native = None  # the cause of the stop is rare: Python does the rest
                continue
            view, pos = self._window(at, base)
            size, magic = BLANK.unpack_from(view, pos)
            if magic not in (MAGIC_V1, MAGIC_V2) or size < _SMALLEST:
                at += self._log.file_bytes - at % self._log.file_bytes
                continue
            if at + _HEAD_BYTES > end:
                break
            self._appender.saw(store_time_at(view, pos))
            at += size
        self._head_at = at

    def _newest(self, native: NativeRecords, at: int, count: int) -> int:
        """Examine the window from `at` on in native code; return where it stopped."""
        last_wall = self._appender.last_wall
        stop, wall = native.newest(self._buffer, at, count, last_wall, self._buffer_at)
        self._appender.saw(wall)
        return stop

    def _window(self, at: int, base: int) -> tuple[Buffer, int]:
        """Return the bytes and position of the record head at log offset `at`.

        From `base` on the bytes are in the window, before it in the log.
        """
        if at >= base:
            return self._buffer, at - base
        here = self._log.slice(at, min(_HEAD_BYTES, base - at))
        assert here is not None
        return bytes(here) + bytes(self._buffer[: _HEAD_BYTES - len(here)]), 0

    def drop_tail(self) -> None:
        """Zero an incomplete record at a clean stop; the master sends it again."""
        log = self._log
        if self.active and self._whole_end < log.end:
            self.damaged = False
            segment = log.find(self._whole_end)
            assert segment is not None
            segment.write(self._whole_end, bytes(log.end - self._whole_end))
            segment.file.sync()  # the log's own sync ends before these bytes
            log.end = self._whole_end

    def cut(self, end: int) -> None:
        """Follow a cut of the log to `end`."""
        self.damaged = self.damaged and end > self._whole_end
        self._whole_end = min(self._whole_end, end)
        self._head_at = self._whole_end

    def scan(self) -> list[ConsumeQueue]:
        """Check and derive the records that became complete."""
        log = self._log
        self._dispatcher.touched.clear()
        try:
            while self._whole_end < log.end:
                segment = log.find(self._whole_end)
                if segment is None or not self._scan_file(segment):
                    break
        finally:
            self._write_out()
        return self.touched

    def _scan_file(self, segment: Segment) -> bool:
        """Process the complete records of one file; return whether its end is reached."""
        start = segment.start
        limit = min(self._log.end, segment.end) - start
        if self._native is not None:
            self._add_by_native(self._native, segment, limit)
        stop, rolled = _whole(segment.view, self._whole_end - start, limit)
        if stop > self._whole_end - start:
            self._walk(segment, stop)
        if rolled:
            self._whole_end = segment.end
        elif limit - stop >= BLANK.size:
            _check_head(segment.view, stop, start)
        return rolled

    def _walk(self, segment: Segment, stop: int) -> None:
        """Process the records of one file up to position `stop`, where a record ends."""
        start, end = segment.start, ScanEnd()
        view = segment.view[:stop]
        for entry in walk(view, start, self._whole_end - start, end, crc=self._crc):
            self._dispatcher.add(entry, unit=True, keys=True)
            self._whole_end = entry.offset + entry.size
        if self._whole_end < start + stop:
            raise DamagedStream(f"bad record from the master at {end.offset}: {end.reason}")

    def _add_by_native(self, native: NativeRecords, segment: Segment, limit: int) -> None:
        """Process complete records in native code, while their queue offsets continue as expected.

        Single records that the native code refuses are processed here, in growing numbers.
        """
        most = 1
        while self._whole_end + BLANK.size <= self._log.end:
            taken = self._decode_by_native(native, segment, limit)
            if taken is not None:
                if not self._dispatcher.add_taken(taken):
                    return
                self._whole_end = taken.end
                most = 1
                continue
            stop, _ = _whole(segment.view, self._whole_end - segment.start, limit, most)
            if stop == self._whole_end - segment.start:
                return
            self._walk(segment, stop)
            most *= 2

    def _decode_by_native(
        self, native: NativeRecords, segment: Segment, limit: int
    ) -> AppendedRecords | None:
        """Decode from the window if possible: reading a fresh mapping costs one page fault per
        page.
        """
        base = self._window_at
        if self._whole_end >= base:
            at, limit = self._whole_end - base, self._log.end - base
            return native.decode(self._buffer, base, at, limit, address=self._buffer_at)
        start = segment.start
        return native.decode(segment.view, start, self._whole_end - start, limit, 1)

    def _write_out(self) -> None:
        for queue in self._dispatcher.touched:
            if queue.next - queue.written >= _WRITE_UNITS:
                try:
                    queue.write_out()
                except (DiskFull, DiskFailed) as error:
                    self._on_failure(error)


def _whole(view: memoryview, at: int, limit: int, most: int = 1 << 62) -> tuple[int, bool]:
    """Return (end of the last of `most` complete records below `limit`, whether the file ends)."""
    size_max = len(view)
    while limit - at >= BLANK.size and most > 0:
        most -= 1
        size, magic = BLANK.unpack_from(view, at)
        if magic == MAGIC_BLANK:
            return at, size == size_max - at and limit == size_max
        if magic not in (MAGIC_V1, MAGIC_V2) or size < _SMALLEST or at + size > limit:
            break
        at += size
    return at, at == size_max


def _check_head(view: memoryview, at: int, start: int) -> None:
    """Raise `DamagedStream` if the incomplete record's head cannot become a valid record."""
    size, magic = BLANK.unpack_from(view, at)
    room = len(view) - at
    if magic == MAGIC_BLANK:
        good = size == room
    else:
        good = magic in (MAGIC_V1, MAGIC_V2) and _SMALLEST <= size <= room - TAIL_BYTES
    if not good:
        raise DamagedStream(f"no record from the master at {start + at}")
