"""Where queues begin and end, and what they held when: 29 to 32."""

from epochmq.base.errors import Refused
from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.handlers.common import NodeHandler
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.headers.header import decode_header
from epochmq.wire.headers.offset_headers import (
    GetEarliestStoreTimeHeader,
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    OffsetResponseHeader,
    SearchOffsetHeader,
    TimestampResponseHeader,
)
from epochmq.wire.session import Session

_UPPER = "UPPER"
_BOUNDARIES = ("LOWER", _UPPER)


def handle_search(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """SEARCH_OFFSET_BY_TIMESTAMP 29: the first message at or after a time; 0 for no queue."""
    header = decode_header(SearchOffsetHeader, command.ext)
    boundary = (header.boundaryType or "LOWER").upper()
    if boundary not in _BOUNDARIES:
        text = f"boundaryType {header.boundaryType} is neither LOWER nor UPPER"
        raise Refused(ResponseCode.SYSTEM_ERROR, text)
    offset = node.store.offset_by_time(
        header.topic, header.queueId, header.timestamp, boundary == _UPPER
    )
    return Reply(header=OffsetResponseHeader(offset))


def handle_max(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """GET_MAX_OFFSET 30: one past the last message; 0 for no queue."""
    header = decode_header(GetMaxOffsetHeader, command.ext)
    return Reply(header=OffsetResponseHeader(max_offset(node, header.topic, header.queueId)))


def handle_min(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """GET_MIN_OFFSET 31: the first message there is; -1 for a topic that does not exist.

    And for an empty queue of a topic with batch queues, as RocketMQ answers.
    """
    header = decode_header(GetMinOffsetHeader, command.ext)
    low, high = node.store.queue_bounds(header.topic, header.queueId)
    is_batch = node.topics.has_batch_queues(header.topic)
    unknown = low == high == 0 and (is_batch is None or is_batch)
    return Reply(header=OffsetResponseHeader(-1 if unknown else low))


def handle_earliest(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """GET_EARLIEST_MSG_STORETIME 32: wall ms of the first message; -1 when there is none."""
    header = decode_header(GetEarliestStoreTimeHeader, command.ext)
    time = earliest_time(node, header.topic, header.queueId)
    return Reply(header=TimestampResponseHeader(time))


def max_offset(node: BrokerNode, topic: str, queue_id: int) -> int:
    """One past the last message that may be read."""
    return max(0, node.store.queue_bounds(topic, queue_id)[1])


def earliest_time(node: BrokerNode, topic: str, queue_id: int) -> int:
    """Store time of the queue's first message; -1 when there is none."""
    low, high = node.store.queue_bounds(topic, queue_id)
    return node.store.store_time(topic, queue_id, low) if low < high else -1


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: handle_search,
    RequestCode.GET_MAX_OFFSET: handle_max,
    RequestCode.GET_MIN_OFFSET: handle_min,
    RequestCode.GET_EARLIEST_MSG_STORETIME: handle_earliest,
}
