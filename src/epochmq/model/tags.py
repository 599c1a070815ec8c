"""Tags: Java's hash of strings, the tags code of a consume queue unit, `a || b` expressions."""

import sys
from operator import mul

from epochmq.base.errors import Refused

SUB_ALL = "*"
_SUBSCRIPTION_PARSE_FAILED = 23
_SPACES = "".join(map(chr, range(0x21)))  # the characters that Java's trim() removes
_UTF_16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"
_CACHE_MAX = 8192
_CACHED_LENGTH_MAX = 256
_PIECE_MAX = 64

_powers = [1]
while len(_powers) < _PIECE_MAX:
    _powers.insert(0, _powers[0] * 31 & 0xFFFFFFFF)
_POWERS = tuple(tuple(_powers[_PIECE_MAX - size :]) for size in range(_PIECE_MAX + 1))
"""By size n: 31^(n-1) ... 31, 1 (mod 2^32)."""

_cache: dict[str, int] = {}


def java_hash(text: str) -> int:
    """Return Java's String.hashCode as a signed int32, over UTF-16 units. Results are cached."""
    found = _cache.get(text)
    if found is not None:
        return found
    value = extend_hash(0, text)
    if len(text) <= _CACHED_LENGTH_MAX:
        if len(_cache) >= _CACHE_MAX:
            _cache.clear()  # the size is limited: many different tags cost time, not memory
        _cache[text] = value
    return value


def extend_hash(prefix_hash: int, text: str) -> int:
    """Return the hash of a prefix plus `text`, given the hash of the prefix; not cached."""
    units: bytes | memoryview
    if text.isascii():
        units = text.encode()
    else:
        units = memoryview(text.encode(_UTF_16, "surrogatepass")).cast("H")
    value = prefix_hash
    for at in range(0, len(units), _PIECE_MAX):
        piece = units[at : at + _PIECE_MAX]
        powers = _POWERS[len(piece)]
        value = (value * powers[0] * 31 + sum(map(mul, piece, powers))) & 0xFFFFFFFF
    value &= 0xFFFFFFFF
    return value - 0x100000000 if value & 0x80000000 else value


def tags_code(tag: str | None) -> int:
    """Return the tags code of a message with `tag`; 0 without a tag."""
    return java_hash(tag) if tag else 0


def split_expression(expression: str | None) -> list[str] | None:
    """Return the tags of `a || b`, trimmed, in order, without duplicates; None means every message.

    Raises:
        Refused: the expression has no tag, so nothing would match (23).
    """
    if not expression or expression == SUB_ALL:
        return None
    trimmed = (piece.strip(_SPACES) for piece in expression.split("||"))
    tags = list(dict.fromkeys(tag for tag in trimmed if tag))
    if not tags:
        raise Refused(
            _SUBSCRIPTION_PARSE_FAILED,
            f"no tag in the subscription expression {expression!r}; use 'a || b' or '*'",
        )
    return tags
