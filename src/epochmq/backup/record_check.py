"""Checks log bytes record by record: place, lengths, and the checksum of the body.

The native code checks runs of ordinary records; all others, and everything without the native code,
are checked by `store.scan`.
"""

from itertools import islice
from struct import Struct

from epochmq.base.limits import FRAME_BYTES_MAX
from epochmq.model.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from epochmq.native.library import library
from epochmq.store.native_records import NativeRecords
from epochmq.store.scan import ScanEnd, walk

_HEAD = Struct(">II")
_SLOW_RECORDS = 64
"""Records that are checked one by one before the native code is asked again."""


class RecordCheck:
    """Checks bytes of one log whose files have `file_bytes` bytes."""

    def __init__(self, file_bytes: int) -> None:
        self._file_bytes = file_bytes
        native = library()
        self._native = None if native is None else NativeRecords(native, index=False, crc=True)

    def sound_bytes(self, view: memoryview, start: int) -> tuple[int, str]:
        """Return (how many bytes from the start of `view` are whole sound records, problem).

        `view` begins with the record at log offset `start`. The problem is empty if the rest is
        the beginning of a record that continues behind the view.
        """
        at = 0
        while at < len(view):
            position = start + at
            file_end = position - position % self._file_bytes + self._file_bytes
            limit = min(len(view), file_end - start)
            at, problem, is_open = self._check_file(view[:limit], start, at, file_end)
            if problem or is_open:
                return at, problem
        return at, ""

    def _check_file(
        self, view: memoryview, start: int, at: int, file_end: int
    ) -> tuple[int, str, bool]:
        """Check the bytes that lie in one log file; the last value: a record is incomplete."""
        while at < len(view):
            run = None
            if self._native is not None:
                run = self._native.decode(view, start, at, len(view))
            if run is not None:
                at = run.end - start
                continue
            end = ScanEnd()
            found = list(islice(walk(view, start, at, end), _SLOW_RECORDS))
            if found:
                at = found[-1].offset - start + found[-1].size
            elif end.rolled:
                at = end.offset - start  # the filler at the end of a file, or the file's end
            elif is_incomplete(view, at, file_end - start):
                return at, "", True
            else:
                return at, end.reason, False
        return at, "", False


def is_incomplete(view: memoryview, at: int, file_end: int) -> bool:
    """Return whether a record, or a filler, begins at `at` and ends behind the view.

    `file_end` is the position at which the log file ends; no record crosses it.
    """
    left = len(view) - at
    if len(view) >= file_end:
        return False
    if left < _HEAD.size:
        return True
    size, magic = _HEAD.unpack_from(view, at)
    if magic == MAGIC_BLANK:
        return bool(size == file_end - at)
    return bool(magic in (MAGIC_V1, MAGIC_V2) and left < size <= FRAME_BYTES_MAX)
