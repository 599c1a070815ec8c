"""END_TRANSACTION 37: commit or roll back a transaction, or report "unknown"."""

from collections.abc import Sequence

from epochmq.base.errors import Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.internal_writes.internal_writer import Origin, WriteOutcome
from epochmq.broker.requests.common import NodeHandler
from epochmq.broker.transaction.ending import nobody
from epochmq.broker.transaction.half_messages import resumed
from epochmq.model import record
from epochmq.model.host import BadAddress
from epochmq.model.message_id import BadMessageId, parse_offset_id
from epochmq.model.names import TRANS_CHECK_MAX_TIME_TOPIC
from epochmq.store.draft import Draft
from epochmq.store.native_send import StagedEnds
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.fast_headers import AnyEnd
from epochmq.wire.headers.send_headers import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    EndTransactionHeader,
    ResumeCheckHalfHeader,
)
from epochmq.wire.session import Session


def handle_end(node: BrokerContext, command: Command, session: Session, now: int) -> Reply | Held:
    """Decode and process a request END_TRANSACTION 37 from the request table."""
    header = decode_header(EndTransactionHeader, command.ext)
    return end(node, header, command, session, now)


def end(
    node: BrokerContext,
    header: AnyEnd,
    command: Command,
    session: Session,
    now: int,
) -> Reply | Held:
    """End a transaction; answers when the result is flushed and replicated as configured.

    The `Reply` to a one-way request is not sent: it says when the request was done.

    Raises `Refused` 11 when another broker is master, and 2 while a new master searches for open
    transactions. RocketMQ does not answer "unknown"; here the answer is SUCCESS.
    """
    if header.commitOrRollback not in (UNKNOWN, COMMIT, ROLLBACK):
        raise Refused(ResponseCode.SYSTEM_ERROR, "commitOrRollback field wrong")
    _check_serves(node, now)
    if header.commitOrRollback == UNKNOWN:
        return Reply()
    _check_ready(node)
    if command.is_oneway:
        node.transactions.end(header, now, nobody, wanted=False)
        return Reply()
    node.transactions.end(header, now, lambda reply: session.answer(command, reply), wanted=True)
    return HELD


def end_together(node: BrokerContext, ends: StagedEnds, now: int) -> None:
    """Process all one-way commits and rollbacks that the native code collected in a turn.

    None of them is answered.
    """
    code = ResponseCode.SUCCESS
    try:
        _check_serves(node, now)
        _check_ready(node)
        node.transactions.end_together(ends, now)
    except Refused as error:
        code = ResponseCode(error.code)
    times = node.request_times
    times.count(RequestCode.END_TRANSACTION, code, now, len(ends.ends), is_oneway=True)


def _check_serves(node: BrokerContext, now: int) -> None:
    if not node.transactions.serves(now) and not node.serving.rights.writable:
        raise Refused(
            ResponseCode.SLAVE_NOT_AVAILABLE,
            "Message store is slave mode, so end transaction is forbidden. ",
        )


def _check_ready(node: BrokerContext) -> None:
    if not node.transactions.ready:
        raise Refused(
            ResponseCode.SYSTEM_BUSY,
            "this broker became master just now and looks which transactions are open; end the"
            " transaction again",
        )


# Resume half ---------------------------------------------------------------------------------
# RESUME_CHECK_HALF_MESSAGE 323: check a transaction again that had the maximum number of checks.
#
# An operator names the message in TRANS_CHECK_MAX_TIME_TOPIC by its message id. The message is
# written again as a half message without checks, as in RocketMQ. RocketMQ also accepts messages of
# any other topic.


FAILED = "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."


def handle_resume(node: BrokerContext, command: Command, session: Session, now: int) -> Held:
    """Write a half message again (RESUME_CHECK_HALF_MESSAGE 323); raises `Refused`."""
    header = decode_header(ResumeCheckHalfHeader, command.ext)
    draft = _given_up(node, header.msgId or "")

    def done(outcomes: Sequence[WriteOutcome]) -> None:
        held = outcomes[0] is WriteOutcome.STORED
        session.answer(command, Reply() if held else Reply(ResponseCode.SYSTEM_ERROR, FAILED))

    node.internal_writer.put([draft], Origin.RETRY, node.clock.wall_ms(), done)
    return HELD


def read_given_up(node: BrokerContext, command: Command) -> None:
    """Read the message that RESUME_CHECK_HALF_MESSAGE names; raises `Refused`, `HeaderError`."""
    _given_up(node, decode_header(ResumeCheckHalfHeader, command.ext).msgId or "")


def _given_up(node: BrokerContext, msg_id: str) -> Draft:
    """Return the half message to write.

    Raises `Refused` when the id is not one of a message in TRANS_CHECK_MAX_TIME_TOPIC.
    """
    try:
        offset = parse_offset_id(msg_id)[2]
    except (BadMessageId, BadAddress) as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None
    raw = node.store.message_at(offset)
    message = None if raw is None else record.decode(raw)
    if message is None or message.topic != TRANS_CHECK_MAX_TIME_TOPIC:
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"no message of {TRANS_CHECK_MAX_TIME_TOPIC} has the id {msg_id[:64]}",
        )
    draft = resumed(message, node.options.broker_name)
    if draft is None:
        raise Refused(ResponseCode.SYSTEM_ERROR, "the message names no topic")
    return draft


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.END_TRANSACTION: handle_end,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: handle_resume,
}
