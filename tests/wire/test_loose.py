"""Bending sloppy JSON towards its types."""

from typing import Any

import pytest
from msgspec import UNSET, Struct, UnsetType, convert
from msgspec.inspect import type_info

from epochmq.wire.json_tolerant import loosen, text_of


class Inner(Struct):
    name: str = ""
    size: int = 0


class Outer(Struct):
    text: str = ""
    number: int = 0
    switch: bool = False
    rate: float = 0.0
    inner: Inner | UnsetType | None = UNSET
    items: list[Inner] = []
    codes: frozenset[int] = frozenset()
    names: tuple[str, ...] = ()
    table: dict[str, str] = {}


@pytest.mark.parametrize(
    ("sloppy", "expected"),
    [
        ({"text": 5}, Outer(text="5")),
        ({"text": True}, Outer(text="true")),
        ({"text": {"a": [1]}}, Outer(text='{"a":[1]}')),
        ({"text": None, "items": None, "unknown": 1}, Outer()),
        ({"number": "007"}, Outer(number=7)),
        ({"number": True}, Outer(number=1)),
        ({"number": 3.0}, Outer(number=3)),
        ({"switch": " TRUE"}, Outer(switch=True)),
        ({"switch": "yes"}, Outer(switch=False)),
        ({"switch": 1}, Outer(switch=True)),
        ({"rate": "1.5"}, Outer(rate=1.5)),
        ({"inner": {"name": 1}}, Outer(inner=Inner("1"))),
        ({"items": [None, {"name": 2}, {"$ref": "$"}]}, Outer(items=[Inner("2")])),
        ({"codes": ["1", 2]}, Outer(codes=frozenset({1, 2}))),
        ({"names": [1, "b"]}, Outer(names=("1", "b"))),
        ({"table": {"a": 1, "b": None, "c": {"$ref": "$"}}}, Outer(table={"a": "1"})),
    ],
)
def test_bent(sloppy: dict[str, Any], expected: Outer) -> None:
    assert convert(loosen(sloppy, type_info(Outer)), Outer, strict=False) == expected


@pytest.mark.parametrize(
    "stiff", [{"inner": 1}, {"items": 1}, {"table": 1}, {"number": "x"}, {"rate": []}]
)
def test_what_cannot_be_bent_stays(stiff: dict[str, Any]) -> None:
    assert loosen(stiff, type_info(Outer)) == stiff


def test_a_union_may_be_null() -> None:
    assert loosen(None, type_info(int | None)) is None


def test_text_of() -> None:
    assert [text_of(v) for v in ("a", True, 1, 1.5, [1])] == ["a", "true", "1", "1.5", "[1]"]
