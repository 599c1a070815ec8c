"""Bounds of columns: no value of a file lies outside, and what cannot be bounded has no bounds."""

import json
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.tables.archive_table import plain
from epochmq.tables.column_bounds import (
    LAST_CHARACTER,
    TEXT_MAX,
    ColumnBounds,
    footer_columns,
)

TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(lambda t: t.replace(tzinfo=UTC))
COLUMNS = (
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=TEXT_MAX + 4)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", tz="UTC"), TIMES),
)


def bounds(kind: pa.DataType, *parts: list[Any]) -> list[Any]:
    found = ColumnBounds()
    for part in parts:
        found.add(pa.table({"c": pa.array(part, kind)}))
    return found.found.get("c", [None, None, 0])


@given(st.data())
def test_no_value_lies_outside(data: st.DataObject) -> None:
    kind, values = data.draw(st.sampled_from(COLUMNS))
    parts = data.draw(st.lists(st.lists(st.none() | values, max_size=5), min_size=1, max_size=3))
    every = [value for part in parts for value in part]
    present = [value for value in every if value is not None]
    low, high, nulls = bounds(kind, *parts)
    assert nulls == len(every) - len(present)
    assert json.loads(json.dumps([low, high])) == [low, high]
    if low is None or high is None:
        assert low is high is None
        assert not present or kind == pa.string()
        return
    for value in present:
        if isinstance(value, datetime):
            assert low <= plain(value)
            assert value <= datetime.fromisoformat(high)
        elif isinstance(value, date):
            assert low <= value.isoformat() <= high
        elif isinstance(value, str):
            assert low.encode() <= value.encode() <= high.encode()
        else:
            assert low <= value <= high


@pytest.mark.parametrize(
    "parts",
    [
        ([1.0, float("nan")],),
        ([1.0], [float("nan")], [2.0]),
        ([1.0, float("inf")],),
        ([None, None],),
        ([],),
    ],
)
def test_numbers_without_bounds(parts: tuple[list[Any], ...]) -> None:
    """A reader may count NaN as larger than every number."""
    assert bounds(pa.float64(), *parts)[:2] == [None, None]


def test_long_text_is_cut() -> None:
    cut = "b" * TEXT_MAX
    assert bounds(pa.string(), ["a" * 99, "b" * 99]) == ["a" * TEXT_MAX, cut + LAST_CHARACTER, 0]
    last = cut + LAST_CHARACTER * 2
    assert bounds(pa.string(), ["a", None], [last], ["a"]) == [None, None, 1]


def test_columns_of_the_footer() -> None:
    schema = pa.schema(
        {
            "n": pa.int32(),
            "x": pa.float64(),
            "s": pa.string(),
            "b": pa.binary(),
            "local": pa.timestamp("us"),
            "m": pa.map_(pa.string(), pa.string()),
        }
    )
    assert footer_columns(schema) == ["n", "s"]
