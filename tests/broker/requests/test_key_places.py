"""KEY_PLACES: where the messages with a key are, asked of a whole broker."""

import pytest
from tests.broker.broker_harness import BrokerHarness, Client, send

from epochmq.base import limits
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.offset_bodies import KeyPlacesBody
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command


def places(client: Client, key: str, topic: str = "T") -> dict[str, tuple[int, int, list[int]]]:
    answer = client.ask(Command(Code.KEY_PLACES, ext={"topic": topic, "key": key}))
    assert answer.code == ResponseCode.SUCCESS, answer
    return decode_body(KeyPlacesBody, answer.body).queues


def filled(**options: object) -> Client:
    """Four messages in queue 0, two in queue 1; every second one has the key "odd" too."""
    harness = BrokerHarness(**options)
    harness.topic("T", 2)
    client = harness.client()
    for number, queue_id in enumerate((0, 0, 1, 0, 1, 0)):
        keys = f"KEYS\x01k{number}" + " odd" * (number % 2) + "\x02"
        client.ask(send(b"body", queue_id=queue_id, properties=keys))
    return client


def test_each_queue_says_what_was_searched_and_found() -> None:
    client = filled()
    assert places(client, "odd") == {"0": (0, 4, [1, 2, 3]), "1": (0, 2, [])}
    assert places(client, "k4") == {"0": (0, 4, []), "1": (0, 2, [1])}
    assert places(client, "none") == {"0": (0, 4, []), "1": (0, 2, [])}


def test_a_topic_that_is_not_there() -> None:
    client = filled()
    answer = client.ask(Command(Code.KEY_PLACES, ext={"topic": "X", "key": "k1"}))
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


def test_a_broker_that_cannot_tell_names_no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    assert places(filled(message_index_enable=False), "odd") == {}
    monkeypatch.setattr(limits, "KEY_PLACES_MAX", 2)
    client = filled()
    assert places(client, "odd") == {}
    assert places(client, "k1")["0"] == (0, 4, [1])
