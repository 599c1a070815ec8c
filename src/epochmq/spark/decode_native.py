"""The ordinary records of a buffer by one call of the native code, where there is one.

It gives what `decode_chase.follow` and `decode_heads.read` give together, several times faster,
and stops before whatever is unusual: those two take that (docs/adr/0034, 0038).
"""

import ctypes

import numpy as np
import pyarrow as pa

from epochmq.model.record import HEAD
from epochmq.spark.decode_chase import Bytes, address
from epochmq.spark.decode_heads import Rows
from epochmq.store.native.library import Library

RECORDS_MAX = 8192
"""Records that one call takes at most."""
_COLUMN = 8 * RECORDS_MAX
_POINTER, _I64 = ctypes.c_void_p, ctypes.c_int64


class RowsArgs(ctypes.Structure):
    """`rows` of rows.c."""

    _fields_ = [
        ("bytes", _POINTER), *((name, _I64) for name in ("at", "limit", "size")),
        *((name, _POINTER) for name in ("begins", "bodies", "topics", "ends")),
        *((name, _I64) for name in ("count_max", "end", "flags")),
    ]  # fmt: skip


def ordinary(native: Library, raw: Bytes, begin: int, limit: int) -> Rows | None:
    """The ordinary records that begin in `begin..limit`; None when the first is none."""
    # Arrow's pool keeps memory of this size; asked of the system, each page would cost a fault.
    places = pa.allocate_buffer(4 * _COLUMN)
    columns = (places.address + n * _COLUMN for n in range(4))
    args = RowsArgs(address(raw), begin, limit, len(raw), *columns, RECORDS_MAX)
    count = native.rows(ctypes.addressof(args))
    if not count:
        return None
    found = np.frombuffer(places, np.int64).reshape(4, -1)[:, :count]
    begins, bodies, topics, ends = found
    body_at = begins + HEAD.size
    return Rows(raw, begins, args.flags, None, None, body_at, bodies, bodies + 1, topics, ends)
