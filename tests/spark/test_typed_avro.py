"""Avro bodies to columns."""

import datetime
import io
import json
from typing import Any

import fastavro
import pytest

from epochmq.base.errors import UsageError
from epochmq.spark.typed import Typing, Unparsable
from epochmq.spark.typed_avro import fields, parser

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "delay", "type": ["null", "double"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "legs", "type": {"type": "array", "items": "int"}},
        {"name": "raw", "type": "bytes"},
    ],
}
TYPING = Typing("avro", json.dumps(SCHEMA))
AT = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
ROW = {"carrier": "UA", "delay": 1.5, "at": AT, "day": AT.date(), "legs": [1, 2], "raw": b"\x00"}


def encoded(row: dict[str, Any] = ROW) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), row)
    return out.getvalue()


def test_types() -> None:
    found = {each.name: str(each.type) for each in fields(TYPING)}
    assert found == {
        "carrier": "string",
        "delay": "double",
        "at": "timestamp[us, tz=UTC]",
        "day": "date32[day]",
        "legs": "string",
        "raw": "binary",
    }


@pytest.mark.parametrize("header", [b"", b"\x00\x00\x00\x00\x07", b"\xc3\x01" + b"f" * 8])
def test_values_plain_and_behind_headers(header: bytes) -> None:
    assert parser(TYPING)(header + encoded()) == {**ROW, "legs": "[1,2]"}


def test_nulls() -> None:
    found = parser(TYPING)(encoded({**ROW, "delay": None, "day": None}))
    assert (found["delay"], found["day"]) == (None, None)


@pytest.mark.parametrize("body", [b"", b"\xff" * 9, encoded() + b"x", encoded()[:-1]])
def test_what_does_not_fit(body: bytes) -> None:
    with pytest.raises(Unparsable):
        parser(TYPING)(body)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("{", "is not JSON"),
        ('"string"', "must be a record"),
        ('{"type": "record", "name": "A", "fields": [{"name": "a", "type": "no"}]}', "used"),
    ],
)
def test_bad_schemas(schema: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        fields(Typing("avro", schema))
