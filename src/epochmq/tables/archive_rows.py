"""Rows of an archive: which messages they are, and whether their bodies are whole."""

import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from epochmq.base.needs import need
from epochmq.model.sys_flag import COMPRESSED
from epochmq.model.topic import MessageQueue
from epochmq.tables.archive_table import DataFile
from epochmq.tables.storage import Storage

POSITION = ("brokerName", "queueId", "queueOffset")
CHECKSUM = ("body", "bodyCRC", "sysFlag")
_CRC_MASK = 0x7FFFFFFF


class Span(NamedTuple):
    """Queue offsets `[start, end)` of one queue, which are rows next to each other in a file."""

    queue: MessageQueue
    start: int
    end: int


def spans(rows: Any, topic: str) -> Iterator[Span]:
    """Yield the runs of rows with consecutive queue offsets of one queue, in order."""
    if not rows.num_rows:
        return
    brokers = rows.column("brokerName").combine_chunks().dictionary_encode()
    names, numbers = brokers.dictionary.to_pylist(), brokers.indices.to_numpy()
    queue_ids = rows.column("queueId").to_numpy()
    offsets = rows.column("queueOffset").to_numpy()
    breaks = (np.diff(offsets) != 1) | (np.diff(queue_ids) != 0) | (np.diff(numbers) != 0)
    starts = [0, *(np.flatnonzero(breaks) + 1).tolist()]
    for first, last in zip(starts, [*starts[1:], rows.num_rows], strict=True):
        queue = MessageQueue(topic, names[numbers[first]], int(queue_ids[first]))
        yield Span(queue, int(offsets[first]), int(offsets[last - 1]) + 1)


def file_spans(storage: Storage, file: DataFile) -> list[Span]:
    """Read which queue offsets the rows of a file are."""
    parquet = need("pyarrow.parquet", "spark")
    with storage.fs.open(storage.url(file.path), "rb") as opened:
        source = parquet.ParquetFile(opened, page_checksum_verification=True)
        return [
            span
            for group in range(source.num_row_groups)
            for span in spans(source.read_row_group(group, list(POSITION)), file.topic)
        ]


def wrong_bodies(rows: Any) -> list[int]:
    """Return the numbers of the rows whose body does not match `bodyCRC`.

    Bodies that were compressed are stored decompressed, and their checksum is that of the
    compressed body, so they are not checked.
    """
    bodies = rows.column("body").to_pylist()
    sums, flags = rows.column("bodyCRC").to_pylist(), rows.column("sysFlag").to_pylist()
    return [
        at
        for at, (body, crc, flag) in enumerate(zip(bodies, sums, flags, strict=True))
        if body is not None
        and crc
        and not (flag or 0) & COMPRESSED
        and zlib.crc32(body) & _CRC_MASK != crc
    ]


def position(rows: Any, at: int) -> str:
    """Return `broker:queueId:queueOffset` of a row."""
    return ":".join(str(rows.column(name)[at].as_py()) for name in POSITION)
