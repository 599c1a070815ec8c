"""The request of a send."""

from epochmq.client.core.outgoing import prepare
from epochmq.client.core.send_command import send_command
from epochmq.model.message import Message
from epochmq.model.topic import MessageQueue
from epochmq.wire.codes import RequestCode

QUEUE = MessageQueue("T", "b", 3)


def test_fields() -> None:
    outgoing = prepare(Message("T", b"x", tags="a"), "ID")
    command = send_command(outgoing, RequestCode.SEND_MESSAGE_V2, QUEUE, "P", 1_000)
    ext = command.ext or {}
    assert (command.code, command.body, command.is_oneway) == (310, b"x", False)
    wanted = {"a": "P", "b": "T", "e": "3", "g": "1000", "m": "false", "n": "b"}
    assert {key: ext[key] for key in wanted} == wanted
    batch = send_command(outgoing, RequestCode.SEND_BATCH_MESSAGE, QUEUE, "P", 0, oneway=True)
    assert (batch.is_oneway, (batch.ext or {})["m"]) == (True, "true")
