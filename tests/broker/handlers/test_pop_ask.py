"""Peeking, notifications and polling info: nothing is taken by them."""

from typing import Any

from tests.broker.desk import Client, ext
from tests.broker.pop_desk import PopDesk, command, pop

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


def waiting(desk: PopDesk, **more: Any) -> str:
    fields = {"consumerGroup": "G", "topic": "T", "queueId": -1}
    answer = desk.client().ask(command(Code.POLLING_INFO, **(fields | more)))
    return ext(answer)["pollingNum"]


def test_a_peek_takes_nothing() -> None:
    desk = PopDesk()
    desk.put(b"a", b"b", b"c")
    for _ in range(2):
        answer = desk.client().ask(peek(maxMsgNums=2))
        assert [one.body for one in decode_all(bytes(answer.body))] == [b"a", b"b"]
        assert ext(answer)["restNum"] == "1"
    desk.pop(count=1)
    answer = desk.client().ask(peek(queueId=0))
    assert [one.body for one in decode_all(bytes(answer.body))] == [b"b", b"c"]
    desk.pop()
    assert desk.client().ask(peek()).code == ResponseCode.PULL_NOT_FOUND


def test_refusals() -> None:
    desk = PopDesk()
    for asked in (peek, notify):
        assert desk.client().ask(asked(topic="X")).code == ResponseCode.TOPIC_NOT_EXIST
        assert desk.client().ask(asked(queueId=1)).code == ResponseCode.SYSTEM_ERROR


def answered(client: Client) -> str | None:
    answers = client.take()
    return ext(answers[0])["hasMsg"] if answers else None


def test_a_notification_at_once() -> None:
    desk = PopDesk()
    desk.put(b"a")
    assert ext(desk.client().ask(notify()))["hasMsg"] == "true"
    assert desk.offset() == -1
    desk.pop()
    assert ext(desk.client().ask(notify(pollTime=0)))["hasMsg"] == "false"


def test_a_notification_that_waits() -> None:
    desk = PopDesk()
    client, other = desk.client(), desk.client()
    client.put(notify())
    other.put(notify())
    desk.turn()
    assert answered(client) is None
    desk.put(b"a")
    assert (answered(client), answered(other)) == ("true", "true")
    assert len(desk.pop()) == 1
    client.put(notify())
    desk.tick(15_000)
    assert answered(client) == "false"


def test_no_room_to_wait() -> None:
    desk = PopDesk(pop_polling_size=1)
    desk.client().put(notify())
    assert ext(desk.client().ask(notify()))["pollingFull"] == "true"


def test_an_ordered_batch_that_is_out_is_no_news() -> None:
    desk = PopDesk()
    desk.put(b"a", b"b")
    desk.pop(order="true", count=1)
    assert ext(desk.client().ask(notify(order="true", pollTime=0)))["hasMsg"] == "false"


def test_how_many_wait() -> None:
    desk = PopDesk()
    assert waiting(desk) == "0"
    desk.client().put(pop(poll_ms=15_000))
    desk.client().put(pop(poll_ms=15_000))
    assert waiting(desk) == "2"
    assert waiting(desk, queueId=0) == "0"
