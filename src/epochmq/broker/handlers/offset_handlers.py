"""Consumer offsets over the wire: 14, 15, and the tables a slave copies, 43 and 45."""

from epochmq.base.errors import Refused
from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.handlers.common import NodeHandler, check_queue_id, known_group, known_topic
from epochmq.broker.locks.votes import another_holds
from epochmq.broker.offsets.consumer_offsets import NONE
from epochmq.broker.replica_sync.stamps import StampHeader, count_since, since, stamped
from epochmq.model import record
from epochmq.wire import json_tolerant
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.headers.header import decode_header
from epochmq.wire.headers.offset_headers import (
    OffsetResponseHeader,
    QueryConsumerOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from epochmq.wire.session import Session

_NO_ZERO = "Not found, do not set to zero, maybe this group boot first"
_FIRST_TIME = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"


def handle_query(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """QUERY_CONSUMER_OFFSET 14: where the group goes on; 22 when the client is to decide.

    A group that never committed starts at 0 while the queue still has its first message and that is
    not far back. Only a client that sends setZeroIfNotFound=false (5.0) is always told 22.
    """
    header = decode_header(QueryConsumerOffsetHeader, command.ext)
    offset = node.offsets.get(header.consumerGroup, header.topic, header.queueId)
    if offset == NONE:
        if header.setZeroIfNotFound is False:
            raise Refused(ResponseCode.QUERY_NOT_FOUND, _NO_ZERO)
        if not _young(node, header.topic, header.queueId):
            raise Refused(ResponseCode.QUERY_NOT_FOUND, _FIRST_TIME)
        offset = 0
    return Reply(header=OffsetResponseHeader(offset))


def _young(node: BrokerNode, topic: str, queue_id: int) -> bool:
    """Whether a new group should begin with the queue's first message."""
    low, high = node.store.queue_bounds(topic, queue_id)
    if low > 0:
        return False
    if high <= 0:
        return True
    found = node.store.read_queue(topic, queue_id, 0, 1, 1, None)
    if not found.chunks:
        return False
    lag = node.store.pointers.readable - record.offset_at(found.chunks[0], 0)
    return lag <= node.options.memory_window_bytes


def handle_update(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """UPDATE_CONSUMER_OFFSET 15, mostly one-way; 17 and 26 for what does not exist."""
    header = decode_header(UpdateConsumerOffsetHeader, command.ext)
    group, topic, queue_id = header.consumerGroup, header.topic, header.queueId
    known_topic(node, topic)
    known_group(node, group)
    check_queue_id(queue_id)
    if header.commitOffset < 0:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"commitOffset {header.commitOffset} is negative")
    if node.options.use_server_side_reset_offset and node.offsets.has_reset(group, topic, queue_id):
        # The client commits what it had before the reset; its next pull will learn of that.
        return Reply(remark="Offset has been previously reset")
    if another_holds(node, session, group, topic, queue_id, now):
        text = f"another consumer of {group} holds {topic}:{queue_id}; its progress is not put back"
        raise Refused(ResponseCode.SYSTEM_ERROR, text)
    node.offsets.commit(group, topic, queue_id, header.commitOffset, node.clock.wall_ms())
    return Reply()


def handle_all_offsets(
    node: BrokerNode, command: Command, session: Session, now: int
) -> Reply | Held:
    """GET_ALL_CONSUMER_OFFSET 43: the whole table, or for our replicas what changed of it."""

    def stamp() -> str:
        return f"{node.started_wall_ms}.{node.offsets.changes}"

    def answer() -> None:
        session.answer(command, _all_offsets(node, command, stamp()))

    if node.watchers.hold(command, now, stamp, answer):
        return HELD
    return _all_offsets(node, command, stamp())


def _all_offsets(node: BrokerNode, command: Command, stamp: str) -> Reply:
    offsets = node.offsets
    count = count_since(command, node.started_wall_ms)
    if count is not None and since(command) != stamp:
        rows = offsets.changed_since(count)
        if rows is not None:
            body = json_tolerant.dumps(offsets.content(rows))
            return Reply(header=StampHeader(stamp, delta=True), body=body)
    return stamped(command, stamp, offsets.encode)


def handle_delay_offsets(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """GET_ALL_DELAY_OFFSET 45: how far each delay level is delivered."""
    stamp = f"{node.started_wall_ms}.{node.schedule.updates}"
    return stamped(command, stamp, node.delay_offsets.encode)


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.QUERY_CONSUMER_OFFSET: handle_query,
    RequestCode.UPDATE_CONSUMER_OFFSET: handle_update,
    RequestCode.GET_ALL_CONSUMER_OFFSET: handle_all_offsets,
    RequestCode.GET_ALL_DELAY_OFFSET: handle_delay_offsets,
}
