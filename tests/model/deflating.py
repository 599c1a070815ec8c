"""Compressed bodies as producers send them: input for what inflates."""

import zlib
from typing import Any

from epochmq.model.sys_flag import (
    COMPRESSION_LEGACY,
    COMPRESSION_LZ4,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
)


def deflate(body: bytes, kind: int = COMPRESSION_ZLIB) -> bytes:
    """`body` compressed; the caller sets COMPRESSED | `kind` in the message's sys_flag."""
    library: Any
    if kind in (COMPRESSION_LEGACY, COMPRESSION_ZLIB):
        return zlib.compress(body, 5)
    if kind == COMPRESSION_LZ4:
        import lz4.frame as library
    elif kind == COMPRESSION_ZSTD:
        import zstandard as library
    else:
        raise ValueError(f"there is no codec number {kind >> 8}")
    squeezed: bytes = library.compress(body)
    return squeezed
