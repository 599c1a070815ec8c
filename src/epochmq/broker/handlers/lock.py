"""Queue locks over the wire: 41 and 42. This broker's only; the quorum of strict mode is not."""

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.handlers.common import NodeHandler, ok
from epochmq.broker.node import BrokerNode
from epochmq.model import names
from epochmq.wire.bodies.base import decode_body
from epochmq.wire.bodies.lock import LockBatchRequest, LockBatchResponse
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.session import Session


def handle_lock(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """LOCK_BATCH_MQ 41: the queues that the client holds from now on."""
    body = _request(command)
    queues = [queue for queue in body.mq_set if queue.topic in node.topics]
    held = node.locks.lock(body.consumer_group, queues, body.client_id, now)
    return ok(LockBatchResponse(held))


def handle_unlock(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """UNLOCK_BATCH_MQ 42, often one-way."""
    body = _request(command)
    node.locks.unlock(body.consumer_group, body.mq_set, body.client_id)
    return Reply()


def _request(command: Command) -> LockBatchRequest:
    body = decode_body(LockBatchRequest, command.body)
    names.check_group(body.consumer_group)
    if not 0 < len(body.client_id) <= limits.CLIENT_ID_LENGTH_MAX:
        raise Refused(ResponseCode.SYSTEM_ERROR, "the client id is empty or too long")
    return body


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.LOCK_BATCH_MQ: handle_lock,
    RequestCode.UNLOCK_BATCH_MQ: handle_unlock,
}
