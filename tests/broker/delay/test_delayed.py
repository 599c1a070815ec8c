"""Into the delay topic and out again: the same message in the same place."""

import msgspec
import pytest
from tests.broker.broker_harness import BrokerHarness, send

from epochmq.broker.delay.delayed import delay, index_keys, restore
from epochmq.model.message import StoredMessage
from epochmq.model.names import HALF_TOPIC, SCHEDULE_TOPIC
from epochmq.model.properties import decode_bytes
from epochmq.model.tags import tags_code
from epochmq.store.draft import Draft


def stored(**properties: str) -> StoredMessage:
    return StoredMessage(
        SCHEDULE_TOPIC, 2, 9, 258, 100, b"body", 7, 1, 11, ("10.0.0.2", 40000), 12,
        ("127.0.0.1", 10911), 3, 0, properties, 0,
    )  # fmt: skip


def test_a_draft_waits_with_its_place_in_properties() -> None:
    draft = Draft("T", 5, b"x", b"TAGS\x01a\x02", 77, ("k",))
    waiting = delay(draft, 3)
    assert (waiting.topic, waiting.queue_id) == (SCHEDULE_TOPIC, 2)
    assert decode_bytes(waiting.properties) == {"TAGS": "a", "REAL_TOPIC": "T", "REAL_QID": "5"}
    assert waiting.keys == ("k",)
    assert draft.topic == "T"


def test_a_stored_message_is_restored() -> None:
    properties = {
        "REAL_TOPIC": "T", "REAL_QID": "5", "DELAY": "3", "TAGS": "a", "KEYS": "k1 k2",
        "UNIQ_KEY": "U", "WAIT": "true",
    }  # fmt: skip
    draft = restore(stored(**properties))
    assert draft is not None
    assert (draft.topic, draft.queue_id, draft.body, draft.flag) == ("T", 5, b"body", 7)
    assert (draft.born_wall_ms, draft.reconsume_times, draft.sys_flag) == (11, 3, 1)
    assert draft.born_host == bytes((10, 0, 0, 2, 0, 0, 0x9C, 0x40))
    assert draft.tags_code == tags_code("a")
    assert draft.keys == ("U", "k1", "k2")
    assert decode_bytes(draft.properties) == {**properties, "WAIT": "false"}


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"REAL_TOPIC": "T", "REAL_QID": "x"},
        {"REAL_TOPIC": "T", "REAL_QID": "9" * 5000},
        {"REAL_TOPIC": HALF_TOPIC, "REAL_QID": "0"},
        {"REAL_TOPIC": SCHEDULE_TOPIC, "REAL_QID": "0"},
    ],
)
def test_what_belongs_nowhere_is_not_restored(properties: dict[str, str]) -> None:
    assert restore(stored(**properties)) is None


def test_index_keys() -> None:
    assert index_keys({}) == ()
    assert index_keys({"KEYS": " a  b "}) == ("a", "b")
    assert index_keys({"UNIQ_KEY": "U"}) == ("U",)


def test_round_trip_through_a_store() -> None:
    harness = BrokerHarness()
    harness.topic("T")
    harness.client().ask(send(b"later", queue_id=3, properties={"DELAY": "1", "a": "b"}))
    (message,) = harness.stored(SCHEDULE_TOPIC, 0)
    draft = restore(message)
    assert draft is not None
    assert (draft.topic, draft.queue_id, draft.body) == ("T", 3, b"later")
    again = restore(msgspec.structs.replace(message, properties=decode_bytes(draft.properties)))
    assert again is not None
    assert again.topic == "T"
