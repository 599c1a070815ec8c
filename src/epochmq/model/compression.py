"""Compression of message bodies: zlib, and optionally LZ4 frames and zstd."""

import zlib
from typing import Any

from epochmq.base import limits
from epochmq.base.errors import EnvironmentFault, PeerError
from epochmq.base.ports import Buffer
from epochmq.model import sys_flag as flags


class BadBody(PeerError):
    """A compressed body that cannot be inflated, or exceeds its limit."""


class CodecMissing(EnvironmentFault):
    """A body is compressed by a codec whose library is not installed."""


def inflate(body: Buffer, sys_flag: int, limit: int = limits.FRAME_BYTES_MAX) -> bytes:
    """Return the plain body; a body that is not compressed is returned as it is.

    Args:
        body: the body.
        sys_flag: says whether and how the body is compressed.
        limit: largest size of the result in bytes.

    Raises:
        BadBody: the body is damaged or exceeds `limit`.
        CodecMissing: the library of the codec is not installed.
    """
    if not sys_flag & flags.COMPRESSED:
        return bytes(body)
    kind = sys_flag & flags.COMPRESSION_MASK
    if kind in (flags.COMPRESSION_LEGACY, flags.COMPRESSION_ZLIB):
        return _inflate_zlib(body, limit)
    if kind == flags.COMPRESSION_LZ4:
        return _inflate_lz4(body, limit)
    if kind == flags.COMPRESSION_ZSTD:
        return _inflate_zstd(body, limit)
    raise BadBody(f"the body is compressed by an unknown codec, number {kind >> 8}")


def _inflate_zlib(body: Buffer, limit: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(body, limit + 1)
    except zlib.error as error:
        raise BadBody(f"the zlib body is damaged: {error}") from None
    return _whole(plain, inflater.eof, limit)


def _inflate_lz4(body: Buffer, limit: int) -> bytes:
    inflater = _lz4().LZ4FrameDecompressor()
    try:
        plain: bytes = inflater.decompress(body, max_length=limit + 1)
    except RuntimeError as error:
        raise BadBody(f"the LZ4 body is damaged: {error}") from None
    return _whole(plain, inflater.eof, limit)


def _inflate_zstd(body: Buffer, limit: int) -> bytes:
    zstd = _zstd()
    try:
        announced = zstd.frame_content_size(body)
        if announced > limit:  # -1 when the frame does not say
            raise BadBody(f"the body inflates to {announced} bytes, more than {limit}")
        plain: bytes = zstd.ZstdDecompressor().decompress(body, max_output_size=limit)
    except zstd.ZstdError as error:
        raise BadBody(f"the zstd body is damaged or above {limit} bytes: {error}") from None
    return plain


def _whole(plain: bytes, ended: bool, limit: int) -> bytes:
    if len(plain) > limit:
        raise BadBody(f"the body inflates to more than {limit} bytes")
    if not ended:
        raise BadBody("the compressed body ends too early")
    return plain


def _lz4() -> Any:
    try:
        import lz4.frame  # an optional library, loaded on first use
    except ImportError:
        raise _missing("LZ4") from None
    return lz4.frame


def _zstd() -> Any:
    try:
        import zstandard  # an optional library, loaded on first use
    except ImportError:
        raise _missing("zstd") from None
    return zstandard


def _missing(codec: str) -> CodecMissing:
    return CodecMissing(
        f"the body is compressed by {codec}, which needs: pip install 'epochmq[compression]'"
    )
