"""The binary ("ROCKETMQ") encoding of a command's header.

Layout, big-endian: int16 code, int8 language, int16 version, int32 opaque, int32 flag, int32 length
of the remark (0 = none), remark, int32 length of the map (0 = none), then pairs of int16 key
length, key, int32 value length, value. An empty value means "not set".
"""

from collections.abc import Mapping
from struct import Struct, error
from typing import NamedTuple

from epochmq.base.errors import PeerError, UsageError
from epochmq.base.ports import Buffer
from epochmq.wire.codes import LANGUAGE_NUMBERS, LANGUAGES, UNKNOWN_LANGUAGE, narrow, widen

_FIXED = Struct(">hbhiii")
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_KEY_BYTES_MAX = 0x7FFF
_FLAG_RESPONSE = 1


class BinaryHeader(NamedTuple):
    """The fields of one header; `ext` is None if there is no map."""

    code: int
    language: str
    version: int
    opaque: int
    flag: int
    remark: str | None
    ext: dict[str, str] | None


def encode(fields: BinaryHeader) -> bytes:
    """Encode a header. A code beyond int16 loses its high bits; `widen` restores them.

    Raises:
        UsageError: a key of `ext` is longer than 32,767 bytes.
    """
    remark = (fields.remark or "").encode()
    pairs = _encode_map(fields.ext) if fields.ext else b""
    fixed = _FIXED.pack(
        narrow(fields.code),
        LANGUAGE_NUMBERS.get(fields.language, LANGUAGE_NUMBERS[UNKNOWN_LANGUAGE]),
        narrow(fields.version),
        fields.opaque,
        fields.flag,
        len(remark),
    )
    return b"".join((fixed, remark, _INT32.pack(len(pairs)), pairs))


def _encode_map(ext: Mapping[str, str]) -> bytes:
    parts: list[bytes] = []
    for key, value in ext.items():
        key_bytes, value_bytes = key.encode(), value.encode()
        if len(key_bytes) > _KEY_BYTES_MAX:
            raise UsageError(f"an ext key of {len(key_bytes)} bytes is too long to be sent")
        parts += (
            _INT16.pack(len(key_bytes)),
            key_bytes,
            _INT32.pack(len(value_bytes)),
            value_bytes,
        )
    return b"".join(parts)


def decode(header: Buffer) -> BinaryHeader:
    """Decode a header. Raises `PeerError` if its lengths do not fit its contents."""
    data = bytes(header)
    try:
        size = _FIXED.unpack_from(data)[-1]
        at = _FIXED.size
        remark = _text(data, at, size)
        at += size
        (map_size,) = _INT32.unpack_from(data, at)
        at += _INT32.size
        if not 0 <= map_size <= len(data) - at:
            raise PeerError(f"a binary header's map of {map_size} bytes does not fit")
        ext = _decode_map(data, at, at + map_size) if map_size else None
    except error:
        raise PeerError("a binary header ends too early") from None
    return decode_fixed(data)._replace(remark=remark or None, ext=ext)


def decode_fixed(header: Buffer) -> BinaryHeader:
    """Decode the fixed fields at the beginning of a header; `header` must hold all of
    their bytes.
    """
    code, language, version, opaque, flag, _ = _FIXED.unpack_from(header)
    return BinaryHeader(
        code if flag & _FLAG_RESPONSE else widen(code),
        LANGUAGES.get(language, UNKNOWN_LANGUAGE),
        version,
        opaque,
        flag,
        None,
        None,
    )


def _decode_map(data: bytes, at: int, end: int) -> dict[str, str]:
    ext: dict[str, str] = {}
    while at < end:
        (size,) = _INT16.unpack_from(data, at)
        key = _text(data, at + _INT16.size, size)
        at += _INT16.size + size
        (size,) = _INT32.unpack_from(data, at)
        value = _text(data, at + _INT32.size, size)
        at += _INT32.size + size
        if value:
            ext[key] = value
    if at != end:
        raise PeerError("a binary header's map does not end where it says")
    return ext


def _text(data: bytes, at: int, size: int) -> str:
    """Return `size` bytes as UTF-8; invalid bytes are replaced, as in Java."""
    if not 0 <= size <= len(data) - at:
        raise PeerError(f"a text of {size} bytes does not fit a binary header")
    return data[at : at + size].decode("utf-8", "replace")
