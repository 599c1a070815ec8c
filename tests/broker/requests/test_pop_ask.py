"""Peeking, notifications and polling info: nothing is taken by them."""

from typing import Any

from tests.broker.broker_harness import Client, ext
from tests.broker.pop_harness import PopHarness, command, pop

from epochmq.model.record import decode_all
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command


def peek(**more: Any) -> Command:
    fields = {"consumerGroup": "G", "topic": "T", "queueId": -1, "maxMsgNums": 32}
    return command(Code.PEEK_MESSAGE, **(fields | more))


def notify(**more: Any) -> Command:
    fields = {"consumerGroup": "G", "topic": "T", "queueId": -1, "pollTime": 15_000, "bornTime": 0}
    return command(Code.NOTIFICATION, **(fields | more))


def waiting(harness: PopHarness, **more: Any) -> str:
    fields = {"consumerGroup": "G", "topic": "T", "queueId": -1}
    answer = harness.client().ask(command(Code.POLLING_INFO, **(fields | more)))
    return ext(answer)["pollingNum"]


def test_a_peek_takes_nothing() -> None:
    harness = PopHarness()
    harness.put(b"a", b"b", b"c")
    for _ in range(2):
        answer = harness.client().ask(peek(maxMsgNums=2))
        assert [one.body for one in decode_all(bytes(answer.body))] == [b"a", b"b"]
        assert ext(answer)["restNum"] == "1"
    harness.pop(count=1)
    answer = harness.client().ask(peek(queueId=0))
    assert [one.body for one in decode_all(bytes(answer.body))] == [b"b", b"c"]
    harness.pop()
    assert harness.client().ask(peek()).code == ResponseCode.PULL_NOT_FOUND


def test_refusals() -> None:
    harness = PopHarness()
    for asked in (peek, notify):
        assert harness.client().ask(asked(topic="X")).code == ResponseCode.TOPIC_NOT_EXIST
        assert harness.client().ask(asked(queueId=1)).code == ResponseCode.SYSTEM_ERROR


def answered(client: Client) -> str | None:
    answers = client.take()
    return ext(answers[0])["hasMsg"] if answers else None


def test_a_notification_at_once() -> None:
    harness = PopHarness()
    harness.put(b"a")
    assert ext(harness.client().ask(notify()))["hasMsg"] == "true"
    assert harness.offset() == -1
    harness.pop()
    assert ext(harness.client().ask(notify(pollTime=0)))["hasMsg"] == "false"


def test_a_notification_that_waits() -> None:
    harness = PopHarness()
    client, other = harness.client(), harness.client()
    client.put(notify())
    other.put(notify())
    harness.turn()
    assert answered(client) is None
    harness.put(b"a")
    assert (answered(client), answered(other)) == ("true", "true")
    assert len(harness.pop()) == 1
    client.put(notify())
    harness.tick(15_000)
    assert answered(client) == "false"


def test_no_room_to_wait() -> None:
    harness = PopHarness(pop_polling_size=1)
    harness.client().put(notify())
    assert ext(harness.client().ask(notify()))["pollingFull"] == "true"


def test_an_ordered_batch_that_is_out_is_no_news() -> None:
    harness = PopHarness()
    harness.put(b"a", b"b")
    harness.pop(order="true", count=1)
    assert ext(harness.client().ask(notify(order="true", pollTime=0)))["hasMsg"] == "false"


def test_how_many_wait() -> None:
    harness = PopHarness()
    assert waiting(harness) == "0"
    harness.client().put(pop(poll_ms=15_000))
    harness.client().put(pop(poll_ms=15_000))
    assert waiting(harness) == "2"
    assert waiting(harness, queueId=0) == "0"
