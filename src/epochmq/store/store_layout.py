"""Shapes of the derived files and of their names.

A record's own layout is in `epochmq.model.record`. All integers are big-endian.
"""

from struct import Struct

FRONT = Struct(">IIIiiqqi")
"""A record's first 40 bytes: size, magic, crc, queue id, flag, queue offset, offset, sys flag."""

UNIT = Struct(">qiq")
"""Consume-queue unit: log offset, record size, tags code."""

UNIT_BYTES = UNIT.size
PRE_BLANK_SIZE = 0x7FFFFFFF
PRE_BLANK = UNIT.pack(0, PRE_BLANK_SIZE, 0)
"""Stands for a queue offset that has no record: below a queue's first unit, or in a hole."""

BATCH_UNIT = Struct(">qiqqqhii")
"""Batch queue unit: log offset, record size, tags code, store time, first queue offset, number of
messages, compact offset (always -1), 0."""

BATCH_PLACE = Struct(f">qiq{BATCH_UNIT.size - UNIT_BYTES}x")
"""A batch queue unit read as if it were a plain one."""

LENGTHS = tuple(length.to_bytes(2, "big") for length in range(32768))
"""The i16 before the properties, ready made."""


def file_name(offset: int) -> str:
    """A log or queue file is named by the first offset in it, 20 digits."""
    return f"{offset:020d}"
