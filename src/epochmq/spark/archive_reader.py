"""Reads the messages of an archive by queue and queue offset, for a source that goes back further
than the brokers do.

A reader belongs to one process. It opens the table when it is first used, and again when a file
that it knows is gone (a compaction) or a range is newer than what it knows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from epochmq.base.errors import StoreDamaged, UsageError
from epochmq.model.queue_offsets import Offsets, from_topics
from epochmq.model.topic import MessageQueue
from epochmq.spark import columns
from epochmq.spark.options import ArchiveAddress
from epochmq.spark.plan import Bounds
from epochmq.tables.archive_rows import (
    CHECKSUM,
    POSITION,
    Span,
    file_spans,
    position,
    spans,
    wrong_bodies,
)
from epochmq.tables.archive_table import DataFile, TransactionMark
from epochmq.tables.opening import AnyTable, open_table
from epochmq.tables.rewriting import conform

OPENINGS_MAX = 3
"""How often a read opens the table again because a compaction has replaced files."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one row group that are consecutive queue offsets of one queue."""

    span: Span
    file: DataFile
    group: int
    first_row: int


class ArchiveReader:
    """Reads one archive; `check_crc` compares bodies with the checksums of the broker."""

    def __init__(self, address: ArchiveAddress, check_crc: bool = True) -> None:
        self._address = address
        self._check_crc = check_crc
        self._table: AnyTable | None = None
        self._files: list[DataFile] = []
        self._begins: Offsets | None = None
        self._last: tuple[str, int, tuple[str, ...], pa.Table] | None = None

    @property
    def table(self) -> AnyTable:
        """The table in the version that this reader opened last."""
        if self._table is None:
            self._open()
        assert self._table is not None, "it was opened"
        return self._table

    def _open(self) -> None:
        address = self._address
        self._table = open_table(address.uri, name=address.name, catalog=address.catalog)
        self._files = self._table.data_files()
        self._last = None

    def _known_files(self) -> list[DataFile]:
        if self._table is None:
            self._open()
        return self._files

    @property
    def mark(self) -> TransactionMark:
        """The last transaction; raises `UsageError` for a table without one."""
        mark = self.table.mark
        if mark is None:
            raise UsageError(f"no archive has written to {self._address.uri} yet")
        return mark

    def check(self, names: Sequence[str], properties: str) -> None:
        """Raise `UsageError` when the table cannot give these columns in this form."""
        schema = self.table.schema()
        for name in (*POSITION, *names):
            if name not in schema.names:
                raise UsageError(f"the archive {self._address.uri} has no column {name}")
        if "properties" in names:
            kept = "map" if pa.types.is_map(schema.field("properties").type) else "raw"
            if kept != properties:
                raise UsageError(
                    f"the archive {self._address.uri} has properties={kept}, and the query wants"
                    f" {properties}: use the option properties={kept}"
                )

    def bounds(self) -> Bounds:
        """Return, by queue, the first archived queue offset and the one after the last."""
        ends, begins = from_topics(self.mark.offsets), from_topics(self.mark.begin)
        missing = ends.keys() - begins.keys()
        if missing:
            begins = {**self._first_rows(), **begins}
        return {queue: (begins.get(queue, end), end) for queue, end in ends.items()}

    def _first_rows(self) -> Offsets:
        """Return the first queue offset of each queue from the rows of all files."""
        if self._begins is None:
            self._begins = {}
            for file in self._known_files():
                for span in file_spans(self.table.storage, file):
                    known = self._begins.get(span.queue, span.start)
                    self._begins[span.queue] = min(known, span.start)
        return self._begins

    def offsets_at(self, times: Mapping[MessageQueue, int]) -> Offsets:
        """Return the first archived queue offset of each queue stored at a time (wall ms) or later.

        Queues without such a message are left out.
        """
        found: Offsets = {}
        for file in self._known_files():
            wanted = {queue: ms for queue, ms in times.items() if queue.topic == file.topic}
            if wanted:
                rows = self._read_file(file, (*POSITION, "storeTimestamp"))
                for queue, ms in wanted.items():
                    self._earliest(rows, queue, ms, found)
        return found

    @staticmethod
    def _earliest(rows: pa.Table, queue: MessageQueue, ms: int, found: Offsets) -> None:
        at = pa.scalar(ms * 1000, pa.timestamp("us", tz="UTC"))
        mine = pc.and_(
            pc.equal(rows["brokerName"], queue.broker_name),
            pc.equal(rows["queueId"], queue.queue_id),
        )
        later = pc.greater_equal(rows["storeTimestamp"].cast(at.type), at)
        lowest = pc.min(rows["queueOffset"].filter(pc.and_(mine, later))).as_py()
        if lowest is not None:
            found[queue] = min(found.get(queue, lowest), lowest)

    def batches(
        self,
        queue: MessageQueue,
        start: int,
        stop: int,
        names: Sequence[str],
        properties: str = "map",
        row_count: int = 2_000,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the archived rows of queue offsets `start` to `stop` (exclusive), in order, once.

        Offsets that the archive does not have are left out. Raises `StoreDamaged` for bytes that
        the archive did not write.
        """
        at, openings = start, 0
        while at < stop:
            try:
                for part in self._parts(queue, at, stop):
                    low, high = max(at, part.span.start), min(stop, part.span.end)
                    if low < high:
                        yield from self._rows(part, low, high, names, properties, row_count)
                        at = high
                return
            except FileNotFoundError:
                openings += 1
                if openings == OPENINGS_MAX:
                    raise
                self._open()

    def _parts(self, queue: MessageQueue, start: int, stop: int) -> list[Part]:
        """Return the parts with rows of the range, in the order of queue offsets."""
        if from_topics(self.mark.offsets).get(queue, 0) < stop:
            self._open()
        found = [
            part
            for file in self._files
            if file.topic == queue.topic and _may_have(file.stats.get("queueOffset"), start, stop)
            for part in self._parts_of(file, queue, start, stop)
        ]
        return sorted(found, key=lambda part: (part.span.start, -part.span.end))

    def _parts_of(
        self, file: DataFile, queue: MessageQueue, start: int, stop: int
    ) -> Iterator[Part]:
        """Yield the parts of one file with rows of the range, from the columns that say which
        messages its rows are.
        """
        storage = self.table.storage
        with storage.fs.open(storage.url(file.path), "rb") as opened:
            source = pq.ParquetFile(opened, page_checksum_verification=True)
            for group in range(source.num_row_groups):
                if not _group_may_have(source.metadata, group, start, stop):
                    continue
                first = 0
                for span in spans(source.read_row_group(group, list(POSITION)), file.topic):
                    count = span.end - span.start
                    if span.queue == queue and span.start < stop and span.end > start:
                        yield Part(span, file, group, first)
                    first += count

    def _read_file(self, file: DataFile, names: Sequence[str]) -> pa.Table:
        storage = self.table.storage
        with storage.fs.open(storage.url(file.path), "rb") as opened:
            source = pq.ParquetFile(opened, page_checksum_verification=True)
            return source.read(list(names))

    def _rows(
        self,
        part: Part,
        low: int,
        high: int,
        names: Sequence[str],
        properties: str,
        row_count: int,
    ) -> Iterator[pa.RecordBatch]:
        table = self._group(part, names)
        rows = table.slice(part.first_row + low - part.span.start, high - low)
        wanted = columns.schema(names, properties)
        yield from conform(rows, wanted).to_batches(max_chunksize=row_count)

    def _group(self, part: Part, names: Sequence[str]) -> pa.Table:
        """Return columns of a row group, and keep the last group: the next part is often in it."""
        schema = set(self.table.schema().names)
        checked = self._check_crc and "body" in names and schema >= {*CHECKSUM, *POSITION}
        needed = tuple(dict.fromkeys((*names, *(CHECKSUM if checked else ()), *POSITION)))
        key = (part.file.path, part.group, needed)
        if self._last is None or self._last[:3] != key:
            storage = self.table.storage
            with storage.fs.open(storage.url(part.file.path), "rb") as opened:
                source = pq.ParquetFile(opened, page_checksum_verification=True)
                there = [name for name in needed if name in source.schema_arrow.names]
                table = source.read_row_group(part.group, there)
            if checked and (wrong := wrong_bodies(table)):
                raise StoreDamaged(
                    f"the archive {self._address.uri} is damaged: in {part.file.path} the body at"
                    f" {position(table, wrong[0])} does not fit bodyCRC. Repair it by `epochmq"
                    " pipeline repair`"
                )
            self._last = (*key, table)
        return self._last[3]


def _may_have(bounds: Sequence[Any] | None, start: int, stop: int) -> bool:
    """Return whether `[minimum, maximum]` overlaps the range; without bounds it may."""
    return not bounds or (int(bounds[0]) < stop and int(bounds[1]) >= start)


def _group_may_have(metadata: Any, group: int, start: int, stop: int) -> bool:
    found = metadata.row_group(group)
    for at in range(found.num_columns):
        column = found.column(at)
        if column.path_in_schema == "queueOffset" and column.is_stats_set:
            return _may_have([column.statistics.min, column.statistics.max], start, stop)
    return True
