"""JSON bodies to columns."""

from typing import Any

import pytest

from epochmq.base.errors import UsageError
from epochmq.spark.typed import Typing, Unparsable
from epochmq.spark.typed_json import fields, parser

COLUMNS = "s string, n bigint, x double, b boolean, j json"


def test_types() -> None:
    found = {each.name: str(each.type) for each in fields(Typing("json", COLUMNS))}
    assert found == {"s": "string", "n": "int64", "x": "double", "b": "bool", "j": "string"}


def test_values() -> None:
    parse = parser(Typing("json", COLUMNS))
    body = b'{"s": "a", "n": 1, "x": 2, "b": true, "j": {"z": [1, null]}, "more": 1}'
    assert parse(body) == {"s": "a", "n": 1, "x": 2, "b": True, "j": '{"z":[1,null]}'}
    assert parse(b'{"s": null}') == {}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        ('{"s": "a"}'.encode("utf-16"), "no JSON"),
        ('{"s": "a"}'.encode("utf-16-be"), "no JSON"),
        ('{"s": "a"}'.encode("utf-32"), "no JSON"),
        ('{"s": "a"}'.encode("utf-8-sig"), "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b'"text"', "a JSON str where an object is wanted"),
        (b'{"s": 1}', "field 's' is 1, no string"),
        (b'{"n": "1"}', "field 'n' is \"1\", no integer"),
        (b'{"n": 1.5}', "no integer"),
        (b'{"n": true}', "no integer"),
        (b'{"x": false}', "no number"),
        (b'{"b": 0}', "no boolean"),
    ],
)
def test_what_does_not_fit_is_said(body: bytes, said: str) -> None:
    with pytest.raises(Unparsable, match=said):
        parser(Typing("json", COLUMNS))(body)


@pytest.mark.parametrize("schema", ["", "n", "n number", "n int, n int", "1n int", "n int;"])
def test_bad_schemas(schema: str) -> None:
    with pytest.raises(UsageError):
        fields(Typing("json", schema))


def test_no_body_ever_raises_anything_else() -> None:
    from hypothesis import given
    from hypothesis import strategies as st

    parse = parser(Typing("json", COLUMNS))
    scalars: Any = st.none() | st.booleans() | st.integers() | st.floats() | st.text()

    @given(st.binary() | st.dictionaries(st.sampled_from("snxbj"), scalars).map(_dumps))
    def holds(body: bytes) -> None:
        try:
            parse(body)
        except Unparsable:
            pass

    holds()


def _dumps(value: object) -> bytes:
    import json

    return json.dumps(value).encode()
