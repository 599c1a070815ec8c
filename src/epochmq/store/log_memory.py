"""Finds records of the log that are not in memory, so that another thread can read them first.

The event loop must not wait for the device. Before it touches records that may have left the
memory, it asks here, and lets a thread read what is missing (ADR 0101).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from epochmq.store.draft import PRE_BLANK_SIZE
from epochmq.store.pointers import Pointers
from epochmq.store.read_check import ReadCheck
from epochmq.store.segment import Segment
from epochmq.store.store_files import StoreFiles
from epochmq.store.written_blocks import BLOCK_BYTES

COLD_GAP_BYTES, COLD_AHEAD_BYTES = 64 * 1024, 1024 * 1024
"""Records with a smaller gap are brought into memory together; and what follows, up to this."""
COLD_PARTS_MAX = 256
"""Parts of the log that are examined at a time, about 5 us each."""
SPAN_BYTES_MAX = 8 * 1024 * 1024
"""Up to so many bytes between the first and the last record, one question is asked for all."""
RECORD_BYTES_EXPECTED = 4096
"""So many bytes are read for a record whose size is not known yet."""

_FAR = 1 << 62

Prefetch = Callable[[], None]
"""A call for another thread, which reads records from the device. It reports no failure: the reader
of the records finds it by the usual checks."""

Lacks = Callable[[int, int], bool]
"""Returns whether a read must not touch the bytes at a log offset, of a size; or raises."""


class NotInMemory(Exception):
    """A read within `LogMemory.only` needs bytes that are not in memory; `prefetch` reads them."""

    def __init__(self, prefetch: Prefetch) -> None:
        super().__init__("bytes of the log are not in memory")
        self.prefetch = prefetch


class LogMemory:
    """The part of the log that is in memory.

    Records that this run wrote count as in memory, without a question to the system, while they are
    in the last `window_bytes` of the log.
    """

    def __init__(self, files: StoreFiles, pointers: Pointers, check: ReadCheck) -> None:
        self.window_bytes = files.options.memory_window_bytes
        self._log = files.log
        self._pointers = pointers
        self._check = check
        self._is_only = False
        self._lacking: list[tuple[int, int]] = []
        self._here = (0, 0)
        """Log offsets [start, stop) that were in memory at the last question."""

    @contextmanager
    def only(self) -> Iterator[None]:
        """Within this context no read of messages waits for the device.

        Such a read raises `NotInMemory`, possibly at the end of the context. The caller discards
        all results, brings the bytes into memory, and reads from the beginning.
        """
        self._is_only = True
        self._here = (0, 0)
        try:
            yield
        except BaseException:
            self._lacking = []
            raise
        finally:
            self._is_only = False
        self.confirm_reads()

    def confirm_reads(self) -> None:
        """Raise `NotInMemory` if a read within `only` has returned without its bytes.

        A caller that keeps what it read so far calls it first.
        """
        lacking, self._lacking = self._lacking, []
        if lacking:  # even if all is in memory now, a read has returned without it
            raise NotInMemory(
                self.missing_records(sorted(lacking), ahead=0, parts_max=_FAR) or _nothing
            )

    @property
    def is_only(self) -> bool:
        """Whether reads must not wait for the device now."""
        return self._is_only

    def lacks(self, offset: int, size: int) -> bool:
        """Return whether a read must not touch these bytes; then the end of `only` raises.

        So many independent reads wait for the device together.
        """
        if self._missing(offset, size) is None:
            return False
        self._lacking.append((offset, size))
        return True

    def need(self, offset: int, size: int) -> bool:
        """Raise `NotInMemory` if a read must not touch these bytes; return False."""
        missing = self._missing(offset, size)
        if missing is not None:
            raise NotInMemory(missing)
        return False

    def need_all(self, offsets: Iterable[int]) -> None:
        """Raise `NotInMemory` if a read must not touch the records at these log offsets.

        The call of the exception reads all of them.
        """
        if self._is_only:
            places = [(offset, RECORD_BYTES_EXPECTED) for offset in sorted(offsets)]
            missing = self.missing_records(places, ahead=0)
            if missing is not None:
                raise NotInMemory(missing)

    def _missing(self, offset: int, size: int) -> Prefetch | None:
        """Return a call that brings bytes into memory which a read must not touch, else None."""
        start, stop = self._here
        if not self._is_only or (start <= offset and offset + size <= stop):
            return None
        if not self.may_lack(offset) or self.is_here(offset, size):
            return None
        return self.missing_records([(offset, size)], ahead=0)

    def may_lack(self, offset: int) -> bool:
        """Return whether the record at log offset `offset` may have left the memory."""
        return offset < self._check.fresh or offset < self._pointers.readable - self.window_bytes

    def is_here(self, offset: int, size: int) -> bool:
        """Return whether these bytes of the log are in memory, by one question to the system.

        False also if they are more than `SPAN_BYTES_MAX`, or in several files.
        """
        segment = self._log.find(offset)
        if segment is None or not 0 < size <= SPAN_BYTES_MAX or offset + size > segment.end:
            return False
        start, stop = offset - segment.start, offset - segment.start + size
        if offset < self._check.fresh:
            start, stop = _whole_blocks(start, stop)
        if not segment.file.is_in_memory(start, stop - start):
            return False
        self._here = segment.start + start, min(segment.start + stop, segment.end)
        return True

    def missing_records(
        self,
        places: Iterable[tuple[int, int]],
        room: int = _FAR,
        ahead: int = COLD_AHEAD_BYTES,
        parts_max: int | None = None,
    ) -> Prefetch | None:
        """Return a call that brings records into memory; None if they are there.

        Args:
            places: (log offset, size in bytes) of each record.
            room: the records after so many bytes are left out.
            ahead: so many bytes after the last missing record are read too, because the reader will
                want them next.
            parts_max: so many parts of the log are examined, by default `COLD_PARTS_MAX`; the
                others count as in memory.
        """
        missing: dict[Segment, list[tuple[int, int]]] = {}
        for segment, start, stop in self._parts(places, room, parts_max or COLD_PARTS_MAX):
            if not segment.file.is_in_memory(start, stop - start):
                missing.setdefault(segment, []).append((start, stop))
        if not missing:
            return None
        for segment, parts in missing.items():
            start, stop = parts[-1]
            parts[-1] = start, min(stop + ahead, segment.end - segment.start)
        calls = [segment.file.prefetcher(parts) for segment, parts in missing.items()]

        def prefetch() -> None:
            for call in calls:
                call()

        return prefetch

    def _parts(
        self, places: Iterable[tuple[int, int]], room: int, parts_max: int
    ) -> list[tuple[Segment, int, int]]:
        """Return the parts of log files that hold the records: (file, first byte, end).

        Records that are near to each other are in one part. What an earlier run wrote is checked in
        whole blocks.
        """
        found: list[tuple[Segment, int, int]] = []
        fresh = self._check.fresh
        first_hot = max(fresh, self._pointers.readable - self.window_bytes)
        segment, base, end = None, 0, 0
        for offset, size in places:
            if offset >= first_hot or size < 0 or size == PRE_BLANK_SIZE:
                continue
            if not base <= offset < end:
                segment = self._log.find(offset)
                base, end = (0, 0) if segment is None else (segment.start, segment.end)
            if segment is None:
                continue
            start = offset - base
            stop = start + size
            if offset < fresh:
                start, stop = _whole_blocks(start, stop)
            stop = min(stop, end - base)
            last, low, high = found[-1] if found else (None, 0, 0)
            if last is segment and low <= start <= high + COLD_GAP_BYTES:
                if stop > high:
                    found[-1] = segment, low, stop
            elif len(found) == parts_max:
                break
            else:
                found.append((segment, start, stop))
            room -= size
            if room < 0:
                break
        return found


def _whole_blocks(start: int, stop: int) -> tuple[int, int]:
    return start - start % BLOCK_BYTES, stop + -stop % BLOCK_BYTES


def _nothing() -> None:
    """Read nothing: what was missing is in memory by now."""
