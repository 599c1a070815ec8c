"""Defines which DataFrame columns the sink writes as messages, and their types (its schema)."""

import difflib
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from epochmq.base.errors import UsageError
from epochmq.model.copied_properties import LEFT_OUT
from epochmq.model.properties import NAME_END, PAIR_END, decode
from epochmq.model.property_names import TRANSIENT_PREFIX
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
"""The columns that the sink writes, each with its types in Spark's terms."""


def check_columns(schema: pa.Schema, has_topic: bool) -> dict[str, int]:
    """Return the index of each column that the sink writes, by name.

    `has_topic` says that option topic is given. Columns of the source that a broker sets itself
    (offsets, times, hosts) are left out. Raises one `UsageError` that lists all problems.
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


# Encode properties ---------------------------------------------------------------------------
# Converts the column `properties` to its wire format: name 0x01 value 0x02 name 0x01 value.


def properties_text(
    column: pa.Array, taken: frozenset[str], check: Callable[[pa.Array, str], None]
) -> pa.Array:
    """Return the properties text of each row; null where no property is left.

    Properties in `taken` come from columns of their own and are left out. Pairs with an empty name
    or value are left out, since every reader skips them. `check` is called with the rows whose
    names or values contain a separator.
    """
    column = _as_map(column)
    keys, items = column.keys, column.items
    offsets = column.offsets.to_numpy(zero_copy_only=False)
    check(
        _rows_with(column, offsets, _separators(keys, items)),
        "has a control character (0x01 or 0x02) in a property; remove it from name and value",
    )
    wanted = _wanted(keys, items, LEFT_OUT | taken)
    before = np.concatenate(([0], np.cumsum(wanted, dtype=np.int32))).astype(np.int32)
    pairs = pc.filter(pc.binary_join_element_wise(keys, items, NAME_END), pa.array(wanted))
    lists = pa.ListArray.from_arrays(pa.array(before[offsets]), pairs)
    text = pc.binary_join(lists, PAIR_END)
    none = pc.or_(column.is_null(), pc.equal(pc.binary_length(text), 0))
    return pc.if_else(none, None, text).cast(pa.string())


def _as_map(column: pa.Array) -> pa.Array:
    """Return the column as maps; the source's raw form is one text per row."""
    if pa.types.is_map(column.type):
        return column
    rows = [None if text is None else list(decode(text).items()) for text in column.to_pylist()]
    return pa.array(rows, pa.map_(pa.string(), pa.string()))


def _wanted(keys: pa.Array, items: pa.Array, left_out: frozenset[str]) -> np.ndarray:
    known = pc.is_in(keys, value_set=pa.array(sorted(left_out), keys.type))
    empty = pc.or_(pc.equal(pc.binary_length(keys), 0), pc.equal(pc.binary_length(items), 0))
    transient = pc.starts_with(keys, TRANSIENT_PREFIX)
    out = pc.or_(pc.or_(known, transient), pc.fill_null(empty, True))
    found: np.ndarray = pc.invert(out).to_numpy(zero_copy_only=False)
    return found


def _separators(keys: pa.Array, items: pa.Array) -> np.ndarray:
    bad = pc.or_kleene(
        pc.match_substring_regex(keys, "[\x01\x02]"), pc.match_substring(items, PAIR_END)
    )
    found: np.ndarray = pc.fill_null(bad, False).to_numpy(zero_copy_only=False)
    return found


def _rows_with(column: pa.Array, offsets: np.ndarray, bad: np.ndarray) -> pa.Array:
    """Return the rows that contain at least one bad pair."""
    before = np.concatenate(([0], np.cumsum(bad, dtype=np.int64)))
    counts = before[offsets[1:]] - before[offsets[:-1]]
    return pc.and_(pa.array(counts > 0), column.is_valid())
