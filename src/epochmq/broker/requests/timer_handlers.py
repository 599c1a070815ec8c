"""Timed messages: RECALL_MESSAGE 370 cancels one by its recall handle; timer tables 60 and 61.

Checks, codes and the written record are those of RocketMQ 5.3.3. The record is a cancellation with
the same topic, in the same slot of the timer (`broker/delay/timed.py`). The answer is sent when the
record is stored.
"""

from collections.abc import Sequence

from epochmq.base.errors import PeerError, Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.delay.timer_service import TimerService
from epochmq.broker.internal_writes.internal_writer import Origin, WriteOutcome
from epochmq.broker.produce.send_special import timed_draft
from epochmq.broker.requests.common import NodeHandler
from epochmq.broker.serving.roles import Role
from epochmq.broker.state.stamps import stamped
from epochmq.model import property_names as prop
from epochmq.model.properties import encode
from epochmq.model.recall_handle import RecallHandle, parse
from epochmq.model.tags import tags_code
from epochmq.model.topic import is_writable
from epochmq.store.draft import Draft
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.send_headers import RecallHeader, RecallResponseHeader
from epochmq.wire.session import Session

TAG = "_RECALL_TAG_"
BODY = b"0"


def handle_recall(node: BrokerContext, command: Command, session: Session, now: int) -> Held:
    """Cancel a timed message by its recall handle (RECALL_MESSAGE 370).

    Returns `HELD` and answers when the cancellation is stored; raises `Refused`.
    """
    header = decode_header(RecallHeader, command.ext)
    _check_broker(node)
    if header.topic not in node.topics:
        raise Refused(
            ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{header.topic}] not exist"
        )
    handle = _checked(node, header)
    wall = node.clock.wall_ms()
    draft = timed_draft(node, _cancellation(handle, header.producerGroup, session, wall))

    answer = RecallResponseHeader(handle.uniq_key, node.options.region_id)

    def done(outcomes: Sequence[WriteOutcome]) -> None:
        if outcomes[0] is WriteOutcome.STORED:
            session.answer(command, Reply(header=answer))
        else:
            text = "recall failed, execute error"
            session.answer(command, Reply(ResponseCode.SYSTEM_ERROR, text))

    node.internal_writer.put([draft], Origin.RECALL, wall, done)
    return HELD


def _check_broker(node: BrokerContext) -> None:
    """Raise `Refused` when this broker cannot recall messages now."""
    options = node.options
    if not options.recall_message_enable:
        raise Refused(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
    code = None
    if node.serving.role is not Role.MASTER:
        code = ResponseCode.SLAVE_NOT_AVAILABLE
    elif not node.serving.rights.writable:
        code = ResponseCode.SERVICE_NOT_AVAILABLE
    elif not options.allow_recall_when_broker_not_writeable:
        closed = not is_writable(options.broker_permission)
        code = ResponseCode.SERVICE_NOT_AVAILABLE if closed else None
    if code is not None:
        raise Refused(code, "recall failed, broker service not available")


def _checked(node: BrokerContext, header: RecallHeader) -> RecallHandle:
    """Parse and check the recall handle.

    Raises `Refused` 604 when it is invalid, of another broker, or when its time is past.
    """
    try:
        handle = parse(header.recallHandle)
    except PeerError as error:
        raise Refused(ResponseCode.ILLEGAL_OPERATION, str(error)) from None
    left_ms = handle.deliver_wall_ms - node.clock.wall_ms()
    problem = ""
    if handle.topic != header.topic:
        problem = "topic not match"
    elif handle.broker_name != node.options.broker_name:
        problem = "broker service not available"
    elif not 0 < left_ms < node.options.timer_max_delay_sec * 1000:
        problem = "timestamp invalid"
    if problem:
        raise Refused(ResponseCode.ILLEGAL_OPERATION, f"recall failed, {problem}")
    return handle


def _cancellation(handle: RecallHandle, group: str | None, session: Session, wall: int) -> Draft:
    properties = {
        prop.TIMER_DEL_UNIQKEY: f"{handle.topic}+{handle.uniq_key}",
        prop.UNIQ_KEY: handle.uniq_key,
        prop.TIMER_DELIVER_MS: str(handle.deliver_wall_ms),
        prop.TAGS: TAG,
        prop.PGROUP: group or "",
    }
    return Draft(
        topic=handle.topic,
        queue_id=0,
        body=BODY,
        properties=encode(properties).encode(),
        tags_code=tags_code(TAG),
        keys=(handle.uniq_key,),
        born_wall_ms=wall,
        born_host=session.peer_packed,
    )


# Timer ---------------------------------------------------------------------------------------
# Progress of the timer: GET_TIMER_CHECK_POINT 60, GET_TIMER_METRICS 61.
#
# Replicas send both requests to their master; a returning master sends them to the acting master.


def handle_check_point(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer the timer's check point (GET_TIMER_CHECK_POINT 60).

    The body has RocketMQ's 56 bytes, and more for EpochMQ's replicas
    (`store/timer/timer_checkpoint.py`).
    """
    body = _timer(node, "The checkpoint is null").progress.answer()
    return stamped(command, (body[:32] + body[56:]).hex(), lambda: body)


def handle_metrics(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer how many timed messages of each topic wait (GET_TIMER_METRICS 61)."""
    metrics = _timer(node, "The timerMessageStore is null").driver.metrics
    return stamped(command, f"{node.started_wall_ms}.{metrics.updates}", metrics.encode)


def _timer(node: BrokerContext, remark: str) -> TimerService:
    if node.timer is None:
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)
    return node.timer


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.RECALL_MESSAGE: handle_recall,
    RequestCode.GET_TIMER_CHECK_POINT: handle_check_point,
    RequestCode.GET_TIMER_METRICS: handle_metrics,
}
