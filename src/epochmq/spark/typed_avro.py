"""Parses Avro bodies: one datum, plain or after Confluent's or Avro's single-object header."""

import datetime
import io
import json
from typing import Any

from epochmq.base.errors import NotFound, UsageError
from epochmq.base.needs import need
from epochmq.spark.schema_registry import SchemaRegistry
from epochmq.spark.typed import ParseBody, Typing, Unparsable

_CONFLUENT, _CONFLUENT_BYTES = b"\x00", 5
_SINGLE, _SINGLE_BYTES = b"\xc3\x01", 10
_NESTED = ("record", "array", "map")
_PLAIN = (type(None), bool, int, float, str, bytes, datetime.date)
"""In Python a datetime is also a date."""


def fields(typing: Typing) -> list[Any]:
    """Return a column for each field of the record; nested values become JSON text."""
    pa = need("pyarrow", "spark")
    record = _record(typing.schema)
    return [pa.field(each["name"], _arrow(_not_null(each["type"]))) for each in record["fields"]]


def parser(typing: Typing) -> ParseBody:
    """Return a parser that must consume the whole body: extra bytes mean another schema."""
    fastavro = need("fastavro", "typed")
    schema = fastavro.parse_schema(_record(typing.schema))
    nested = {
        each["name"]
        for each in _record(typing.schema)["fields"]
        if _kind(_not_null(each["type"])) in _NESTED
    }

    def datum(body: bytes, written: Any = None) -> dict[str, Any]:
        """Parse a datum of the schema `written`, which the schema of the columns resolves."""
        source = io.BytesIO(body)
        try:
            if written is None:
                found = fastavro.schemaless_reader(source, schema, None)
            else:
                found = fastavro.schemaless_reader(source, written, schema)
        except Exception as error:  # fastavro raises many kinds of errors for invalid bytes
            raise Unparsable(
                f"no Avro of this schema: {str(error) or type(error).__name__}"
            ) from None
        if source.tell() != len(body):
            raise Unparsable(f"{len(body) - source.tell()} bytes behind the Avro datum")
        return {name: _value(value, name in nested) for name, value in found.items()}

    if typing.registry is not None:
        schema_of = _SchemasByNumber(typing.registry)
        return lambda body: datum(*schema_of.split(body))

    def parse(body: bytes) -> dict[str, Any]:
        try:
            return datum(body)
        except Unparsable:
            for header, size in ((_CONFLUENT, _CONFLUENT_BYTES), (_SINGLE, _SINGLE_BYTES)):
                if body.startswith(header) and len(body) > size:
                    return datum(body[size:])
            raise

    return parse


class _SchemasByNumber:
    """The schemas with which bodies were written, as a registry tells them."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._known: dict[int, Any] = {}

    def split(self, body: bytes) -> tuple[bytes, Any]:
        """Return the datum of a body and the schema with which it was written."""
        found = self._registry.split(body)
        if found is None:
            raise Unparsable("the body does not begin with the number of a schema")
        number, datum = found
        if number not in self._known:
            self._known[number] = self._parsed(number)
        return datum, self._known[number]

    def _parsed(self, number: int) -> Any:
        try:
            text = self._registry.by_id(number)
        except NotFound as error:
            raise Unparsable(str(error)) from None
        fastavro = need("fastavro", "typed")
        try:
            return fastavro.parse_schema(json.loads(text))
        except Exception as error:  # many kinds of errors, all because of the schema
            raise Unparsable(
                f"schema {number} of the registry is not an Avro schema: {error}"
            ) from None


def _record(text: str) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the Avro schema is not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("type") != "record" or not found.get("fields"):
        raise UsageError("the Avro schema must be a record with fields")
    fastavro = need("fastavro", "typed")
    try:
        fastavro.parse_schema(found)
    except Exception as error:  # many kinds of errors, all because of the schema
        raise UsageError(f"the Avro schema cannot be used: {error}") from None
    return found


def _not_null(kind: Any) -> Any:
    """Return the only type besides null; other unions count as nested."""
    if not isinstance(kind, list):
        return kind
    others = [each for each in kind if each != "null"]
    return others[0] if len(others) == 1 else {"type": "record"}


def _kind(kind: Any) -> str:
    return str(kind["type"] if isinstance(kind, dict) else kind)


def _arrow(kind: Any) -> Any:
    pa = need("pyarrow", "spark")
    logical = kind.get("logicalType") if isinstance(kind, dict) else None
    by_logical = {
        "timestamp-millis": pa.timestamp("us", tz="UTC"),
        "timestamp-micros": pa.timestamp("us", tz="UTC"),
        "date": pa.date32(),
    }
    by_kind = {
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "bytes": pa.binary(),
        "fixed": pa.binary(),
    }
    # fastavro returns objects for other logical types: their text is kept.
    if logical is not None:
        return by_logical.get(logical, pa.string())
    return by_kind.get(_kind(kind), pa.string())


def _value(value: Any, nested: bool) -> Any:
    if value is not None and nested:
        return json.dumps(value, default=str, sort_keys=True, separators=(",", ":"))
    return value if isinstance(value, _PLAIN) else str(value)
