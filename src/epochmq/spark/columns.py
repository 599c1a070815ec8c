"""The schema of `format("rocketmq")`: names, order, Arrow and Spark types (docs/PIPELINE.md,
"Rows").

Spark requires that the first batch has exactly its own schema. Every column is therefore nullable,
binary and string have 32-bit offsets, and times are in microseconds, UTC.
"""

import difflib
from collections.abc import Sequence

import pyarrow as pa

from epochmq.base.errors import UsageError

_TIME = pa.timestamp("us", tz="UTC")
_MAP = pa.map_(pa.string(), pa.string())

ARROW: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "queueId": pa.int32(),
    "queueOffset": pa.int64(),
    "brokerName": pa.string(),
    "body": pa.binary(),
    "tags": pa.string(),
    "keys": pa.string(),
    "properties": _MAP,
    "bornTimestamp": _TIME,
    "storeTimestamp": _TIME,
    "bornHost": pa.string(),
    "storeHost": pa.string(),
    "commitLogOffset": pa.int64(),
    "sysFlag": pa.int32(),
    "flag": pa.int32(),
    "bodyCRC": pa.int32(),
    "reconsumeTimes": pa.int32(),
    "preparedTransactionOffset": pa.int64(),
    "msgId": pa.string(),
}
"""All columns in their order; `properties` has the type for `properties=map`."""

NAMES = tuple(ARROW)
PROPERTIES = ("map", "raw", "none")
"""Values of the option `properties`: a map, the stored text, or no such column."""

_SPARK = {
    pa.string(): "string",
    pa.binary(): "binary",
    pa.int32(): "int",
    pa.int64(): "bigint",
    _TIME: "timestamp",
    _MAP: "map<string,string>",
    pa.bool_(): "boolean",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
}


def chosen(
    columns: Sequence[str] | None, properties: str = "map", typed: Sequence[pa.Field] = ()
) -> tuple[str, ...]:
    """Return the selected column names in the order of the request; all of them for None.

    `typed` are the columns that bodies give in addition. Raises `UsageError` for an unknown or
    repeated name, for an empty selection, and for an unknown value of `properties`.
    """
    if properties not in PROPERTIES:
        raise UsageError(_unknown("value of properties", properties, PROPERTIES))
    known = (*NAMES, *(field.name for field in typed))
    names = known if columns is None else tuple(columns)
    for at, name in enumerate(names):
        if name not in known:
            raise UsageError(_unknown("column", name, known))
        if name in names[:at]:
            raise UsageError(f"column {name!r} is asked for twice; name it once")
    kept = tuple(n for n in names if n != "properties" or properties != "none")
    if not kept:
        raise UsageError(f"no column is left; choose from {', '.join(NAMES)}")
    return kept


def schema(
    columns: Sequence[str] | None = None,
    properties: str = "map",
    typed: Sequence[pa.Field] = (),
) -> pa.Schema:
    """Return the Arrow schema of the selected columns."""
    by_name = {field.name: field for field in typed}
    return pa.schema(
        [
            by_name.get(name) or pa.field(name, _type(name, properties))
            for name in chosen(columns, properties, typed)
        ]
    )


def ddl(
    columns: Sequence[str] | None = None,
    properties: str = "map",
    typed: Sequence[pa.Field] = (),
) -> str:
    """Return the schema of the selected columns as Spark DDL: `topic string, queueId int, ...`."""
    return ", ".join(
        f"{field.name if field.name in ARROW else f'`{field.name}`'} {_SPARK[field.type]}"
        for field in schema(columns, properties, typed)
    )


def _type(name: str, properties: str) -> pa.DataType:
    return pa.string() if name == "properties" and properties == "raw" else ARROW[name]


def _unknown(what: str, name: str, known: Sequence[str]) -> str:
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(str(name).lower(), by_lower, n=1, cutoff=0.6)
    hint = f" (did you mean {by_lower[near[0]]!r}?)" if near else ""
    return f"there is no {what} {name!r}{hint}; there are {', '.join(known)}"
