"""The encoding of message properties: name 0x01 value 0x02 name 0x01 value ... in UTF-8."""

from collections.abc import Mapping

from epochmq.base import limits
from epochmq.base.errors import Refused, UsageError

NAME_END = "\x01"
PAIR_END = "\x02"
_MESSAGE_ILLEGAL = 13


def encode(props: Mapping[str, str]) -> str:
    """Return `props` as text, without a 0x02 at the end; pairs with an empty name or value are left
    out.

    Raises:
        UsageError: a name contains a separator, or a value contains 0x02.
    """
    pairs = [name + NAME_END + value for name, value in props.items() if name and value]
    text = PAIR_END.join(pairs)
    if text.count(NAME_END) != len(pairs) or text.count(PAIR_END) >= max(len(pairs), 1):
        check_pairs(props)
    return text


def encode_loosely(props: dict[str, str]) -> str:
    """Encode pairs that came from `decode`: a value may contain 0x01."""
    return PAIR_END.join([name + NAME_END + value for name, value in props.items()])


def check_pairs(props: Mapping[str, str]) -> None:
    """Raise `UsageError` unless every pair is unchanged by encode and decode."""
    for name, value in props.items():
        if NAME_END in name or PAIR_END in name or PAIR_END in value:
            raise UsageError(
                f"property {name!r} holds a separator (0x01 or 0x02); remove it from name and value"
            )


def check_length(raw: bytes) -> None:
    """Raise `Refused` (13) if the encoded properties do not fit the record's signed
    16-bit length.
    """
    if len(raw) > limits.PROPERTIES_BYTES_MAX:
        raise Refused(
            _MESSAGE_ILLEGAL,
            f"the properties take {len(raw)} bytes, {limits.PROPERTIES_BYTES_MAX} are allowed; "
            "send fewer or shorter properties",
        )


def decode(text: str) -> dict[str, str]:
    """Return all pairs of `text`. The last value of a name wins; malformed pieces are skipped."""
    props: dict[str, str] = {}
    for pair in text.split(PAIR_END):
        name, _, value = pair.partition(NAME_END)
        if name and value:
            props[name] = value
    return props


def decode_bytes(raw: bytes) -> dict[str, str]:
    """Decode stored bytes; invalid UTF-8 becomes U+FFFD, as in Java."""
    return decode(raw.decode("utf-8", "replace"))


def find(raw: bytes, name: bytes) -> bytes | None:
    """Return the value of `name` in encoded properties, as `decode` would find it,
    without a dict.
    """
    return find_by(raw, needle_of(name)) if name else None


def needle_of(name: bytes) -> bytes:
    """Return what `find_by` searches for a property; for names that are searched often."""
    return b"\x02" + name + b"\x01"


def find_by(raw: bytes, needle: bytes) -> bytes | None:
    """Return the value of a property, as `find` does, by what `needle_of` returned for its name."""
    at = raw.rfind(needle)
    while at >= 0:
        value = _value(raw, at + len(needle))
        if value:
            return value
        at = raw.rfind(needle, 0, at + 1)  # a pair with an empty value does not count
    if raw.startswith(needle[1:]):
        return _value(raw, len(needle) - 1) or None
    return None


def _value(raw: bytes, start: int) -> bytes:
    end = raw.find(b"\x02", start)
    return raw[start:] if end < 0 else raw[start:end]


def append(raw: bytes, extra: bytes) -> bytes:
    """Join two encoded texts; each may be empty or end with 0x02 (as 5.2 and later write it)."""
    if not raw or not extra:
        return raw or extra
    return raw + extra if raw.endswith(b"\x02") else raw + b"\x02" + extra
