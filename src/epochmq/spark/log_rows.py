"""Converts raw log bytes to Arrow rows: the message's columns, and where its bytes were found."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from epochmq.base.errors import StoreDamaged, UsageError
from epochmq.spark import columns
from epochmq.spark.decode import CorruptRecord, Decoder
from epochmq.spark.log_files import EpochSpan
from epochmq.spark.log_options import LogOptions
from epochmq.spark.log_plan import LogSplit, advice
from epochmq.spark.log_scan import Bytes, LogDamage, RecordRun, scan

DAMAGE = "damage"
_OFFSET = "commitLogOffset"
_DAMAGE_TYPE = pa.struct([("start", pa.int64()), ("end", pa.int64()), ("why", pa.string())])
EXTRA: dict[str, tuple[pa.DataType, str]] = {
    "epoch": (pa.int32(), "int"),
    "file": (pa.string(), "string"),
    "replica": (pa.string(), "string"),
    "cut": (pa.bool_(), "boolean"),
    "confirmed": (pa.bool_(), "boolean"),
    DAMAGE: (_DAMAGE_TYPE, "struct<start:bigint,end:bigint,why:string>"),
}
"""Columns in addition to the message's; `damage` exists only with onCorrupt=report."""


@dataclass(frozen=True)
class ByteSource:
    """The origin of bytes, which is the same for all rows of a split."""

    replica: str
    file: str
    cut: bool
    epochs: tuple[EpochSpan, ...]
    epoch: int | None
    """The epoch of all bytes when `epochs` is empty."""
    confirmed: int | None
    """The confirmed log offset, if known."""


def place_of(split: LogSplit) -> ByteSource:
    file = split.file
    return ByteSource(split.replica, file.path, file.cut, split.epochs, file.epoch, split.confirmed)


def chosen_columns(options: LogOptions) -> list[str]:
    """Return the selected columns in order; raises `UsageError` for one that does not exist."""
    known = [*columns.NAMES, *EXTRA] if options.reports else [*columns.NAMES, *EXTRA][:-1]
    wanted = options.column_names or known
    if options.reports and DAMAGE not in wanted:
        wanted = [*wanted, DAMAGE]
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" (did you mean '{near[0]}'?)" if near else ""
            raise UsageError(f"there is no column '{name}'{hint}; there are {', '.join(known)}")
        if wanted.count(name) > 1:
            raise UsageError(f"column {name!r} is asked for twice; name it once")
    return [n for n in wanted if n != "properties" or options.properties != "none"]


def ddl(options: LogOptions) -> str:
    """Return the schema of the rows as Spark DDL."""
    return ", ".join(
        f"{name} {EXTRA[name][1]}" if name in EXTRA else columns.ddl([name], options.properties)
        for name in chosen_columns(options)
    )


def arrow_schema(options: LogOptions) -> pa.Schema:
    """Return the schema of the rows for Arrow."""
    return pa.schema(
        [
            pa.field(name, EXTRA[name][0])
            if name in EXTRA
            else columns.schema([name], options.properties).field(0)
            for name in chosen_columns(options)
        ]
    )


class RowMaker:
    """Converts the results of `scan` to Arrow batches."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self.schema = arrow_schema(options)
        self._topics = pa.array(options.topics, pa.string()) if options.topics else None
        wanted = [name for name in self.schema.names if name not in EXTRA]
        if self._topics is not None and "topic" not in wanted:
            wanted.append("topic")
        if _OFFSET not in wanted:
            wanted.append(_OFFSET)  # needed for epochs, and not part of the rows
        self._decoder = Decoder(wanted, options.properties, options.decompress)

    def split(self, split: LogSplit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one split."""
        place = place_of(split)
        for damage in split.damaged:
            yield from self.damaged(damage, place)
        if split.start < split.stop:
            file = split.file
            data = file.open()
            pieces = scan(
                data,
                file.start,
                split.start,
                split.stop,
                file_end=file.file_end,
                crc=self._options.check_crc,
            )
            yield from self.rows(data, file.start, pieces, split.low, split.high, place)

    def rows(
        self,
        data: Bytes,
        base: int,
        pieces: Iterable[RecordRun | LogDamage],
        low: int,
        high: int,
        place: ByteSource,
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows of the records in `data` that begin in `[low, high)`, and of damage.

        `base` is the log offset of the first byte of `data`; `pieces` are the results of `scan`.
        """
        for piece in pieces:
            if piece.start >= high:
                return
            if isinstance(piece, RecordRun):
                yield from self._run(data, base, piece, low, high, place)
            elif piece.end > low:
                yield from self.damaged(piece, place)

    def _run(
        self, data: Bytes, base: int, run: RecordRun, low: int, high: int, place: ByteSource
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows of sound records; a record that cannot be decoded is reported as damage."""
        first, last = np.searchsorted(run.offsets, (low, high)).tolist()
        borders = np.append(run.offsets, run.end)
        name = self._options.broker_name or place.replica
        while first < last:
            begin = int(borders[first])
            raw = memoryview(data)[begin - base : int(borders[last]) - base]
            try:
                for batch in self._decoder.batches(raw, name):
                    yield from self._finish(batch, place)
                return
            except CorruptRecord as error:
                at = begin + error.offset_in_buffer
                first = int(np.searchsorted(borders, at, side="right"))
                damage = LogDamage(int(borders[first - 1]), int(borders[first]), error.why)
            yield from self.damaged(damage, place)

    def _finish(self, batch: pa.RecordBatch, place: ByteSource) -> Iterator[pa.RecordBatch]:
        if self._topics is not None:
            batch = batch.filter(pc.is_in(batch.column("topic"), value_set=self._topics))
        if batch.num_rows:
            offsets = batch.column(_OFFSET).to_numpy()
            arrays = [
                _extra(name, offsets, place) if name in EXTRA else batch.column(name)
                for name in self.schema.names
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def damaged(self, damage: LogDamage, place: ByteSource) -> Iterator[pa.RecordBatch]:
        """Handle damaged bytes as option onCorrupt says: raise, skip, or yield a row."""
        if self._options.on_corrupt == "fail":
            raise StoreDamaged(f"{place.file}: {damage}; {advice()}")
        if not self._options.reports:
            return
        row = {
            **dict.fromkeys(self.schema.names),
            "file": place.file,
            "replica": place.replica,
            "cut": place.cut,
            DAMAGE: {"start": damage.start, "end": damage.end, "why": damage.why},
        }
        values = {name: [row[name]] for name in self.schema.names}
        yield pa.RecordBatch.from_pydict(values, schema=self.schema)


def _extra(name: str, offsets: Any, place: ByteSource) -> pa.Array:
    """Return the column `name` for records at these log offsets."""
    kind = EXTRA[name][0]
    if name == "epoch":
        return _epochs_at(offsets, place)
    if name == "confirmed" and place.confirmed is not None and not place.cut:
        return pa.array(offsets < place.confirmed, kind)
    value = getattr(place, name) if name in ("file", "replica", "cut") else None
    if value is None:
        return pa.nulls(len(offsets), kind)
    return pa.repeat(pa.scalar(value, kind), len(offsets))


def _epochs_at(offsets: Any, place: ByteSource) -> pa.Array:
    if not place.epochs:
        return pa.array([place.epoch] * len(offsets), pa.int32())
    starts = np.array([start for _, start, _ in place.epochs])
    numbers = np.array([epoch for epoch, _, _ in place.epochs], dtype=np.int32)
    index: Any = np.searchsorted(starts, offsets, side="right") - 1
    return pa.array(numbers[np.maximum(index, 0)], pa.int32(), mask=index < 0)


def only(names: Sequence[str], options: LogOptions) -> LogOptions:
    """Return the options with the columns of the user's schema.

    Raises `UsageError` for unknown columns, and when column damage is missing with
    onCorrupt=report.
    """
    if list(names) == chosen_columns(options):
        return options
    if options.reports and DAMAGE not in names:
        raise UsageError("with onCorrupt=report the schema needs the column damage")
    chosen_columns(narrowed := replace(options, columns=",".join(names)))
    return narrowed
