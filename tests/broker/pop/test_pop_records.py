"""Check points and acknowledgements as RocketMQ writes them, both generations."""

from typing import Any

import msgspec
import pytest

from epochmq.broker.pop.pop_records import (
    CheckPoint,
    Key,
    PopAckRecord,
    ack_draft,
    check_point_draft,
    read,
    with_done,
)
from epochmq.model import record
from epochmq.model.tags import tags_code
from epochmq.store.draft import Draft

KEY = Key("T", "G", 300, 7, 1700, "b")


def point(**more: Any) -> CheckPoint:
    fields: dict[str, Any] = {
        "topic": "T", "group": "G", "queue_id": 300, "start": 7, "pop_time": 1700,
        "invisible_time": 60_000, "deltas": [0, 2], "count": 2, "broker_name": "b",
    }  # fmt: skip
    return CheckPoint(**(fields | more))


def stored(draft: Draft) -> memoryview:
    """The draft as the log would have it."""
    data = record.encode(
        topic=draft.topic.encode(), queue_id=draft.queue_id, queue_offset=0, offset=0,
        body=draft.body, properties=draft.properties, flag=0, sys_flag=0, born_wall_ms=1,
        born_host=b"\x7f\0\0\x01\0\0\0\0", store_wall_ms=2, store_host=b"\x7f\0\0\x01\0\0\0\0",
        reconsume_times=0, prepared_offset=0,
    )  # fmt: skip
    return memoryview(data)


def plain(tag: str, body: object) -> memoryview:
    text = f"TAGS\x01{tag}".encode()
    return stored(Draft("R", 0, msgspec.json.encode(body), text))


def test_a_check_point_comes_back_as_it_was() -> None:
    draft = check_point_draft(point(), "R", 3, 5)
    assert (draft.topic, draft.queue_id, draft.tags_code) == ("R", 3, tags_code("ck"))
    assert b"UNIQ_KEY\x01T@300@7@G@1700@b@ck" in draft.properties
    assert msgspec.json.decode(draft.body) == {
        "so": 7, "pt": 1700, "it": 60_000, "bm": 0, "n": 2, "q": 300, "t": "T", "c": "G", "ro": 0,
        "d": [0, 2], "bn": "b",
    }  # fmt: skip
    found = read(stored(draft), "other")
    assert found == point()
    assert isinstance(found, CheckPoint)
    assert (found.key, found.offsets(), found.due_wall_ms) == (KEY, [7, 9], 61_700)


def test_the_bits_are_a_java_int() -> None:
    many = point(deltas=list(range(32)), count=32)
    marked = with_done(with_done(many, 1 << 31), 1)
    assert marked.bits == -(1 << 31) + 1
    assert marked.done == 1 << 31 | 1


def test_one_acknowledgement_and_several() -> None:
    one = ack_draft(KEY, [9], "R", 3, 5, b"\x7f\0\0\x01\0\0\0\0")
    assert b"UNIQ_KEY\x01T@300@9@G@1700@b@ack" in one.properties
    assert read(stored(one), "other") == PopAckRecord(KEY, [9])
    assert msgspec.json.decode(one.body)["ao"] == 9
    both = ack_draft(KEY, [7, 9], "R", 3, 5, b"\x7f\0\0\x01\0\0\0\0")
    assert b"TAGS\x01bAck" in both.properties
    assert read(stored(both), "other") == PopAckRecord(KEY, [7, 9])


def test_what_5_0_wrote() -> None:
    body = {
        "ackOffset": 9, "startOffset": 7, "consumerGroup": "G", "topic": "T", "queueId": 300,
        "popTime": 1700, "brokerName": "b",
    }  # fmt: skip
    assert read(plain("ack", body), "other") == PopAckRecord(KEY, [9])
    old = {"so": 7, "pt": 1700, "it": 1, "bm": 0, "n": 2, "q": 3, "t": "T", "c": "G", "ro": 4}
    found = read(plain("ck", old), "own")
    assert isinstance(found, CheckPoint)
    assert (found.offsets(), found.broker_name) == ([7, 8], "own")


@pytest.mark.parametrize(
    ("tag", "body"),
    [
        ("ck", {"t": "T", "n": 1}),
        ("ck", {"t": "T", "c": "G", "n": 0}),
        ("ck", {"t": "T", "c": "G", "n": 33}),
        ("ck", {"t": "T", "c": "G", "n": 1, "d": [0] * 33}),
        ("ck", [1]),
        ("ack", "no"),
        ("other", {}),
    ],
)
def test_what_says_nothing_is_left_out(tag: str, body: object) -> None:
    assert read(plain(tag, body), "b") is None


def test_an_acknowledgement_of_nothing_has_no_offsets() -> None:
    found = read(plain("ack", {"t": "T"}), "b")
    assert isinstance(found, PopAckRecord)
    assert found.offsets == []
