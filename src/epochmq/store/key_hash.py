"""Java's hash of many index keys at once.

Hashing a unique key's 32 characters one by one costs more than the rest of its index entry. So keys
are padded in front with zeros (which do not change the hash) to one width, laid side by side in one
big integer, and folded: neighbouring bytes, then pairs, then fours, each step for all keys at once
in groups of bits wide enough not to overflow.
"""

from collections.abc import Sequence
from struct import unpack

from epochmq.model.tags import extend_hash

WIDTH = 32
"""Bytes of a padded key; longer ones and other alphabets are hashed one by one."""

BATCH = 64
_MASK_32 = 0xFFFFFFFF
_POWERS = tuple(pow(31, n, 1 << 32) for n in range(WIDTH + 1))


def _mask(width: int) -> int:
    """The lower half set in each group of `width` bytes."""
    half = width // 2
    return int.from_bytes((bytes(half) + b"\xff" * half) * (WIDTH * BATCH // width), "big")


_M8, _M16, _M32 = _mask(2), _mask(4), _mask(8)


def java_hashes(prefixes: Sequence[int], keys: Sequence[str]) -> list[int]:
    """Unsigned 32-bit hash of each key behind a text that hashes to its prefix."""
    found: list[int] = []
    for at in range(0, len(keys), BATCH):
        piece = keys[at : at + BATCH]
        before = prefixes[at : at + BATCH]
        packed = "".join([key.rjust(WIDTH, "\0") for key in piece])
        if packed.isascii() and len(packed) == WIDTH * len(piece):
            powers = _POWERS
            found += [
                prefix * powers[len(key)] + value & _MASK_32
                for prefix, key, value in zip(before, piece, _fold(packed.encode()), strict=True)
            ]
        else:
            found += map(one_hash, before, piece)
    return found


def one_hash(prefix: int, key: str) -> int:
    """Unsigned 32-bit hash of `key` behind a text that hashes to `prefix`."""
    return extend_hash(prefix, key) & _MASK_32


def _fold(data: bytes) -> list[int]:
    """The hash, not yet cut to 32 bits, of each `WIDTH` bytes of `data`."""
    value = int.from_bytes(data, "big")
    value = (value >> 8 & _M8) * 31 + (value & _M8)
    value = (value >> 16 & _M16) * 31**2 + (value & _M16)
    value = (value >> 32 & _M32) * 31**4 + (value & _M32)
    words = iter(unpack(f">{len(data) // 8}Q", value.to_bytes(len(data), "big")))
    w0, w1, w2 = _POWERS[24], _POWERS[16], _POWERS[8]
    return [
        a * w0 + b * w1 + c * w2 + d for a, b, c, d in zip(words, words, words, words, strict=True)
    ]
