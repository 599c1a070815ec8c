"""What dead letters have in common."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import UsageError
from epochmq.model.message import StoredMessage
from epochmq.model.record import encode_stored
from epochmq.spark.jobs.dlq_causes import (
    Pick,
    causes,
    check_field,
    dead_of,
    parse_where,
    value_of,
)


def letter(
    offset: int = 0, body: bytes = b"{}", tries: int = 16, **properties: str
) -> StoredMessage:
    given = {"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "AB", "UNIQ_KEY": f"ID{offset}"}
    host = ("127.0.0.1", 1)
    size = len(encode_stored(_stored(offset, body, tries, {}, 0)))
    return _stored(offset, body, tries, {**given, **properties}, size, host)


def _stored(
    offset: int,
    body: bytes,
    tries: int,
    properties: dict[str, str],
    size: int,
    host: tuple[str, int] = ("127.0.0.1", 1),
) -> StoredMessage:
    return StoredMessage(
        "%DLQ%g",
        0,
        offset,
        offset * 100,
        size,
        body,
        0,
        0,
        1,
        host,
        1000 + offset,
        host,
        tries,
        0,
        properties,
        0,
    )


def test_a_letter_says_where_it_came_from() -> None:
    dead = dead_of(letter(5, TAGS="paid", KEYS="k1 k2"), "broker-a")
    assert (dead.place, dead.topic, dead.origin_id) == ("broker-a:0:5", "orders", "AB")
    assert (dead.msg_id, dead.tags, dead.keys, dead.tries) == ("ID5", "paid", "k1 k2", 16)


def test_newer_brokers_say_it_otherwise() -> None:
    message = letter(DLQ_ORIGIN_TOPIC="pay", DLQ_ORIGIN_MESSAGE_ID="CD")
    del message.properties["RETRY_TOPIC"], message.properties["ORIGIN_MESSAGE_ID"]
    dead = dead_of(message, "b")
    assert (dead.topic, dead.origin_id) == ("pay", "CD")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("topic", "orders"),
        ("tries", "16"),
        ("bornHost", "127.0.0.1"),
        ("property:reason", "timeout"),
        ("property:other", ""),
        ("body:error.code", "7"),
        ("body:error.text", "no"),
        ("body:error.none.deep", ""),
    ],
)
def test_fields(name: str, value: str) -> None:
    body = json.dumps({"error": {"code": 7, "text": "no"}}).encode()
    assert value_of(dead_of(letter(body=body, reason="timeout"), "b"), name) == value


@given(st.binary(max_size=60))
def test_any_body_has_a_value(body: bytes) -> None:
    assert isinstance(value_of(dead_of(letter(body=body), "b"), "body:a.b"), str)


def test_groups_are_the_largest_first_and_whole() -> None:
    letters = [dead_of(letter(n, TAGS="a" if n % 3 else "b"), "b") for n in range(9)]
    first, second = causes(letters, ("topic", "tags"), {"b:0:1": "there", "b:0:2": "gone"})
    assert (first.values, first.count) == ({"topic": "orders", "tags": "a"}, 6)
    assert (second.count, second.first_ms, second.last_ms) == (3, 1000, 1006)
    assert first.as_row()["origin"] == {"there": 1, "gone": 1}
    assert first.samples == ["ID1", "ID2", "ID4", "ID5", "ID7"]


def test_picking() -> None:
    dead = dead_of(letter(5, TAGS="paid"), "b")
    assert Pick().matches(dead)
    assert Pick(where=parse_where(("tags=paid", "topic=orders"))).matches(dead)
    assert not Pick(where=parse_where(("tags=open",))).matches(dead)
    assert not Pick(ids=frozenset({"ID6"})).matches(dead)
    assert Pick(since=1005, until=1006).matches(dead)
    assert not Pick(until=1005).matches(dead)


def test_mistakes() -> None:
    for name in ("colour", "property:", "body"):
        with pytest.raises(UsageError, match="has no"):
            check_field(name)
    with pytest.raises(UsageError, match="is not a condition"):
        parse_where(("tags",))
    with pytest.raises(UsageError, match="not behind"):
        Pick(since=5, until=4)
