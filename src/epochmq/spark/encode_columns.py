"""Which columns of a DataFrame can be written as messages, and with which types."""

import difflib
from collections.abc import Callable

import pyarrow as pa

from epochmq.base.errors import UsageError
from epochmq.spark import columns as source

_types = pa.types


def _is_text(kind: pa.DataType) -> bool:
    return bool(_types.is_string(kind) or _types.is_large_string(kind))


def _is_body(kind: pa.DataType) -> bool:
    return bool(_is_text(kind) or _types.is_binary(kind) or _types.is_large_binary(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(_types.is_integer(kind))


def _is_key(kind: pa.DataType) -> bool:
    return _is_text(kind) or _is_number(kind)


def _is_time(kind: pa.DataType) -> bool:
    return bool(_types.is_timestamp(kind) or _types.is_integer(kind))


def _is_keys(kind: pa.DataType) -> bool:
    if _types.is_list(kind) or _types.is_large_list(kind):
        return _is_text(kind.value_type)
    return _is_text(kind)


def _is_properties(kind: pa.DataType) -> bool:
    if _types.is_map(kind):
        return _is_text(kind.key_type) and _is_text(kind.item_type)
    return _is_text(kind)


WRITTEN: dict[str, tuple[Callable[[pa.DataType], bool], str]] = {
    "topic": (_is_text, "string"),
    "body": (_is_body, "binary or string"),
    "value": (_is_body, "binary or string"),
    "keys": (_is_keys, "string or array<string>"),
    "tags": (_is_text, "string"),
    "properties": (_is_properties, "map<string,string> or string"),
    "orderingKey": (_is_key, "string or a whole number"),
    "queueId": (_is_number, "int"),
    "brokerName": (_is_text, "string"),
    "delayTimeLevel": (_is_number, "int"),
    "deliverTime": (_is_time, "timestamp, or bigint in ms"),
    "flag": (_is_number, "int"),
}
"""The columns that are written, each with its types as Spark calls them."""


def check_columns(schema: pa.Schema, has_topic: bool) -> dict[str, int]:
    """Where each column that is written stands; `has_topic` says that there is an option for it.

    Columns that the source gives and a broker sets anew (offsets, times, hosts) are left out.
    UsageError names every fault.
    """
    problems = []
    found: dict[str, int] = {}
    for at, field in enumerate(schema):
        if field.name in WRITTEN:
            is_right, wanted = WRITTEN[field.name]
            if field.name in found:
                problems.append(f"there are two columns {field.name!r}")
            if not is_right(field.type):
                problems.append(f"column {field.name!r} must be {wanted}, not {field.type}")
            found[field.name] = at
        elif field.name not in source.ARROW:
            problems.append(_unknown(field.name))
    problems += _missing(found, has_topic)
    if problems:
        raise UsageError("these rows cannot be written to rocketmq: " + "; ".join(problems))
    return found


def _missing(found: dict[str, int], has_topic: bool) -> list[str]:
    problems = []
    if "body" not in found and "value" not in found:
        problems.append("there is no column 'body' (or 'value') with the message's content")
    if "body" in found and "value" in found:
        problems.append("there are both a column 'body' and a column 'value'; keep one")
    if "topic" not in found and not has_topic:
        problems.append("there is neither a column 'topic' nor an option 'topic'")
    return problems


def _unknown(name: str) -> str:
    by_lower = {known.lower(): known for known in WRITTEN}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    hint = f"did you mean {by_lower[near[0]]!r}?" if near else "drop it, or put it into properties"
    return f"column {name!r} is not one that is written ({hint})"
