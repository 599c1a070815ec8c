"""Typed columns: what fits becomes columns, what does not becomes a dead letter with its reason."""

import pyarrow as pa
import pytest

from epochmq.base.errors import UsageError
from epochmq.spark.typed import NOT_TYPED, Typing, check_names


def batch(*bodies: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"body": pa.array(bodies, pa.binary())})


def test_without_a_format_all_rows_fit() -> None:
    given = batch(b"\xff")
    assert NOT_TYPED.parser()(given) == (given, None)
    assert NOT_TYPED.fields() == []


def test_rows_are_split() -> None:
    typing = Typing("json", "n int, s string", prefix="j_")
    fits, fails = typing.parser()(batch(b'{"n": 1}', b"[]", b'{"n": 2, "s": "x"}', b"{"))
    assert fits.to_pylist() == [
        {"body": b'{"n": 1}', "j_n": 1, "j_s": None},
        {"body": b'{"n": 2, "s": "x"}', "j_n": 2, "j_s": "x"},
    ]
    assert [row["body"] for row in fails.to_pylist()] == [b"[]", b"{"]
    assert fails["error"].to_pylist()[0] == "a JSON list where an object is wanted"
    assert [field.name for field in typing.fields()] == ["j_n", "j_s"]


def test_a_value_too_large_for_its_column_spoils_one_row_only() -> None:
    fits, fails = Typing("json", "n int").parser()(batch(b'{"n": 1}', b'{"n": 3000000000}'))
    assert fits["n"].to_pylist() == [1]
    assert fails.num_rows == 1
    assert "3000000000" in fails["error"].to_pylist()[0]


def test_no_rows_and_no_body() -> None:
    fits, fails = Typing("json", "n int").parser()(batch())
    assert (fits.num_rows, fails.num_rows) == (0, 0)
    _, fails = Typing("json", "n int").parser()(batch(None))  # type: ignore[arg-type]
    assert fails.num_rows == 1


def test_names_of_other_columns_are_refused() -> None:
    with pytest.raises(UsageError, match="typed columns body, error have names of other columns"):
        check_names(Typing("json", "error string, body string").fields(), ["body", "error"])
    with pytest.raises(UsageError, match="'xml' is not a format of bodies"):
        Typing("xml").fields()
