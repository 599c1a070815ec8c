"""CRC-32 (IEEE) without its sign bit, as records, batches and register bodies carry it."""

from epochmq.base.ports import Buffer

try:
    from isal.isal_zlib import crc32 as _crc32
except ImportError:  # pragma: no cover - same numbers, six times slower
    from zlib import crc32 as _crc32

MASK = 0x7FFFFFFF
continue_crc32 = _crc32
"""CRC-32, with the sign bit, of bytes with the CRC-32 of the second argument, then the first."""


def crc32(data: Buffer) -> int:
    """CRC-32 of `data` without the sign bit."""
    value: int = _crc32(data)
    return value & MASK
