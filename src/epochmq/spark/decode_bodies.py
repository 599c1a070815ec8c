"""Bodies, inflated where their record says that they are compressed.

A broker takes any body with the flag that says so: a body that does not inflate is a producer's
mistake, and no damage (its checksum is of what was stored). One such message must not stop the
reading of its queue.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

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


AS_STORED, NULL, FAIL = BAD_BODIES = ("stored", "null", "fail")
"""What a row has in place of a body that does not inflate; `fail`: it is a CorruptRecord."""


@dataclass(slots=True)
class Inflated:
    """Rows that fit into one batch, and the plain bodies of the compressed ones in order."""

    rows: Rows
    plain: list[bytes | None]
    bad: list[tuple[int, str]] = field(default_factory=list)
    """Queue offsets of the rows whose bodies did not inflate, and why."""


def inflated(
    rows: Rows, limit: int = PLAIN_BYTES_MAX, bad_bodies: str = FAIL
) -> Iterator[Inflated]:
    """All `rows` in pieces, each with at most `limit` inflated bytes, or one body.

    `bad_bodies` says what becomes of a body that does not inflate; with FAIL it is a
    CorruptRecord, after the rows before it. CodecMissing is raised as it is.
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
    """The bodies, those of compressed rows from `plain` when it is not empty."""
    stored = cells.binary(rows.raw, rows.body_at, rows.body_to)
    if not plain:
        return stored
    squeezed = pa.array((rows.sys_flag & COMPRESSED) != 0)
    return pc.replace_with_mask(stored, squeezed, pa.array(plain, pa.binary()))
