"""How far the timer is: GET_TIMER_CHECK_POINT 60, GET_TIMER_METRICS 61.

Replicas ask both, and a returning master asks who stood in for it.
"""

from epochmq.base.errors import Refused
from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.handlers.common import NodeHandler
from epochmq.broker.replica_sync.stamps import stamped
from epochmq.broker.timer.timer_service import TimerService
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.session import Session


def handle_check_point(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """60: 56 bytes, and what our own replicas read behind them
    (`store/timer/timer_checkpoint.py`)."""
    body = _timer(node, "The checkpoint is null").progress.answer()
    return stamped(command, (body[:32] + body[56:]).hex(), lambda: body)


def handle_metrics(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """61: how many messages of each topic wait."""
    metrics = _timer(node, "The timerMessageStore is null").driver.metrics
    return stamped(command, f"{node.started_wall_ms}.{metrics.updates}", metrics.encode)


def _timer(node: BrokerNode, remark: str) -> TimerService:
    if node.timer is None:
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)
    return node.timer


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.GET_TIMER_CHECK_POINT: handle_check_point,
    RequestCode.GET_TIMER_METRICS: handle_metrics,
}
