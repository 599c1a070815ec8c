"""Values as Java prints them."""

import datetime

import pytest

from epochmq.admin.shared.java_text import (
    bytes_of,
    fields_of,
    harmless,
    moment,
    parse_time,
    pretty_json,
    second,
    text_of,
)
from epochmq.base.errors import UsageError

LOCAL = datetime.datetime(2024, 5, 1, 12, 30, 59, 7_000)
LOCAL_MS = round(LOCAL.timestamp() * 1000)


def test_values() -> None:
    assert text_of(None) == "null"
    assert text_of(True) == "true"
    assert text_of({"a": 1, "b": None, "c": False}) == "{a=1, b=null, c=false}"
    assert text_of("x\x1b[2J") == "x\\x1b[2J"
    assert harmless("a\tb\nc\x07\x9b") == "a\tb\nc\\x07\\x9b"
    assert bytes_of(b"a\xff") == "[97, -1]"
    assert bytes_of(b"") == "[]"
    assert fields_of("A", {"b": 1, "c": "d"}, " []") == "A [b=1, c=d]"
    assert fields_of("A", {}, "{}") == "A{}"


def test_times() -> None:
    assert moment(LOCAL_MS) == "2024-05-01 12:30:59,007"
    assert second(LOCAL_MS) == "2024-05-01 12:30:59"
    assert parse_time("2024-05-01#12:30:59:007", 5) == LOCAL_MS
    assert parse_time("now", 5) == 5
    assert parse_time("-1", 5) == -1
    assert parse_time("1714564800000", 5) == 1714564800000
    for wrong in ("", "yesterday", "2024-05-01", "2024-13-01#00:00:00:000"):
        with pytest.raises(UsageError, match="is not a time"):
            parse_time(wrong, 5)


def test_json() -> None:
    assert pretty_json({}) == "{}"
    assert pretty_json([]) == "[]"
    assert pretty_json({0: "a", 1: "b"}) == '{0:"a",1:"b"\n}'
    assert (
        pretty_json({"a": [1, {"b": True}]})
        == '{\n\t"a":[\n\t\t1,\n\t\t{\n\t\t\t"b":true\n\t\t}\n\t]\n}'
    )
