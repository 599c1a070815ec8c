"""Decodes raw records, from pulls, bulk reads and log files, into Arrow batches.

Many records are decoded at once, in windows of the buffer. Only compressed bodies and batches
stored as one record are handled one by one. The results equal those of `model.record.decode` for
each record; tests compare the two.

There are two decoders: numpy decodes every record, and native code decodes windows of ordinary
records several times faster (docs/adr/0038, 0057).
"""

import logging
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from epochmq.base.errors import UsageError
from epochmq.base.ports import Buffer
from epochmq.model.crc import crc32
from epochmq.model.sys_flag import COMPRESSED, INNER_BATCH, TX_PREPARED
from epochmq.native.library import Library
from epochmq.spark import columns as cols
from epochmq.spark import decode_bodies, decode_columns
from epochmq.spark.decode_heads import Bytes, CorruptRecord, Rows, address, chase, follow, read
from epochmq.spark.decode_native import ALL_OFFSETS, DecodedBatch, Whole, library, whole

log = logging.getLogger(__name__)

__all__ = ["CorruptRecord", "Decoder", "chase"]

ROWS = 2000
"""Default number of rows in a batch: fastest for decoding and for Spark."""
ROWS_MAX = 1_000_000
WINDOW_BYTES = 2 * 1024 * 1024
"""The bytes of the buffer in which records are searched at a time.

A window should fit into a core's cache: with 4 MiB copying the bodies takes a third longer, and
with 1 MiB batches of 1 KiB rows are small.
"""
BATCH_BYTES_MAX = 64 * 1024 * 1024
"""The most bytes of records in one batch, unless a single record is larger."""


class Decoder:
    """Decodes records into a fixed set of columns; keeps no state between calls. Thread-safe.

    With `check_crc` each body is compared with its checksum. `bad_bodies` is the value for a body
    that is marked as compressed and cannot be decompressed: `stored` (the stored bytes), `null`, or
    `fail`, which raises `CorruptRecord`. Half messages and rolled-back ones never become rows.
    """

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        properties: str = "map",
        decompress: bool = True,
        check_crc: bool = False,
        bad_bodies: str = decode_bodies.FAIL,
    ) -> None:
        self._names = cols.chosen(columns, properties)
        self._raw_properties = properties == "raw"
        self._inflates = decompress and "body" in self._names
        self._check_crc = check_crc
        self._bad_bodies = bad_bodies
        self.schema: pa.Schema = cols.schema(self._names, properties)

    def batches(
        self,
        records: Buffer,
        broker_name: str,
        rows: int = ROWS,
        queue_offsets: tuple[int, int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most `rows` rows in the buffer's order; no batch is empty.

        `records` are whole records one after the other; fillers are skipped. `queue_offsets` (from,
        to), half-open, leaves out rows outside the range, which a batch stored as one record may
        contain. Raises `CorruptRecord` at a record that is not sound, after all rows before it.
        """
        if not 1 <= rows <= ROWS_MAX:
            raise UsageError(f"rows a batch must be within 1..{ROWS_MAX}, not {rows}")
        raw = np.frombuffer(memoryview(records).cast("B"), np.uint8)
        yield from self._rows(raw, broker_name, rows, queue_offsets)

    def _rows(
        self, raw: Bytes, broker_name: str, most: int, only: tuple[int, int] | None
    ) -> Iterator[pa.RecordBatch]:
        """Decode windows of ordinary records by native code, and the others by numpy."""
        native = library()
        ordinary = whole(self._names, self._raw_properties, most, broker_name) if native else None
        at = 0
        while at < len(raw):
            window = (
                _decode_window(native, ordinary, raw, at, only) if native and ordinary else None
            )
            if native and window:
                if self._check_crc and not native.bodies(address(raw[at:]), window.end - at):
                    ordinary = None  # decode by numpy, up to the damaged record
                    continue
                if self._inflates and window.flags & COMPRESSED:
                    walk = follow(raw.data, at, window.end)
                    rows, _ = read(raw, walk.at, walk.sizes)
                    rows = _asked(_without_half(rows), only)
                    yield from self._inflated(rows, broker_name, window.batch)
                else:
                    yield window.batch
                at = window.end
                continue
            walk = follow(raw.data, at, at + WINDOW_BYTES)
            rows, fault = read(raw, walk.at, walk.sizes)
            fault = fault or walk.fault
            if self._check_crc:
                rows, fault = _checked(rows, fault)
            for part in _split(_without_half(rows), most):
                yield from self._plain_rows(part, broker_name, most, only)
            if fault:
                raise fault
            at = walk.stop

    def _plain_rows(
        self, rows: Rows, broker_name: str, most: int, only: tuple[int, int] | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of `rows`, after expanding batches that are stored as one record."""
        if not rows.any_flag & INNER_BATCH or not decode_bodies.wrapped(rows).any():
            yield from self._made(rows, broker_name, only)
            return
        for piece in decode_bodies.written_out(rows):
            try:
                yield from self._rows(np.frombuffer(piece.data, np.uint8), broker_name, most, only)
            except CorruptRecord as fault:
                raise piece.origin(fault) from None

    def _made(
        self, rows: Rows, broker_name: str, only: tuple[int, int] | None
    ) -> Iterator[pa.RecordBatch]:
        rows = _asked(rows, only)
        if self._inflates and rows.any_flag & COMPRESSED:
            yield from self._inflated(rows, broker_name)
        else:
            yield from self._batch(rows, [], broker_name)

    def _inflated(
        self, rows: Rows, broker_name: str, stored: pa.RecordBatch | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of `rows` with decompressed bodies; `stored` has these rows with stored
        bodies.
        """
        begin = 0
        for done in decode_bodies.inflated(rows, bad_bodies=self._bad_bodies):
            for offset, why in done.bad[:1]:
                log.warning(
                    "%(bodies)d bodies that say they are compressed cannot be decompressed, the"
                    " first at %(broker_name)s, queue offset %(offset)d: %(why)s",
                    {
                        "bodies": len(done.bad),
                        "broker_name": broker_name,
                        "offset": offset,
                        "why": why,
                    },
                )
            if stored is None:
                yield from self._batch(done.rows, done.plain, broker_name)
            elif len(done.rows):
                part = stored.slice(begin, len(done.rows))
                begin += len(done.rows)
                arrays = dict(zip(self._names, part.columns, strict=True))
                arrays["body"] = decode_bodies.replaced(arrays["body"], done.rows, done.plain)
                yield pa.RecordBatch.from_arrays(list(arrays.values()), schema=self.schema)

    def _batch(
        self, rows: Rows, plain: list[bytes | None], broker_name: str
    ) -> Iterator[pa.RecordBatch]:
        if len(rows):
            part = decode_columns.BatchRows(rows, plain, broker_name, self._raw_properties)
            arrays = [decode_columns.build(name, part) for name in self._names]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _decode_window(
    native: Library, ordinary: Whole, raw: Bytes, at: int, only: tuple[int, int] | None
) -> DecodedBatch | None:
    """Decode the next window by native code; None when numpy has to decode it."""
    return ordinary.decode(
        native,
        raw,
        at,
        at + WINDOW_BYTES,
        skip_flags=TX_PREPARED,
        stop_flags=INNER_BATCH,
        offsets=only or ALL_OFFSETS,
    )


def _without_half(rows: Rows) -> Rows:
    """Return the rows without half messages and rolled-back ones."""
    if not rows.any_flag & TX_PREPARED:
        return rows
    return rows.pick((rows.sys_flag & TX_PREPARED) == 0)


def _asked(rows: Rows, only: tuple[int, int] | None) -> Rows:
    """Return the rows within the queue offsets (from, to)."""
    if only is None:
        return rows
    offsets = rows.head["queueOffset"].astype(np.int64)
    return rows.pick((offsets >= only[0]) & (offsets < only[1]))


def _split(rows: Rows, most: int) -> Iterator[Rows]:
    """Split rows into parts of about equal size, of at most `most` rows and BATCH_BYTES_MAX
    bytes.
    """
    begin, count = 0, len(rows)
    if 0 < count <= most and rows.end[-1] - rows.at[0] <= BATCH_BYTES_MAX:
        yield rows
        return
    if count:
        most = -(-count // -(-count // most))
    while begin < count:
        reach = np.searchsorted(rows.end, rows.at[begin] + BATCH_BYTES_MAX, "right")
        end = max(begin + 1, min(begin + most, int(reach)))
        yield rows.pick(slice(begin, end))
        begin = end


def _checked(rows: Rows, fault: CorruptRecord | None) -> tuple[Rows, CorruptRecord | None]:
    """Return the rows before the first body that does not match its checksum, and that fault."""
    view = rows.raw.data
    crcs = rows.head["bodyCRC"].view(">u4").tolist()
    spans = zip(rows.body_at.tolist(), rows.body_to.tolist(), crcs, strict=True)
    for at, (start, end, crc) in enumerate(spans):
        if crc32(view[start:end]) != crc:
            why = f"its body does not fit its checksum {crc}"
            bad = CorruptRecord(int(rows.at[at]), why, resume_at=int(rows.end[at]))
            return rows.pick(slice(at)), bad
    return rows, fault
