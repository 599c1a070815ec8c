"""CRC-32 (IEEE) without its sign bit, as records, batches and register bodies carry it."""

try:
    from isal.isal_zlib import crc32 as _crc32
except ImportError:  # pragma: no cover - same numbers, six times slower (performance.md)
    from zlib import crc32 as _crc32

from epochmq.base.types import Buffer


def crc32(data: Buffer) -> int:
    """CRC-32 of `data` masked with 0x7FFFFFFF."""
    value: int = _crc32(data)
    return value & 0x7FFFFFFF
