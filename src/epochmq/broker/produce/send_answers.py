"""Answers to sends: response code, remark and header, with a fast encoding of the usual answer."""

import msgspec

from epochmq.base.limits import TRANSACTION_ID_LENGTH_MAX
from epochmq.broker.config.options import BrokerOptions
from epochmq.model.message_id import offset_id
from epochmq.store.draft import Appended, PutStatus
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.headers.hot_replies import HotReplies
from epochmq.wire.headers.send_headers import SendResponseHeader
from epochmq.wire.session import Session

STATUS_CODES = {
    PutStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.WHEEL_TIMER_MSG_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
}
"""Response codes by store status; every other status is SYSTEM_ERROR."""

REMARKS = {
    PutStatus.SERVICE_NOT_AVAILABLE: (
        "service not available now. The broker's disk is full or failing, it is not a master, or"
        " its store has been shut down."
    ),
    PutStatus.CREATE_MAPPED_FILE_FAILED: ("create mapped file failed, server is busy or broken."),
    PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH: "in-sync replicas not enough",
    PutStatus.WHEEL_TIMER_FLOW_CONTROL: (
        "timer message is under flow control, max num limit is reached for its time"
    ),
    PutStatus.WHEEL_TIMER_NOT_ENABLE: "accurate timer message is not enabled",
}


class Ticket(msgspec.Struct, gc=False):
    """The request behind a staged draft, kept until the send is answered.

    `command` is None for a request that came as a hot frame (JSON, not one-way). `code` is the
    request's, `arrived_ms` the monotonic time of its arrival.
    """

    session: Session
    opaque: int
    command: Command | None
    queue_id: int
    uniq_key: str
    code: int
    arrived_ms: int
    wait: bool
    """False when the answer must not wait for flush and replicas (property WAIT)."""
    recall: str = ""
    """The handle that recalls a timed message (RECALL_MESSAGE); empty for other messages."""

    def request(self) -> Command:
        """Return the request, as far as its answer needs it."""
        if self.command is not None:
            return self.command
        return Command(self.code, opaque=self.opaque, arrived_ms=self.arrived_ms)


def refusal(status: PutStatus, options: BrokerOptions) -> Reply:
    """Return the answer for a message that was not stored; it shows the limit of `options`."""
    code = STATUS_CODES.get(status, ResponseCode.SYSTEM_ERROR)
    if status is PutStatus.WHEEL_TIMER_MSG_ILLEGAL:
        return Reply(
            code,
            "timer message illegal, the delay time should not be bigger than the max"
            " delay (timerMaxDelaySec), and a number; or if set del msg, the delay time"
            f" should be bigger than the current time; timerMaxDelaySec is"
            f" {options.timer_max_delay_sec} here",
        )
    if code is ResponseCode.MESSAGE_ILLEGAL:
        remark = (
            "the message is illegal, maybe msg body or properties length not matched."
            f" msg body length limit {options.max_message_size}B, msg properties length limit 32KB."
        )
    else:
        remark = REMARKS.get(status, f"{status.name}: the message was not stored")
    return Reply(code, remark)


class SendAnswers:
    """Encodes the answers of one broker; replaced when the options that it shows change."""

    def __init__(self, store_host: bytes, region: str, trace_on: bool) -> None:
        self._host = store_host
        self.id_format = store_host.hex().upper().encode() + b"%016X"
        """Format of a message id: applied to a log offset with `%`."""
        self._region = region
        self._trace = "true" if trace_on else "false"
        hot = HotReplies(region=region, trace_on=trace_on)
        self.reply = hot.send_reply
        self.reply_parts = hot.send_parts()

    def answer(self, ticket: Ticket, result: Appended, code: int) -> None:
        """Answer one stored message with `code`, in the encoding of its request."""
        header = self.header(ticket.queue_id, [result], ticket.uniq_key)
        header.recallHandle = ticket.recall or None
        ticket.session.answer(ticket.request(), Reply(code, header=header))

    def refuse(self, ticket: Ticket, reply: Reply) -> None:
        """Answer a message that was not stored."""
        ticket.session.answer(ticket.request(), reply)

    def header(
        self,
        queue_id: int,
        results: list[Appended],
        uniq_key: str | None,
        batch_uniq_id: str | None = None,
    ) -> SendResponseHeader:
        """Return the header of the answer to a send; a batch has one message id per message."""
        ids = ",".join([offset_id(self._host, result.offset) for result in results])
        return self.header_of(queue_id, ids, results[0].queue_offset, uniq_key, batch_uniq_id)

    def header_of(
        self,
        queue_id: int,
        ids: str,
        queue_offset: int,
        uniq_key: str | None,
        batch_uniq_id: str | None = None,
    ) -> SendResponseHeader:
        """Return the header like `header`, from message ids that are already joined by commas."""
        return SendResponseHeader(
            msgId=ids,
            queueId=queue_id,
            queueOffset=queue_offset,
            transactionId=uniq_key and uniq_key[:TRANSACTION_ID_LENGTH_MAX],
            batchUniqId=batch_uniq_id,
            MSG_REGION=self._region,
            TRACE_ON=self._trace,
        )
