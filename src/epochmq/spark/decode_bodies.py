"""Bodies, inflated where their record says that they are compressed."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from epochmq.model.compression import BadBody, inflate
from epochmq.model.sys_flag import COMPRESSED
from epochmq.spark import decode_cells as cells
from epochmq.spark.decode_fault import CorruptRecord
from epochmq.spark.decode_heads import Rows

PLAIN_BYTES_MAX = 64 * 1024 * 1024
"""Inflated bodies in one batch; what is more begins the next one."""


@dataclass(slots=True)
class Inflated:
    """Rows that fit into one batch, and the plain bodies of the compressed ones in order."""

    rows: Rows
    plain: list[bytes]


def inflated(rows: Rows, limit: int = PLAIN_BYTES_MAX) -> Iterator[Inflated]:
    """All `rows` in pieces, each with at most `limit` inflated bytes, or one body.

    CorruptRecord, after the rows before it, for a body that does not inflate; CodecMissing as it
    is.
    """
    begin, size = 0, 0
    plain: list[bytes] = []
    for at in np.flatnonzero(rows.sys_flag & COMPRESSED).tolist():
        try:
            body = _plain(rows, at)
        except BadBody as error:
            yield Inflated(rows.pick(slice(begin, at)), plain)
            raise CorruptRecord(int(rows.at[at]), str(error), resume_at=int(rows.end[at])) from None
        if size + len(body) > limit and at > begin:
            yield Inflated(rows.pick(slice(begin, at)), plain)
            begin, size, plain = at, 0, []
        size += len(body)
        plain.append(body)
    yield Inflated(rows.pick(slice(begin, len(rows))), plain)


def _plain(rows: Rows, at: int) -> bytes:
    stored = rows.raw[rows.body_at[at] : rows.body_to[at]].tobytes()
    return inflate(stored, int(rows.sys_flag[at]))


def bodies(rows: Rows, plain: list[bytes]) -> pa.BinaryArray:
    """The bodies, those of compressed rows from `plain` when it is not empty."""
    stored = cells.binary(rows.raw, rows.body_at, rows.body_to)
    if not plain:
        return stored
    squeezed = pa.array((rows.sys_flag & COMPRESSED) != 0)
    return pc.replace_with_mask(stored, squeezed, pa.array(plain, pa.binary()))
