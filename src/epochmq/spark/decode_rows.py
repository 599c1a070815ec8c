"""The next rows of a buffer: by the native code where it can, else by numpy."""

from dataclasses import dataclass

from epochmq.spark import decode_native
from epochmq.spark.decode_chase import Bytes, follow
from epochmq.spark.decode_fault import CorruptRecord
from epochmq.spark.decode_heads import Rows, read
from epochmq.spark.decode_library import library


@dataclass(slots=True)
class DecodedRows:
    """Sound rows, where the next ones begin, and what is wrong behind these."""

    rows: Rows
    stop: int
    fault: CorruptRecord | None


def window(raw: Bytes, begin: int, limit: int) -> DecodedRows:
    """The records that begin in `begin..limit`, or the first of them; fillers are no rows."""
    native = library()
    rows = decode_native.ordinary(native, raw, begin, limit) if native else None
    if rows is not None:
        return DecodedRows(rows, int(rows.end[-1]), None)
    walk = follow(raw.data, begin, limit)
    rows, fault = read(raw, walk.at, walk.sizes)
    return DecodedRows(rows, walk.stop, fault or walk.fault)
