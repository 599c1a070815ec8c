"""The properties string: name 0x01 value 0x02 name 0x01 value ... in UTF-8."""

from collections.abc import Mapping

from epochmq.base import limits
from epochmq.base.errors import Refused, UsageError

NAME_END = "\x01"
PAIR_END = "\x02"
_MESSAGE_ILLEGAL = 13


def encode(props: Mapping[str, str]) -> str:
    """Join `props` without a trailing 0x02; pairs with an empty side (no reader sees them) go.

    A separator in a name, or 0x02 in a value, would smuggle in other properties: UsageError.
    """
    pairs = [name + NAME_END + value for name, value in props.items() if name and value]
    text = PAIR_END.join(pairs)
    if text.count(NAME_END) != len(pairs) or text.count(PAIR_END) >= max(len(pairs), 1):
        check_pairs(props)
    return text


def encode_loosely(props: dict[str, str]) -> str:
    """`encode` for pairs that came out of `decode`: a stray 0x01 in a value stays what it is."""
    return PAIR_END.join([name + NAME_END + value for name, value in props.items()])


def check_pairs(props: Mapping[str, str]) -> None:
    """UsageError unless every pair survives encode and decode unchanged."""
    for name, value in props.items():
        if NAME_END in name or PAIR_END in name or PAIR_END in value:
            raise UsageError(
                f"property {name!r} holds a separator (0x01 or 0x02); remove it from name and value"
            )


def check_length(raw: bytes) -> None:
    """Refused (13) when the encoded properties do not fit the record's signed 16-bit length."""
    if len(raw) > limits.PROPERTIES_BYTES_MAX:
        raise Refused(
            _MESSAGE_ILLEGAL,
            f"the properties take {len(raw)} bytes, {limits.PROPERTIES_BYTES_MAX} are allowed; "
            "send fewer or shorter properties",
        )


def decode(text: str) -> dict[str, str]:
    """All pairs of `text`, the last of a name winning; malformed pieces are skipped."""
    props: dict[str, str] = {}
    for pair in text.split(PAIR_END):
        name, _, value = pair.partition(NAME_END)
        if name and value:
            props[name] = value
    return props


def decode_bytes(raw: bytes) -> dict[str, str]:
    """`decode` of the stored bytes; broken UTF-8 becomes U+FFFD as Java's readers have it."""
    return decode(raw.decode("utf-8", "replace"))


def find(raw: bytes, name: bytes) -> bytes | None:
    """The value of `name` in encoded properties, as `decode` would see it, without a dict."""
    if not name:
        return None
    needle = b"\x02" + name + b"\x01"
    at = raw.rfind(needle)
    while at >= 0:
        value = _value(raw, at + len(needle))
        if value:
            return value
        at = raw.rfind(needle, 0, at + 1)  # an empty value is no pair; an earlier one counts
    if raw.startswith(needle[1:]):
        return _value(raw, len(needle) - 1) or None
    return None


def _value(raw: bytes, start: int) -> bytes:
    end = raw.find(b"\x02", start)
    return raw[start:] if end < 0 else raw[start:end]


def append(raw: bytes, extra: bytes) -> bytes:
    """Two encoded strings as one; either may be empty or end with 0x02 (as 5.2+ writers do)."""
    if not raw or not extra:
        return raw or extra
    return raw + extra if raw.endswith(b"\x02") else raw + b"\x02" + extra
