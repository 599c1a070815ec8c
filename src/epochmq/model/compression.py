"""Compression of message bodies: zlib, and optionally LZ4 frames and zstd."""

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from epochmq.base import limits
from epochmq.base.errors import EnvironmentFault, PeerError, UsageError
from epochmq.base.ports import Buffer
from epochmq.model import sys_flag as flags


class BadBody(PeerError):
    """A compressed body that cannot be inflated, or exceeds its limit."""


class CodecMissing(EnvironmentFault):
    """The library of a codec is not installed."""


class Compressor(NamedTuple):
    """Compresses bodies by one codec."""

    sys_flag: int
    """The bits of `sys_flag` that mark a body compressed by this codec."""
    compress: Callable[[Buffer], bytes]
    """For one thread at a time."""


LEVEL = 5
"""The level for zlib and zstd, as in RocketMQ's clients; LZ4 has no levels there."""


def compressor(codec: str) -> Compressor:
    """Return the compressor of `codec`: "zlib", "lz4" or "zstd".

    Raises:
        UsageError: there is no such codec.
        CodecMissing: the library of the codec is not installed.
    """
    if codec == "zlib":
        return Compressor(flags.COMPRESSED | flags.COMPRESSION_ZLIB, _deflate_zlib)
    if codec == "lz4":
        lz4 = _lz4()
        return Compressor(
            flags.COMPRESSED | flags.COMPRESSION_LZ4, lambda body: _deflate_lz4(lz4, body)
        )
    if codec == "zstd":
        compress = _zstd().ZstdCompressor(level=LEVEL).compress
        return Compressor(flags.COMPRESSED | flags.COMPRESSION_ZSTD, compress)
    raise UsageError(f"compression is {codec!r}; it can be zlib, lz4 or zstd")


def _deflate_zlib(body: Buffer) -> bytes:
    return zlib.compress(body, LEVEL)


def _deflate_lz4(lz4: Any, body: Buffer) -> bytes:
    """Return an LZ4 frame of independent blocks: the Java library reads no other frames."""
    frame: bytes = lz4.compress(body, block_linked=False, store_size=False)
    return frame


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
    return CodecMissing(f"{codec} compression needs a library: pip install 'epochmq[compression]'")
