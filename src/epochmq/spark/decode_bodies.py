"""Decompresses message bodies, and expands batches that are stored as one record.

A broker accepts any body with the compression flag. A body that cannot be decompressed is a
producer's mistake and no damage, since its checksum covers the stored bytes. One such message must
not stop a reader of its queue.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from epochmq.model.batch import BatchEntry, BatchError, decode
from epochmq.model.compression import BadBody, inflate
from epochmq.model.crc import crc32
from epochmq.model.sys_flag import COMPRESSED, COMPRESSION_MASK, INNER_BATCH, NEED_UNWRAP
from epochmq.spark import decode_heads as cells
from epochmq.spark.decode_heads import CorruptRecord, Flags, Rows

PLAIN_BYTES_MAX = 64 * 1024 * 1024
"""The most decompressed bytes in one batch; further bodies begin the next batch."""


AS_STORED, NULL, FAIL = BAD_BODIES = ("stored", "null", "fail")
"""Values for a body that cannot be decompressed; `fail` raises `CorruptRecord`."""


@dataclass(slots=True)
class Inflated:
    """Rows that fit into one batch, and the decompressed bodies of the compressed rows in order."""

    rows: Rows
    plain: list[bytes | None]
    bad: list[tuple[int, str]] = field(default_factory=list)
    """Queue offsets of the rows whose bodies could not be decompressed, and the reason."""


def inflated(
    rows: Rows, limit: int = PLAIN_BYTES_MAX, bad_bodies: str = FAIL
) -> Iterator[Inflated]:
    """Yield all `rows` in pieces, each with at most `limit` decompressed bytes, or one body.

    `bad_bodies` selects the value for a body that cannot be decompressed; FAIL raises
    `CorruptRecord` after the rows before it. `CodecMissing` is passed on.
    """
    begin, size = 0, 0
    plain: list[bytes | None] = []
    bad: list[tuple[int, str]] = []
    for at in np.flatnonzero(rows.sys_flag & COMPRESSED).tolist():
        stored = rows.raw[rows.body_at[at] : rows.body_to[at]].tobytes()
        body: bytes | None
        fault: tuple[int, str] | None = None
        try:
            body = inflate(stored, int(rows.sys_flag[at]))
        except BadBody as error:
            if bad_bodies == FAIL:
                yield Inflated(rows.pick(slice(begin, at)), plain, bad)
                resume_at = int(rows.end[at])
                raise CorruptRecord(int(rows.at[at]), str(error), resume_at=resume_at) from None
            fault = int(rows.head["queueOffset"][at]), str(error)
            body = stored if bad_bodies == AS_STORED else None
        added = 0 if body is None else len(body)
        if size + added > limit and at > begin:
            yield Inflated(rows.pick(slice(begin, at)), plain, bad)
            begin, size, plain, bad = at, 0, [], []
        size += added
        plain.append(body)
        if fault is not None:
            bad.append(fault)
    yield Inflated(rows.pick(slice(begin, len(rows))), plain, bad)


def bodies(rows: Rows, plain: list[bytes | None]) -> pa.BinaryArray:
    """Return the bodies; those of compressed rows come from `plain` when it is not empty."""
    stored = cells.binary(rows.raw, rows.body_at, rows.body_to)
    return replaced(stored, rows, plain)


def replaced(stored: pa.BinaryArray, rows: Rows, plain: list[bytes | None]) -> pa.BinaryArray:
    """Return the `stored` bodies of `rows` with those of compressed rows replaced from `plain`."""
    if not plain:
        return stored
    squeezed = pa.array((rows.sys_flag & COMPRESSED) != 0)
    return pc.replace_with_mask(stored, squeezed, pa.array(plain, pa.binary()))


# Decode inner --------------------------------------------------------------------------------
# Expands batches that are stored as one record into one record per message.  Message k has the
# record's queue offset + k, its topic, hosts and times, and its own flag, body and properties
# (`model.batch.unwrap`). The expanded records are then decoded like all others.


WRAPPED = NEED_UNWRAP | INNER_BATCH
INNER_BYTES_MAX = 16 * 1024 * 1024
"""The most bytes of expanded records in one piece, unless one batch is larger."""
_TOPICS_BYTES_MAX = 32 * 1024 * 1024
"""Each expanded message repeats the topic's name; valid names have 255 bytes at most."""
_CLEARED = ~(WRAPPED | COMPRESSED | COMPRESSION_MASK)
_U32 = struct.Struct(">I")
_FRONT = struct.Struct(">IIIiiqqi")
_U16 = struct.Struct(">H")


def wrapped(rows: Rows) -> Flags:
    """Return which rows are batches."""
    found: Flags = (rows.sys_flag & WRAPPED) == WRAPPED
    return found


@dataclass(slots=True)
class PlainRun:
    """Consecutive expanded records, and the row of `rows` from which each part comes."""

    data: bytes
    ends: list[int]
    rows: Rows
    first: int

    def origin(self, fault: CorruptRecord) -> CorruptRecord:
        """Convert a fault found in `data` to one at the stored record."""
        at = self.first + bisect_right(self.ends, fault.offset_in_buffer)
        start, end = int(self.rows.at[at]), int(self.rows.end[at])
        return CorruptRecord(start, fault.why, fault.kind, resume_at=end)


def written_out(rows: Rows, limit: int = INNER_BYTES_MAX) -> Iterator[PlainRun]:
    """Yield all `rows` as runs of expanded records.

    Raises `CorruptRecord` at an invalid batch, after the rows before it.
    """
    parts: list[bytes] = []
    ends: list[int] = []
    first = 0
    for begin, end, is_batch in _runs(rows):
        size = ends[-1] if ends else 0
        try:
            part = _messages(rows, begin) if is_batch else _bytes(rows, begin, end)
        except (BatchError, BadBody, struct.error) as error:
            yield PlainRun(b"".join(parts), ends, rows, first)
            start, stop = int(rows.at[begin]), int(rows.end[begin])
            raise CorruptRecord(start, f"its inner batch: {error}", resume_at=stop) from None
        parts.append(part)
        if is_batch:
            ends.append(size + len(part))
        else:
            ends += (rows.end[begin:end] - rows.at[begin] + size).tolist()
        if ends[-1] >= limit:
            yield PlainRun(b"".join(parts), ends, rows, first)
            parts, ends, first = [], [], end
    yield PlainRun(b"".join(parts), ends, rows, first)


def _runs(rows: Rows) -> Iterator[tuple[int, int, bool]]:
    """Yield (begin, end, is a batch) of each batch, and of each run of adjacent other records."""
    batch = wrapped(rows)
    starts = np.ones(len(rows), bool)
    starts[1:] = batch[1:] | batch[:-1] | (rows.at[1:] != rows.end[:-1])
    begins = np.flatnonzero(starts)
    ends = np.append(begins[1:], len(rows))
    yield from zip(begins.tolist(), ends.tolist(), batch[begins].tolist(), strict=True)


def _bytes(rows: Rows, begin: int, end: int) -> bytes:
    return rows.raw[rows.at[begin] : rows.end[end - 1]].tobytes()


def _messages(rows: Rows, at: int) -> bytes:
    record, shift = _bytes(rows, at, at + 1), int(rows.at[at])
    head = record[: int(rows.body_at[at]) - shift]
    body = record[len(head) : int(rows.body_to[at]) - shift]
    topic = record[int(rows.body_to[at]) - shift : int(rows.topic_to[at]) - shift]
    entries = decode(inflate(body, int(rows.sys_flag[at])))
    if len(entries) * len(topic) > _TOPICS_BYTES_MAX:
        raise BatchError(f"{len(entries)} messages of a topic with a name of {len(topic)} bytes")
    return b"".join(_record(head, topic, entry, k) for k, entry in enumerate(entries))


def _record(head: bytes, topic: bytes, entry: BatchEntry, k: int) -> bytes:
    """Return one message as a record; `topic` includes its length."""
    _, magic, _, queue_id, _, queue_offset, offset, flags = _FRONT.unpack_from(head)
    size = len(head) + len(entry.body) + len(topic) + 2 + len(entry.properties)
    front = _FRONT.pack(
        size,
        magic,
        crc32(entry.body),
        queue_id,
        entry.flag,
        queue_offset + k,
        offset,
        flags & _CLEARED,
    )
    return b"".join(
        (
            front,
            head[_FRONT.size : -_U32.size],
            _U32.pack(len(entry.body)),
            entry.body,
            topic,
            _U16.pack(len(entry.properties)),
            entry.properties,
        )
    )
