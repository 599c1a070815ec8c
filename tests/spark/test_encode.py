"""Rows to messages: every column, and a complaint that names the row for everything that is bad."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import UsageError
from epochmq.model.properties import decode
from epochmq.spark.encode import Encoder, SinkRow

MAP = pa.map_(pa.string(), pa.string())


def encode(columns: dict[str, Any], *, topic: str = "T", **more: Any) -> list[SinkRow]:
    """The rows of one batch."""
    batch = pa.RecordBatch.from_pydict(columns)
    return list(Encoder(batch.schema, topic=topic, **more).rows(batch))


def test_a_body_is_enough() -> None:
    (row,) = encode({"body": [b"x"]})
    assert (row.topic, row.body, row.text, row.key, row.queue_id) == ("T", b"x", "", None, None)
    assert (row.flag, row.alone, row.number, row.broker_name) == (0, False, 0, None)


def test_all_columns_arrive() -> None:
    properties = pa.array([[("a", "1"), ("b", "2")], None], MAP)
    first, second = encode(
        {
            "topic": ["A", None],
            "value": ["täxt", "y"],
            "keys": pa.array([["k1", "k2"], None], pa.list_(pa.string())),
            "tags": ["red", ""],
            "properties": properties,
            "orderingKey": pa.array([7, None], pa.int64()),
            "queueId": pa.array([None, 3], pa.int32()),
            "brokerName": [None, "broker-b"],
            "flag": pa.array([None, 5], pa.int32()),
        }
    )
    assert (first.topic, first.body, first.key) == ("A", "täxt".encode(), "7")
    assert decode(first.text) == {
        "a": "1",
        "b": "2",
        "KEYS": "k1 k2",
        "TAGS": "red",
        "__SHARDINGKEY": "7",
    }
    assert (second.topic, second.text, second.key) == ("T", "", None)
    assert (second.queue_id, second.broker_name, second.flag) == (3, "broker-b", 5)


def test_delays_and_retry_topics_travel_alone() -> None:
    when = datetime(2026, 11, 22, 8, tzinfo=UTC)
    rows = encode(
        {
            "body": [b"1", b"2", b"3"],
            "delayTimeLevel": pa.array([3, 0, None], pa.int32()),
            "deliverTime": pa.array([None, when, None], pa.timestamp("us", tz="UTC")),
        }
    )
    assert [row.alone for row in rows] == [True, True, False]
    assert [decode(row.text) for row in rows] == [
        {"DELAY": "3"},
        {"TIMER_DELIVER_MS": str(int(when.timestamp() * 1_000))},
        {},
    ]
    assert encode({"body": [b"x"]}, topic="%RETRY%g")[0].alone
    rows = encode({"body": [b"x", b"y"], "topic": ["%RETRY%g", "g"]})
    assert [row.alone for row in rows] == [True, False]


def test_numbers_go_on_over_batches_and_empty_ones_do_not_count() -> None:
    batch = pa.RecordBatch.from_pydict({"body": [b"a", b"b"]})
    encoder = Encoder(batch.schema, topic="T")
    numbers = [
        row.number for each in (batch, batch.slice(0, 0), batch) for row in encoder.rows(each)
    ]
    assert numbers == [0, 1, 2, 3]


def test_slices_of_maps_and_lists_stay_whole() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "body": [b"a", b"b", b"c"],
            "keys": pa.array([["0"], ["1", "2"], []], pa.list_(pa.string())),
            "properties": pa.array([[("x", "0")], [("x", "1")], [("x", "2")]], MAP),
        }
    ).slice(1)
    rows = list(Encoder(batch.schema, topic="T").rows(batch))
    assert [decode(row.text) for row in rows] == [{"x": "1", "KEYS": "1 2"}, {"x": "2"}]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"body": [b"a", None]}, "row 1 of partition 4 has no body"),
        ({"body": [b"a", b""]}, "row 1 of partition 4 has no body"),
        ({"body": [b"a", b"123456789"]}, "row 1 .* body of 9 bytes, over maxMessageBytes = 8"),
        ({"body": [b"a"], "topic": ["a b"]}, "row 0 .*forbidden character"),
        ({"body": [b"a"], "topic": ["SCHEDULE_TOPIC_XXXX"]}, "row 0 .*belongs to the brokers"),
        ({"body": [b"a"], "tags": ["a\x02b"]}, "row 0 .*control character.*'tags'"),
        ({"body": [b"a"], "keys": [["a b"]]}, "row 0 .*blank"),
        ({"body": [b"a"], "keys": pa.array([["a", None]])}, "row 0 .*blank or null"),
        ({"body": [b"a", b"b"], "delayTimeLevel": [0, -1]}, "row 1 .*delayTimeLevel outside"),
        ({"body": [b"a"], "delayTimeLevel": [1], "deliverTime": [9]}, "row 0 .*both"),
        ({"body": [b"a"], "tags": ["x" * 40_000]}, "row 0 .*bytes of properties"),
        (
            {"body": [b"a", b"b"], "properties": pa.array([[], [("a", "b\x02c")]], MAP)},
            "row 1 .*control character",
        ),
    ],
)
def test_a_bad_row_is_named(columns: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        encode(columns, partition=4, max_message_bytes=8)


def test_a_row_without_any_topic_is_named() -> None:
    with pytest.raises(UsageError, match="row 1 of partition 0 has no topic"):
        encode({"body": [b"a", b"b"], "topic": ["A", None]}, topic="")


_words = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=6
)


@given(st.lists(st.tuples(_words, st.dictionaries(_words, _words, max_size=4)), max_size=8))
def test_properties_come_back_as_they_went(drawn: list[tuple[str, dict[str, str]]]) -> None:
    rows = encode(
        {
            "body": pa.array([b"x"] * len(drawn), pa.binary()),
            "tags": pa.array([tag for tag, _ in drawn], pa.string()),
            "properties": pa.array([list(pairs.items()) for _, pairs in drawn], MAP),
        }
    )
    for row, (tag, pairs) in zip(rows, drawn, strict=True):
        wanted = {name: value for name, value in pairs.items() if name and value}
        assert decode(row.text) == ({**wanted, "TAGS": tag} if tag else wanted)
