"""Parses JSON bodies: one object per body, whose named fields become columns."""

import json
import re
from typing import Any

from epochmq.base.errors import UsageError
from epochmq.base.needs import need
from epochmq.spark.typed import ParseBody, Typing, Unparsable

COLUMNS_MAX = 1_000
_COLUMN = re.compile(r"([A-Za-z_]\w*)\s+(\w+)")


def types() -> dict[str, Any]:
    """Return the names (Spark's and Java's) of types for JSON values, with their Arrow types."""
    pa = need("pyarrow", "spark")
    return {
        "string": pa.string(),
        "bigint": pa.int64(),
        "long": pa.int64(),
        "int": pa.int32(),
        "double": pa.float64(),
        "float": pa.float64(),
        "boolean": pa.bool_(),
        "json": pa.string(),
    }


def fields(typing: Typing) -> list[Any]:
    """Parse columns such as "carrier string, delay double"; raises `UsageError` for other texts."""
    pa, known = need("pyarrow", "spark"), types()
    found = []
    for part in typing.schema.split(","):
        column = _COLUMN.fullmatch(part.strip())
        if column is None or column[2] not in known:
            raise UsageError(
                f"'{part.strip()}' is not a column: write NAME TYPE, with {', '.join(known)}"
            )
        found.append(pa.field(column[1], known[column[2]]))
    names = [each.name for each in found]
    if len(set(names)) != len(names) or len(names) > COLUMNS_MAX:
        raise UsageError(f"typed columns must have names of their own, {COLUMNS_MAX} at most")
    return found


def parser(typing: Typing) -> ParseBody:
    """Return a parser that rejects values of another type than the column's, without conversion."""
    columns = {
        each.name: _as_text if _wants_json(typing, each.name) else _CHECKS[str(each.type)]
        for each in fields(typing)
    }

    registry = typing.registry

    def parse(body: bytes) -> dict[str, Any]:
        if registry is not None and (numbered := registry.split(body)) is not None:
            body = numbered[1]
        try:
            # For bytes, `json.loads` also guesses UTF-16 and UTF-32; JSON is UTF-8 (RFC 8259).
            found = json.loads(body.decode())
        except (ValueError, RecursionError) as error:
            raise Unparsable(f"no JSON: {error}") from None
        if not isinstance(found, dict):
            raise Unparsable(f"a JSON {type(found).__name__} where an object is wanted")
        return {
            name: check(name, found[name])
            for name, check in columns.items()
            if found.get(name) is not None
        }

    return parse


_COLUMN_TYPES = {
    "string": "string",
    "integer": "bigint",
    "number": "double",
    "boolean": "boolean",
}


def columns_of_json_schema(text: str) -> str:
    """Return columns, as "carrier string, delay double", for the properties of a JSON Schema.

    A property that is an object, an array or of several types becomes a column of JSON text. Raises
    `UsageError` for a schema without properties, and for a property whose name no column can have.
    """
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the JSON Schema is not JSON: {error}") from None
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or not properties:
        raise UsageError("the JSON Schema has no properties, so it gives no columns")
    return ", ".join(f"{name} {_column_type(kind)}" for name, kind in properties.items())


def _column_type(kind: Any) -> str:
    named = kind.get("type") if isinstance(kind, dict) else None
    if isinstance(named, list):
        others = [each for each in named if each != "null"]
        named = others[0] if len(others) == 1 else None
    return _COLUMN_TYPES.get(named, "json") if isinstance(named, str) else "json"


def _wants_json(typing: Typing, name: str) -> bool:
    return re.search(rf"(?:^|,)\s*{name}\s+json\s*(?:,|$)", typing.schema) is not None


def _as_text(_name: str, value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _is(kind: type | tuple[type, ...], what: str) -> Any:
    def check(name: str, value: Any) -> Any:
        # In Python a bool is an int, in JSON it is not.
        if (isinstance(value, bool) and kind is not bool) or not isinstance(value, kind):
            raise Unparsable(f"field '{name}' is {json.dumps(value)[:80]}, no {what}")
        return value

    return check


_CHECKS = {
    "string": _is(str, "string"),
    "int64": _is(int, "integer"),
    "int32": _is(int, "integer"),
    "double": _is((int, float), "number"),
    "bool": _is(bool, "boolean"),
}
