"""Results of sends, from the answers of brokers."""

import pytest

from epochmq.base.errors import Refused
from epochmq.client.core.outgoing import Outgoing
from epochmq.client.core.send_policy import SendStatus
from epochmq.client.core.send_result import SendResult, result_of
from epochmq.model.topic import MessageQueue
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, request, response

QUEUE = MessageQueue("t", "broker-a", 1)
OUTGOING = Outgoing("t", b"", "", 0, 0, "ID1")


def answer(code: int = ResponseCode.SUCCESS, **more: str) -> Command:
    ext = {"msgId": "OFFSET", "queueId": "3", "queueOffset": "7", **more}
    return response(request(10), code, "why not", ext)


def test_where_a_message_is() -> None:
    assert result_of(OUTGOING, QUEUE, answer()) == SendResult(
        SendStatus.SEND_OK, "ID1", "OFFSET", MessageQueue("t", "broker-a", 3), 7
    )


@pytest.mark.parametrize(("text", "traced"), [("true", True), ("false", False), ("?", True)])
def test_whether_the_broker_allows_a_trace(text: str, traced: bool) -> None:
    found = result_of(OUTGOING, QUEUE, answer(MSG_REGION="eu", TRACE_ON=text))
    assert (found.region_id, found.is_traced) == ("eu", traced)


def test_a_refusal() -> None:
    with pytest.raises(Refused, match="why not"):
        result_of(OUTGOING, QUEUE, answer(ResponseCode.SYSTEM_ERROR))
