"""The answer of a broker to a send, as a value."""

from dataclasses import dataclass

from epochmq.base.errors import Refused
from epochmq.client.core.outgoing import Outgoing
from epochmq.client.core.send_policy import SendStatus, SendVerdict, judge, status_of
from epochmq.model.topic import MessageQueue
from epochmq.wire.command import Command
from epochmq.wire.header import decode_header
from epochmq.wire.headers.send_headers import SendResponseHeader


@dataclass(frozen=True, slots=True)
class SendResult:
    """The answer to a send.

    Attributes:
        status: how safely the broker holds the message.
        msg_id: the id that the client gave (UNIQ_KEY). After `send_batch`: all ids, joined by
            commas.
        offset_msg_id: the id that the broker gave: its address and the offset in its commit log.
        queue: the queue that holds the message.
        queue_offset: the index of the message in that queue.
        transaction_id: the id of the transaction, if the broker sent one.
        recall_handle: the argument for `Producer.recall`. Only messages with an exact delivery time
            have one, and only where the broker allows recall (recallMessageEnable).
        region_id: the region of the broker, if it has sent one.
        is_traced: whether the broker allows the message to be traced (traceOn).
    """

    status: SendStatus
    msg_id: str
    offset_msg_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    recall_handle: str | None = None
    region_id: str | None = None
    is_traced: bool = True


def result_of(outgoing: Outgoing, queue: MessageQueue, answer: Command) -> SendResult:
    """Return the result in an answer. Raises `Refused` if the broker stored nothing."""
    if judge(answer.code) is not SendVerdict.STORED:
        raise Refused(answer.code, answer.remark or f"refused with code {answer.code}")
    header = decode_header(SendResponseHeader, answer.ext)
    return SendResult(
        status_of(answer.code),
        outgoing.uniq_id,
        header.msgId,
        MessageQueue(outgoing.topic, queue.broker_name, header.queueId),
        header.queueOffset,
        header.transactionId,
        header.recallHandle,
        header.MSG_REGION,
        header.TRACE_ON != "false",
    )
