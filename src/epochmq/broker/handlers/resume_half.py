"""RESUME_CHECK_HALF_MESSAGE 323: ask again about a transaction that was given up.

An operator names the message by its offset id, in TRANS_CHECK_MAX_TIME_TOPIC. It is put back as a
half message that was never asked about, as RocketMQ does, which takes any other message as well.
"""

from collections.abc import Sequence

from epochmq.base.errors import Refused
from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.handlers.common import NodeHandler
from epochmq.broker.internal_writes.internal_writer import Origin, WriteOutcome
from epochmq.broker.transaction.half import resumed
from epochmq.model import record
from epochmq.model.host import BadAddress
from epochmq.model.message_id import BadMessageId, parse_offset_id
from epochmq.model.names import TRANS_CHECK_MAX_TIME_TOPIC
from epochmq.store.draft import Draft
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.headers.header import decode_header
from epochmq.wire.headers.transaction_headers import ResumeCheckHalfHeader
from epochmq.wire.session import Session

FAILED = "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."


def handle_resume(node: BrokerNode, command: Command, session: Session, now: int) -> Held:
    header = decode_header(ResumeCheckHalfHeader, command.ext)
    draft = _given_up(node, header.msgId or "")

    def done(outcomes: Sequence[WriteOutcome]) -> None:
        held = outcomes[0] is WriteOutcome.STORED
        session.answer(command, Reply() if held else Reply(ResponseCode.SYSTEM_ERROR, FAILED))

    node.internal_writer.put([draft], Origin.RETRY, node.clock.wall_ms(), done)
    return HELD


def _given_up(node: BrokerNode, msg_id: str) -> Draft:
    """The half message to write; `Refused` when the id names nothing that was given up."""
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


HANDLERS: dict[int, NodeHandler] = {RequestCode.RESUME_CHECK_HALF_MESSAGE: handle_resume}
