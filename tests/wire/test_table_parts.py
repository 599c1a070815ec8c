"""Joining the parts of a table."""

import json
from typing import Any

import msgspec
import pytest

import epochmq.wire.table_parts as table_parts
from epochmq.base.errors import PeerError
from epochmq.model.topic import TopicConfig
from epochmq.wire.bodies.body import decode_answer, encode_body
from epochmq.wire.bodies.topic_bodies import TopicConfigTable
from epochmq.wire.command import Command
from epochmq.wire.table_parts import TableParts, decode_object


def part(rows: dict[str, Any], stamp: str, **more: Any) -> Command:
    """An answer with the rows of a table in JSON; fields of `more` that begin with `is_` go into
    its header."""
    ext = {"stamp": stamp}
    ext |= {name[3:]: str(value).lower() for name, value in more.items() if name[:3] == "is_"}
    fields = {name: value for name, value in more.items() if name[:3] != "is_"}
    return Command(0, ext=ext, body=json.dumps({"rows": rows, **fields}).encode())


def test_parts_are_joined_and_asked_for_with_the_last_stamp() -> None:
    parts = TableParts(decode_object)
    assert parts.question(1_500) == {"inParts": "true", "waitMillis": "1500"}
    assert not parts.add(part({"a": 1, "b": 2}, "7.2", is_more=True, dataVersion={"counter": 1}))
    # Nothing is applied yet: the replica does not count as one that waits for changes.
    assert parts.question(1_500) == {"inParts": "true", "sinceStamp": "7.2"}
    last = part({"b": 3, "c": 4}, "7.4", is_delta=True, dataVersion={"counter": 2})
    assert parts.add(last)
    assert parts.content == {"rows": {"a": 1, "b": 3, "c": 4}, "dataVersion": {"counter": 2}}
    assert (parts.stamp, parts.is_delta, parts.removed) == ("7.4", False, {})


def test_ordered_batches_are_joined_by_queue() -> None:
    parts = TableParts(decode_object)
    first = {"table": {"T@g": {"0": {"i": 1}, "1": {"i": 2}}, "U@g": {"0": {"i": 3}}}}
    later = {"table": {"T@g": {"1": {"i": 4}, "2": {"i": 5}}}}
    parts.add(Command(0, ext={"stamp": "7.3", "more": "true"}, body=json.dumps(first).encode()))
    parts.add(Command(0, ext={"stamp": "7.5", "delta": "true"}, body=json.dumps(later).encode()))
    assert parts.content == {
        "table": {
            "T@g": {"0": {"i": 1}, "1": {"i": 4}, "2": {"i": 5}},
            "U@g": {"0": {"i": 3}},
        }
    }


def test_rows_that_are_removed_meanwhile_are_not_in_the_copy() -> None:
    parts = TableParts(decode_object)
    parts.add(part({"a": 1, "b": 2}, "7.2", is_more=True))
    parts.add(part({"c": 3}, "7.3", is_delta=True, is_more=True, epochmqRemoved=["a", "b"]))
    parts.add(part({"a": 4}, "7.5", is_delta=True))
    assert parts.content == {"rows": {"a": 4, "c": 3}}


def test_changes_in_parts_keep_what_was_removed() -> None:
    parts = TableParts(decode_object, "7.1")
    parts.add(part({"c": 3}, "7.3", is_delta=True, is_more=True, epochmqRemoved=["a", "b"]))
    parts.add(part({"a": 4}, "7.5", is_delta=True, epochmqRemoved=["d"]))
    assert parts.content == {"rows": {"a": 4, "c": 3}}
    assert (parts.is_delta, list(parts.removed)) == (True, ["b", "d"])


def test_a_whole_table_between_the_parts_begins_again() -> None:
    """The master's rows were replaced, or another master answers."""
    parts = TableParts(decode_object)
    parts.add(part({"a": 1}, "7.2", is_more=True))
    assert parts.add(part({"b": 1}, "8.2"))
    assert parts.content == {"rows": {"b": 1}}


def test_an_answer_without_a_stamp_is_the_whole_table() -> None:
    """RocketMQ's brokers ignore the fields."""
    parts = TableParts(decode_object)
    assert parts.add(Command(0, body=b'{"rows":{"a":1}}'))
    assert (parts.content, parts.stamp) == ({"rows": {"a": 1}}, None)


def test_nothing_changed() -> None:
    parts = TableParts(decode_object, "7.1")
    assert parts.add(Command(0, ext={"stamp": "7.1", "unchanged": "true"}))
    assert parts.content is None


def test_typed_tables() -> None:
    def table(*names: str, **more: Any) -> bytes:
        return encode_body(TopicConfigTable({n: TopicConfig(n, 1, 1) for n in names}, **more))

    parts = TableParts(lambda body: decode_answer(TopicConfigTable, body))
    parts.add(Command(0, ext={"stamp": "7.2", "more": "true"}, body=table("a", "b")))
    removed = table("c", epochmq_removed=["a"])
    parts.add(Command(0, ext={"stamp": "7.4", "delta": "true"}, body=removed))
    assert parts.content is not None
    assert list(parts.content.topic_config_table) == ["b", "c"]
    assert b"epochmq" not in encode_body(parts.content)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"epochmqRemoved":7}'])
def test_what_is_not_a_table_is_refused(body: bytes) -> None:
    with pytest.raises((PeerError, ValueError, msgspec.ValidationError)):
        TableParts(decode_object).add(Command(0, body=body))


def test_a_table_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A master that sends parts for ever."""
    monkeypatch.setattr(table_parts, "TABLE_BYTES_MAX", 1_000)
    parts = TableParts(decode_object)
    parts.add(part({"a": 1}, "7.1", is_more=True))
    big = part({"b": "x" * 1_000}, "7.2", is_delta=True, is_more=True)
    with pytest.raises(PeerError, match="more than 1000 bytes"):
        parts.add(big)
