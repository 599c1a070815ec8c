"""One task of an archive: fetches ranges, decodes them, writes Parquet files by topic and day.

A task commits nothing: readers see its files only after the driver's transaction names them. A
retry writes other files; those of the first attempt are orphans.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from epochmq.base.errors import OurBug, StoreDamaged
from epochmq.base.needs import need
from epochmq.base.ports import Buffer
from epochmq.model import record
from epochmq.spark.decode_heads import CorruptRecord
from epochmq.spark.jobs.archive_plan import Range
from epochmq.spark.typed import ERROR, NOT_TYPED, Typing
from epochmq.tables.archive_table import (
    STORE_DATE,
    DataFile,
    data_file_name,
    partition_path,
)
from epochmq.tables.column_bounds import ColumnBounds, footer_columns
from epochmq.tables.storage import HashedFile, Storage, clear_errors

ROWS = 10_000
"""Rows decoded at a time: more than for Spark's source, as no rows pass through the JVM."""
ROW_GROUP_BYTES = 32 * 1024 * 1024
OPEN_FILES_MAX = 16
"""The most files (days) that one task writes at a time; the least recently used is closed first."""
REPEATED = ("topic", "brokerName", "tags", "bornHost", "storeHost", STORE_DATE)
"""Columns with few values, which are written with dictionary encoding."""
FETCH_BYTES = 4 * 1024 * 1024

Fetch = Callable[[Range], Iterable[Buffer]]
"""Returns the raw records of a range, whole records in order."""


@dataclass(frozen=True)
class Work:
    """The parameters of every task of a batch; plain values, which can be pickled to executors."""

    batch: int
    root: str
    dead_root: str | None
    columns: tuple[str, ...] | None = None
    properties: str = "map"
    compression: str = "zstd"
    typing: Typing = NOT_TYPED


@dataclass
class TaskResult:
    """The result of a task for the driver."""

    files: list[DataFile] = field(default_factory=list)
    dead: list[DataFile] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    """Bytes of raw records that were read."""
    missing: int = 0
    """Queue offsets of the ranges without a message."""


def archive_ranges(work: Work, number: int, ranges: Iterable[Range], fetch: Fetch) -> TaskResult:
    """Write `ranges` to files and return the result; `number` is the task's number in the batch.

    Raises `StoreDamaged` for bytes that are not a record; the files written so far are deleted.
    """
    from epochmq.spark.decode import Decoder
    from epochmq.spark.decode_bodies import AS_STORED

    has_bodies = work.columns is None or "body" in work.columns
    decoder = Decoder(work.columns, work.properties, check_crc=has_bodies, bad_bodies=AS_STORED)
    typed = work.typing.parser()
    written = TaskResult()
    with clear_errors(work.root), ExitStack() as stack:
        good = stack.enter_context(Writer(work, work.root, number))
        dead = stack.enter_context(Writer(work, work.dead_root or work.root, number))
        for one in ranges:
            rows = 0
            for records in fetch(one):
                written.bytes += len(records)
                for batch in _decoded(decoder, records, one, rows):
                    rows += batch.num_rows
                    fits, fails = typed(batch)
                    good.write(one.queue.topic, fits)
                    dead.write(one.queue.topic, fails)
            written.rows += rows
            written.missing += len(one) - rows
            # A queue offset has one message: more would be duplicates in the table.
            if rows > len(one):
                raise OurBug(f"{one} gave {rows} messages")
        # Inside the block: closing may fail, and then no file may be reported.
        written.files, written.dead = good.finish(), dead.finish()
    return written


def _decoded(decoder: Any, records: Buffer, one: Range, before: int) -> Iterator[Any]:
    """Yield the rows of a chunk; `before` is the number of rows of the range in earlier chunks."""
    try:
        yield from decoder.batches(records, one.queue.broker_name, ROWS, (one.start, one.end))
    except CorruptRecord as fault:
        at, offset = fault.offset_in_buffer, one.start + before
        if at + record.OFFSET_AT <= len(records):
            claimed = record.queue_offset_at(records, at)
            offset = claimed if one.start <= claimed < one.end else offset
        raise StoreDamaged(
            f"{one.queue}: the message at queue offset {offset} is damaged: {fault.why}. Nothing of"
            " its batch is in the table; let a replica lead that has it whole, and run the same"
            " command again"
        ) from None


def schema_of(work: Work) -> Any:
    """Return the table's schema: decoded columns, typed columns, the day."""
    from epochmq.spark.decode import Decoder

    pa = need("pyarrow", "spark")
    plain = Decoder(work.columns, work.properties).schema
    return pa.schema([*plain, *work.typing.fields(), pa.field(STORE_DATE, pa.date32())])


def dead_schema_of(work: Work) -> Any:
    """Return the schema of the dead letters: decoded columns, the error, the day."""
    from epochmq.spark.decode import Decoder

    pa = need("pyarrow", "spark")
    plain = Decoder(work.columns, work.properties).schema
    return pa.schema([*plain, pa.field(ERROR, pa.string()), pa.field(STORE_DATE, pa.date32())])


class Partition(NamedTuple):
    topic: str
    store_date: str


class Writer:
    """Parquet files under one root, one for each topic and day; deleted again on an error."""

    def __init__(self, work: Work, root: str, number: int) -> None:
        self._work = work
        self._storage = Storage(root)
        self._number = number
        self._open: dict[Partition, _ParquetFile] = {}
        self._done: list[DataFile] = []

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: object, *_rest: object) -> None:
        for file in self._open.values():
            file.abandon()
        if kind is not None:
            for each in self._done:
                self._storage.remove(each.path)

    def write(self, topic: str, batch: Any) -> None:
        """Add rows, which may be of several days."""
        if batch is None or not batch.num_rows:
            return
        for day, rows in by_day(batch):
            self._file(Partition(topic, day)).add(rows)

    def _file(self, key: Partition) -> "_ParquetFile":
        found = self._open.pop(key, None)
        if found is None:
            if len(self._open) >= OPEN_FILES_MAX:
                self._done.append(self._open.pop(next(iter(self._open))).close())
            name = data_file_name(self._work.batch, self._number)
            path = f"{partition_path(key.topic, key.store_date)}/{name}"
            found = _ParquetFile(self._storage, path, key, self._work.compression)
        self._open[key] = found  # the last in order is the most recently used
        return found

    def finish(self) -> list[DataFile]:
        """Close all files and return them."""
        while self._open:
            self._done.append(self._open.pop(next(iter(self._open))).close())
        return self._done


class _ParquetFile:
    """One Parquet file that is being written."""

    def __init__(self, storage: Storage, path: str, key: Partition, compression: str) -> None:
        self._storage, self._path, self._key = storage, path, key
        self._compression = compression
        self._bounds = ColumnBounds()
        self._stack = ExitStack()
        self._writer: Any = None
        self._out: Any = None
        self._waiting: list[Any] = []
        self._waiting_bytes = 0
        self._rows = 0

    def add(self, batch: Any) -> None:
        self._rows += batch.num_rows
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= ROW_GROUP_BYTES:
            self._write()

    def _write(self) -> None:
        pa = need("pyarrow", "spark")
        table = pa.Table.from_batches(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        if self._writer is None:
            self._begin(table.schema)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._bounds.add(table)

    def _begin(self, schema: Any) -> None:
        pq = need("pyarrow.parquet", "spark")
        self._out = HashedFile(self._stack.enter_context(self._storage.create(self._path)))
        self._writer = pq.ParquetWriter(
            self._out,
            schema,
            compression=self._compression,
            use_dictionary=[name for name in REPEATED if name in schema.names],
            write_statistics=footer_columns(schema),
            write_page_checksum=True,
        )

    def close(self) -> DataFile:
        if self._waiting:
            self._write()
        self._writer.close()
        size, digest = self._out.tell(), self._out.sha256()
        self._stack.close()
        return DataFile(self._path, self._rows, size, *self._key, self._bounds.found, digest)

    def abandon(self) -> None:
        try:
            self._stack.close()
        except Exception:  # the disk may be full; what matters is that nothing names the file
            pass
        self._storage.remove(self._path)


def by_day(batch: Any) -> Iterator[tuple[str, Any]]:
    """Yield the rows with the column storeDate, one piece for each UTC day, in order."""
    pa, pc = need("pyarrow", "spark"), need("pyarrow.compute", "spark")
    days = batch.column("storeTimestamp").cast(pa.date32())
    whole = batch.append_column(STORE_DATE, days)
    for day in sorted(pc.unique(days).to_pylist()):
        same = pc.equal(days, pa.scalar(day, pa.date32()))
        rows = whole if pc.all(same).as_py() else whole.filter(same)
        yield day.isoformat(), rows
