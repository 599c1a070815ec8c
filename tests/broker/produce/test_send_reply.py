"""A reply goes to who asked; who replied hears how that went."""

import pytest
from tests.broker.broker_harness import BrokerHarness, Client, ext, send

from epochmq.broker.consume.client_tables import ClientMember
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, response

TOPIC = "c_REPLY_TOPIC"
PROPERTIES = {"REPLY_TO_CLIENT": "asker", "CORRELATION_ID": "7", "MSG_TYPE": "reply"}


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness()
    harness.topic(TOPIC, queues=1)
    return harness


def asker(harness: BrokerHarness) -> Client:
    client = harness.client()
    harness.node.producers.heartbeat("P", ClientMember(client.session, "asker", "JAVA", 401, 0))
    return client


def reply(code: int = Code.SEND_REPLY_MESSAGE_V2, **properties: str) -> Command:
    return send(b"answer", topic=TOPIC, code=code, properties={**PROPERTIES, **properties})


@pytest.mark.parametrize("code", [Code.SEND_REPLY_MESSAGE, Code.SEND_REPLY_MESSAGE_V2])
def test_the_reply_is_pushed_and_stored(harness: BrokerHarness, code: int) -> None:
    waiting, replier = asker(harness), harness.client()
    replier.put(reply(code))
    harness.turn()
    assert replier.take() == []
    (pushed,) = waiting.take()
    assert pushed.code == Code.PUSH_REPLY_MESSAGE_TO_CLIENT
    assert bytes(pushed.body) == b"answer"
    fields = ext(pushed)
    assert fields["topic"] == TOPIC
    assert fields["bornHost"] == replier.session.peer
    assert fields["storeHost"] == "127.0.0.1:10911"
    assert "PUSH_REPLY_TIME\x01" in fields["properties"]
    waiting.put(response(pushed, 0))
    (answer,) = replier.take()
    assert (answer.code, ext(answer)["msgId"]) == (0, "0")
    (copy,) = harness.stored(TOPIC)
    assert copy.properties["CORRELATION_ID"] == "7"


def test_a_refused_push_and_a_lost_asker(harness: BrokerHarness) -> None:
    waiting, replier = asker(harness), harness.client()
    replier.put(reply(), reply())
    first, _second = waiting.take()
    waiting.put(response(first, 1))
    assert [answer.code for answer in replier.take()] == [ResponseCode.SYSTEM_ERROR]
    waiting.session.lost()
    assert [answer.code for answer in replier.take()] == [ResponseCode.SYSTEM_ERROR]


def test_nobody_to_push_to(harness: BrokerHarness) -> None:
    answer = harness.client().ask(reply())
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "push reply message fail, channel of <asker> not found."
    answer = harness.client().ask(send(topic=TOPIC, code=Code.SEND_REPLY_MESSAGE_V2))
    assert "REPLY_TO_CLIENT" in (answer.remark or "")


def test_storing_can_be_off() -> None:
    harness = BrokerHarness(store_reply_message_enable=False)
    harness.topic(TOPIC, queues=1)
    asker(harness)
    harness.client().put(reply())
    assert harness.stored(TOPIC) == []


def test_an_empty_reply_is_illegal(harness: BrokerHarness) -> None:
    command = send(b"", topic=TOPIC, code=Code.SEND_REPLY_MESSAGE_V2, properties=PROPERTIES)
    assert harness.client().ask(command).code == ResponseCode.MESSAGE_ILLEGAL
