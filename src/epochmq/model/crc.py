"""CRC-32 (IEEE) without its sign bit, as in records, batches and registrations."""

from epochmq.base.ports import Buffer

try:
    from isal.isal_zlib import crc32 as _crc32
except ImportError:  # pragma: no cover - same numbers, six times slower
    from zlib import crc32 as _crc32

MASK = 0x7FFFFFFF
continue_crc32 = _crc32
"""Continue a CRC-32 (with sign bit), the second argument, over the bytes of the first argument."""


def crc32(data: Buffer) -> int:
    """Return the CRC-32 of `data` without the sign bit."""
    value: int = _crc32(data)
    return value & MASK
