"""Encoding of typed headers as `extFields` (texts only), and decoding.

Real peers send numbers with leading zeros, booleans in any case, and empty texts for "not set".
What msgspec's fast conversion rejects is read again field by field, as Java's parsers do.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, get_args

import msgspec
from msgspec import Meta

from epochmq.base.errors import HeaderError

I32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
"""A Java int."""

I64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""A Java long."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")


class Header(msgspec.Struct, gc=False):
    """Base class of typed headers. Fields have their wire names; a field without default is
    mandatory.
    """


class RpcHeader(Header, kw_only=True):
    """Adds the routing fields that 5.x clients may set in any request."""

    ns: str | None = None
    nsd: bool | None = None
    bname: str | None = None
    oway: bool | None = None


class TopicHeader(RpcHeader, kw_only=True):
    """Adds the routing field `lo` of requests about a queue of a topic."""

    lo: bool | None = None


H = TypeVar("H", bound=Header)


def decode_header(cls: type[H], ext: Mapping[str, str] | None) -> H:
    """Decode `ext` as a `cls`. Raises `HeaderError` that names the missing or wrong field."""
    try:
        return msgspec.convert(ext or {}, cls, strict=False)
    except (msgspec.ValidationError, ValueError):
        return _decode_slowly(cls, ext or {})


def encode_header(header: Header) -> dict[str, str]:
    """Return `header` as `extFields`; fields that are None are left out."""
    result: dict[str, str] = {}
    names = header.__struct_fields__
    for name, key in zip(names, header.__struct_encode_fields__, strict=True):
        value = getattr(header, name)
        if value is not None:
            result[key] = value if type(value) is str else to_text(value)
    return result


def to_text(value: Any) -> str:
    """Return a field's value as text: `true` or `false`, or a decimal number."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _decode_slowly(cls: type[H], ext: Mapping[str, str]) -> H:
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(cls):
        text = ext.get(field.encode_name)
        kind = _kind(field.type)
        if text is None or (text == "" and kind is not str):
            if field.required:
                raise HeaderError(f"the header field {field.encode_name} is missing")
            continue
        values[field.name] = _parse(field.encode_name, kind, str(text))
    try:
        return msgspec.convert(_by_wire_name(cls, values), cls, strict=True)
    except (msgspec.ValidationError, ValueError) as error:
        raise HeaderError(f"a header field is out of range: {error}") from None


def _by_wire_name(cls: type[H], values: dict[str, Any]) -> dict[str, Any]:
    keys = dict(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True))
    return {keys[name]: value for name, value in values.items()}


def _kind(annotation: Any) -> type:
    """Return the plain type of an annotation such as `I32 | None`."""
    if annotation in (str, int, bool, float):
        return annotation  # type: ignore[no-any-return]
    return _kind(get_args(annotation)[0])


def _parse(name: str, kind: type, text: str) -> Any:
    if kind is bool:
        return text.strip().lower() == "true"
    if kind is int:
        if _INTEGER.fullmatch(text.strip()) is None:
            raise HeaderError(f"the header field {name} is not an integer: {text[:64]!r}")
        return int(text)
    return text
