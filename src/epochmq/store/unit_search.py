"""Searches the log for the record of a damaged consume queue unit, a slice at a time.

It reads by `File.read` and not through the mapping: an unreadable page makes the search fail
instead of killing the process, and a step may run outside the event loop.
"""

from collections.abc import Callable

from epochmq.model.record import BLANK, MAGIC_BLANK
from epochmq.store.commit_log import CommitLog
from epochmq.store.scan import DispatchEntry, ScanEnd, walk

SLICE_BYTES = 256 * 1024


class UnitSearch:
    """Scans the records of the log from `low` to `high`, until one `matches`."""

    def __init__(
        self, log: CommitLog, low: int, high: int, matches: Callable[[DispatchEntry], bool]
    ) -> None:
        self._log = log
        self._matches = matches
        self.at = low
        """Log offset up to which records were examined."""
        self.high = high
        self.found: DispatchEntry | None = None
        self.bad: str | None = None
        """Why the search ended before `high`: there is no sound record at `at`."""

    @property
    def over(self) -> bool:
        return self.found is not None or self.bad is not None or self.at >= self.high

    def step(self) -> None:
        """Examine the next slice; raise `DiskFailed` if it cannot be read."""
        segment = self._log.find(self.at)
        if segment is None:
            self.bad = "there is no such log file"
            return
        place, room = self.at - segment.start, min(segment.end, self._log.end) - self.at
        data = segment.file.read(place, min(SLICE_BYTES, room))
        size, magic = BLANK.unpack_from(data) if len(data) >= BLANK.size else (0, 0)
        file_room = segment.end - self.at
        if (magic == MAGIC_BLANK and size == file_room) or file_room < BLANK.size:
            self.at = segment.end
            return
        if len(data) < size <= room:
            data = segment.file.read(place, size)
        end = ScanEnd()
        for entry in walk(memoryview(data), self.at, 0, end, crc=False):
            if entry.offset >= self.high:
                end.set(self.high, True, "")
                break
            if self._matches(entry):
                self.found = entry
                return
        if end.offset == self.at:
            self.bad = end.reason
        self.at = end.offset
