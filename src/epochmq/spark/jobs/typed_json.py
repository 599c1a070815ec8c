"""Parses JSON bodies: one object per body, whose named fields become columns."""

import json
import re
from typing import Any

from epochmq.base.errors import UsageError
from epochmq.base.needs import need
from epochmq.spark.jobs.typed import ParseBody, Typing, Unparsable

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
                f"'{part.strip()}' is no column: write NAME TYPE, with {', '.join(known)}"
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

    def parse(body: bytes) -> dict[str, Any]:
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
