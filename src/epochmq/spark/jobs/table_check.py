"""Checks one data file of an archive: bytes, pages, rows, bodies, and the messages in the topic."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from epochmq.base.needs import need
from epochmq.base.ports import Buffer
from epochmq.spark.jobs.archive_plan import Range
from epochmq.tables.archive_rows import CHECKSUM, POSITION, Span, position, spans, wrong_bodies
from epochmq.tables.archive_table import DataFile
from epochmq.tables.rewriting import conform
from epochmq.tables.storage import Storage

SHOWN = 5
"""The most positions that are named for each kind of fault in a file."""
_FETCHED_ROWS = 20_000

ReadTopic = Callable[[Range], Iterable[Buffer]]
"""Returns the raw records of a range that brokers still have, whole records in order."""


@dataclass
class FileCheck:
    """The result of the check of one file."""

    path: str
    rows: int = 0
    bytes: int = 0
    is_missing: bool = False
    damage: str = ""
    """Why the file's bytes are not sound; its rows were not read."""
    spans: list[Span] = field(default_factory=list)
    wrong_bodies: list[str] = field(default_factory=list)
    """Positions of the first bodies that do not match the checksum of the broker."""
    compared: int = 0
    """Rows that the topic has and that were compared."""
    expired: int = 0
    """Rows that the topic no longer has."""
    different: list[str] = field(default_factory=list)
    """Positions of the first rows that differ from the message in the topic."""


def check_file(
    storage: Storage, file: DataFile, topic_columns: Sequence[str], read: ReadTopic | None
) -> FileCheck:
    """Check a file; with `read`, compare its rows with the topic in the columns `topic_columns`.

    One row group is in memory at a time.
    """
    result = FileCheck(file.path, bytes=file.bytes)
    result.damage = bytes_damage(storage, file, result)
    if result.damage:
        return result
    parquet = need("pyarrow.parquet", "spark")
    try:
        with storage.fs.open(storage.url(file.path), "rb") as opened:
            source = parquet.ParquetFile(opened, page_checksum_verification=True)
            for group in range(source.num_row_groups):
                _check_rows(source.read_row_group(group), file, topic_columns, read, result)
    except (OSError, ValueError) as error:  # pyarrow's errors are kinds of these two
        result.damage = f"it cannot be read: {_first_line(error)}"
    if not result.damage and result.rows != file.rows:
        result.damage = f"it has {result.rows} rows, and the table says {file.rows}"
    return result


def bytes_damage(storage: Storage, file: DataFile, result: FileCheck) -> str:
    """Return why the file's bytes are not the ones that were written; "" if they are."""
    try:
        size = int(storage.fs.info(storage.url(file.path))["size"])
        if size != file.bytes:
            return f"it has {size} bytes, and the table says {file.bytes}"
        if file.sha256 and storage.sha256(file.path) != file.sha256:
            return "its SHA-256 is not the one of the bytes that were written"
    except FileNotFoundError:
        result.is_missing = True
        return "it is missing"
    except (OSError, ValueError) as error:  # damaged metadata may name an impossible path
        return f"it cannot be read: {_first_line(error)}"
    return ""


def _check_rows(
    rows: Any,
    file: DataFile,
    topic_columns: Sequence[str],
    read: ReadTopic | None,
    result: FileCheck,
) -> None:
    result.rows += rows.num_rows
    if set(rows.column_names) >= {*CHECKSUM, *POSITION}:
        wrong = wrong_bodies(rows)
        result.wrong_bodies += [position(rows, at) for at in wrong[:SHOWN]]
    if not set(rows.column_names) >= set(POSITION):
        return
    at = 0
    for span in spans(rows, file.topic):
        result.spans.append(span)
        count = span.end - span.start
        if read is not None:
            _compare(rows.slice(at, count), span, topic_columns, read, result)
        at += count


def _compare(
    rows: Any, span: Span, topic_columns: Sequence[str], read: ReadTopic, result: FileCheck
) -> None:
    """Compare rows of one span with the messages that the topic has at the same queue offsets."""
    wanted = rows.select(topic_columns)
    there = topic_rows(span, wanted.schema, read)
    if there.equals(wanted):
        result.compared += wanted.num_rows
        return
    known = {row["queueOffset"]: row for row in there.to_pylist()}
    for at, row in enumerate(wanted.to_pylist()):
        same = known.get(span.start + at)
        if same is None:
            result.expired += 1
            continue
        result.compared += 1
        if same != row:
            columns = [name for name in topic_columns if same[name] != row[name]]
            if len(result.different) < SHOWN:
                result.different.append(f"{position(rows, at)} ({', '.join(columns)})")


def topic_rows(span: Span, schema: Any, read: ReadTopic) -> Any:
    """Return the rows of a span that the topic has, in the columns and types of the table."""
    from epochmq.spark.decode import Decoder
    from epochmq.spark.decode_bodies import AS_STORED

    pa = need("pyarrow", "spark")
    is_raw = "properties" in schema.names and not pa.types.is_map(schema.field("properties").type)
    decoder = Decoder(schema.names, "raw" if is_raw else "map", bad_bodies=AS_STORED)
    bounds = (span.start, span.end)
    batches = [
        batch
        for records in read(Range(span.queue, *bounds))
        for batch in decoder.batches(records, span.queue.broker_name, _FETCHED_ROWS, bounds)
    ]
    return conform(pa.Table.from_batches(batches, decoder.schema), schema)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:200]
