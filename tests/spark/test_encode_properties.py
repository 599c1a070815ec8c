"""The column `properties`: which pairs are written, and how."""

from typing import Any

import pyarrow as pa
import pytest

from epochmq.spark.encode_columns import properties_text

MAP = pa.map_(pa.string(), pa.string())


def fail_if_any(bad: pa.Array, why: str) -> None:
    if True in bad.to_pylist():
        raise ValueError(f"{bad.to_pylist().index(True)}: {why}")


def text(*rows: Any, taken: frozenset[str] = frozenset()) -> list[str | None]:
    found: list[str | None] = properties_text(pa.array(rows, MAP), taken, fail_if_any).to_pylist()
    return found


def test_pairs_are_joined_and_empty_sides_left_out() -> None:
    rows = [[("a", "1"), ("b", "2")], [("", "1"), ("b", ""), ("c", None)], [], None]
    assert text(*rows) == ["a\x011\x02b\x012", None, None, None]


def test_what_belongs_to_one_stored_message_is_left_out() -> None:
    read = [("UNIQ_KEY", "1"), ("TAGS", "t"), ("CLUSTER", "c"), ("x", "y"), ("__SINK_SEQ", "9")]
    assert text(read) == ["TAGS\x01t\x02x\x01y"]
    assert text(read, taken=frozenset({"TAGS"})) == ["x\x01y"]
    assert text([("__RMQ.TRANSIENT.a", "b"), ("DELAY", "3")]) == [None]


def test_the_raw_form_is_read_as_brokers_do() -> None:
    column = pa.array(["a\x011\x02\x02b\x012\x02MSG_REGION\x01r", None])
    assert properties_text(column, frozenset(), fail_if_any).to_pylist() == [
        "a\x011\x02b\x012",
        None,
    ]


@pytest.mark.parametrize("pair", [("a\x01", "b"), ("a\x02", "b"), ("a", "b\x02")])
def test_separators_are_found_in_their_row(pair: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=r"^1: has a control character"):
        text([("a", "b"), ("c", "d")], [("x", "y"), pair])


def test_an_equals_sign_of_the_protocol_may_stand_in_a_value() -> None:
    assert text([("a", "b\x01c")]) == ["a\x01b\x01c"]
