"""Whole records from a learner's stream, whose ranges end anywhere."""

from collections.abc import Iterator

from epochmq.spark.log_export import LogExport, LogRange
from epochmq.spark.log_scan import LogDamage, RecordRun, is_filler, scan

CARRIED_BYTES_MAX = 16 << 20
"""The most bytes of an incomplete record; more bytes are damage."""


class WholeRecords:
    """Cuts a stream of ranges at record borders."""

    def __init__(self, export: LogExport, crc: bool) -> None:
        self._export = export
        self._crc = crc
        self._kept = b""
        self._skip_to = 0
        """No record follows a filler before this offset, the next file's start."""

    def add_range(
        self, piece: LogRange
    ) -> Iterator[tuple[bytes, int, list[RecordRun | LogDamage]]]:
        """Yield (bytes, log offset of the first byte, records and damage in them).

        An incomplete record at the end is kept for the next range.
        """
        if piece.end <= self._skip_to:
            return
        data, base = self._kept + piece.data, piece.offset - len(self._kept)
        self._kept = b""
        file_bytes = self._export.file_bytes
        file_end = base - base % file_bytes + file_bytes
        stop = piece.end
        found = list(scan(data, base, base, stop, file_end=file_end, crc=self._crc))
        last = found[-1] if found else None
        end = last.end if last is not None else base
        if end < stop and is_filler(data, end - base, file_end - end):
            self._skip_to = file_end
        goes_on = stop not in (file_end, self._export.end)
        if isinstance(last, LogDamage) and goes_on and stop - last.start <= CARRIED_BYTES_MAX:
            self._kept = data[last.start - base :]
            found.pop()
        if found:
            yield data, base, found
