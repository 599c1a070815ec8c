"""The ordinary records of a buffer by one call of the compiled twin, where there is one.

It gives what `decode_chase.follow` and `decode_heads.read` give together, several times faster,
and stops before whatever is unusual: those two take that (docs/adr/0034, 0038).
"""

import ctypes

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from epochmq.model.record import HEAD
from epochmq.spark.decode_chase import Bytes
from epochmq.spark.decode_heads import FIELDS, Rows
from epochmq.store.twin.library import Library

RECORDS_MAX = 8192
"""Records that one call takes at most."""
_POINTER, _I64 = ctypes.c_void_p, ctypes.c_int64


class RowsArgs(ctypes.Structure):
    """`rows` of rows.c."""

    _fields_ = [
        ("bytes", _POINTER), *((name, _I64) for name in ("at", "limit", "size")),
        *((name, _POINTER) for name in ("begins", "bodies", "topics", "ends", "heads")),
        *((name, _I64) for name in ("count_max", "end", "flags")),
    ]  # fmt: skip


def ordinary(twin: Library, raw: Bytes, begin: int, limit: int) -> Rows | None:
    """The ordinary records that begin in `begin..limit`; None when the first is none."""
    # Arrow's pool keeps memory of this size; asked of the system, each page would cost a fault.
    places = np.frombuffer(pa.allocate_buffer(4 * 8 * RECORDS_MAX), np.int64).reshape(4, -1)
    heads = np.frombuffer(pa.allocate_buffer(HEAD.size * RECORDS_MAX), FIELDS)
    args = RowsArgs(raw.ctypes.data, begin, limit, len(raw))
    args.begins, args.bodies, args.topics, args.ends = (each.ctypes.data for each in places)
    args.heads, args.count_max = heads.ctypes.data, RECORDS_MAX
    count = twin.rows(ctypes.addressof(args))
    return _rows(raw, places[:, :count], heads[:count]) if count else None


def _rows(raw: Bytes, places: NDArray[np.int64], heads: NDArray[np.void]) -> Rows:
    begins, bodies, topics, ends = places
    return Rows(
        raw,
        begins,
        heads,
        heads["sysFlag"].astype(np.int32),
        None,
        None,
        begins + HEAD.size,
        bodies,
        bodies + 1,
        topics,
        ends,
    )
