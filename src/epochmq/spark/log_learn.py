"""`readFrom=learner`: the whole log of brokers as rows, one task a broker, in the log's order."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epochmq.base.errors import NotFound
from epochmq.spark.log_export import LogExport, LogRange, open_export
from epochmq.spark.log_home import find_brokers
from epochmq.spark.log_options import LogOptions, names
from epochmq.spark.log_rows import ByteSource, RowMaker
from epochmq.spark.log_scan import LogDamage, RecordRun, is_filler, scan
from epochmq.store.store_layout import file_name

if TYPE_CHECKING:
    import pyarrow as pa

CARRIED_BYTES_MAX = 16 << 20
"""A record that is not whole yet may have so many bytes; more are damage."""


@dataclass(frozen=True)
class LearnerSplit:
    """What one task reads: bytes `[start, end)` of the log of `broker`, each time it is tried."""

    broker: str
    start: int
    end: int


def plan_brokers(options: LogOptions) -> list[LearnerSplit]:
    """One split a broker group; `NotFound` for one that the name server does not know."""
    known = find_brokers(options.name_server, options)
    wanted = names(options.brokers) or known
    for name in wanted:
        if name not in known:
            raise NotFound(
                f"there is no broker {name}; known to the name server: {', '.join(known) or 'none'}"
            )
    to = int(options.to_offset) if options.to_offset.isdecimal() else None
    return [
        split_of(open_export(options.name_server, name, options.from_offset, to, tls=options), name)
        for name in dict.fromkeys(wanted)
    ]


def split_of(export: LogExport, broker: str) -> LearnerSplit:
    """What `export` would give now; it is of no more use then."""
    with closing(export.ranges()) as ranges:
        next(ranges, None)
    return LearnerSplit(broker, export.began, export.end or 0)


def learn(split: LearnerSplit, options: LogOptions) -> Iterator["pa.RecordBatch"]:
    """The rows of one broker."""
    export = open_export(options.name_server, split.broker, split.start, split.end, tls=options)
    return rows_of(export, split.broker, options)


def rows_of(export: LogExport, broker: str, options: LogOptions) -> Iterator["pa.RecordBatch"]:
    """Ranges as rows; records that a range cuts in two are put together."""
    maker = RowMaker(options)
    whole = WholeRecords(export, options.check_crc)
    for piece in export.ranges():
        for data, base, found in whole.add_range(piece):
            if options.epochs is None or piece.epoch in options.epochs:
                place = _place(piece, export, broker)
                yield from maker.rows(data, base, found, base, base + len(data), place)


def _place(piece: LogRange, export: LogExport, broker: str) -> ByteSource:
    name = file_name(piece.offset - piece.offset % export.file_bytes)
    return ByteSource(broker, name, False, (), piece.epoch, export.end)


class WholeRecords:
    """Cuts a stream of ranges where records end."""

    def __init__(self, export: LogExport, crc: bool) -> None:
        self._export = export
        self._crc = crc
        self._kept = b""
        self._skip_to = 0
        """Behind a filler nothing comes before the next file."""

    def add_range(
        self, piece: LogRange
    ) -> Iterator[tuple[bytes, int, list[RecordRun | LogDamage]]]:
        """(bytes, log offset of the first, what is in them); the rest waits for the next range."""
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
