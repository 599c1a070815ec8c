"""Moving a group's offsets: 222 at the broker, or by telling its clients, 220."""

from epochmq.base.errors import Refused
from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.handlers.common import NodeHandler, check_queue_id, known_topic, ok, queue_of
from epochmq.broker.handlers.queue_bounds import max_offset
from epochmq.broker.offsets.consumer_offsets import NONE
from epochmq.model.queue import MessageQueue
from epochmq.wire.bodies.body import encode_body, mq_map_encode
from epochmq.wire.bodies.offset_bodies import QueueOffsetEntry, ResetOffsetBody, ResetOffsetListBody
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply, request
from epochmq.wire.headers.admin_headers import ResetOffsetHeader
from epochmq.wire.headers.header import decode_header
from epochmq.wire.session import Session

VERSION_RESET = 28
"""Clients from 3.0.7-SNAPSHOT on understand 220 and 221."""

_C_PLUS_PLUS = "CPP"
_ANY_OFFSET = 1 << 62
"""Wakes whoever waits on the queue, wherever in it: members learn of a reset at once."""

Offsets = list[tuple[MessageQueue, int]]


def handle_reset(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """INVOKE_BROKER_TO_RESET_OFFSET 222: to a time, to the end (negative), or to an offset.

    With useServerSideResetOffset the broker itself holds the new offsets until the next pulls take
    them, online or not. Without it, only online clients can be told.
    """
    header = decode_header(ResetOffsetHeader, command.ext)
    known_topic(node, header.topic)
    if node.options.use_server_side_reset_offset:
        offsets = _reset_here(node, header)
    else:
        offsets = _tell_clients(node, header)
    return ok(ResetOffsetBody(mq_map_encode(offsets)))


def _reset_here(node: BrokerNode, header: ResetOffsetHeader) -> Offsets:
    group, topic = header.group, header.topic
    if group not in node.groups:
        text = f"Group {group} does not exist"
        raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
    offsets = [(queue_of(node, topic, n), offset) for n, offset in _wanted(node, header)]
    wall = node.clock.wall_ms()
    node.stats.forget_pulled(topic, group)
    for queue, offset in offsets:
        node.offsets.reset(group, topic, queue.queue_id, offset, wall)
    node.wake([(topic, queue.queue_id, _ANY_OFFSET) for queue, _ in offsets])
    return offsets


def _wanted(node: BrokerNode, header: ResetOffsetHeader) -> list[tuple[int, int]]:
    """(queue id, new offset) for the one queue asked for, or for all that can be read."""
    topic, queue_id = header.topic, header.queueId
    if queue_id is None or queue_id < 0:
        count = known_topic(node, topic).read_queue_nums
        return [(n, _at_time(node, topic, n, header.timestamp)) for n in range(count)]
    check_queue_id(queue_id)
    if header.offset is None or header.offset == -1:
        return [(queue_id, _at_time(node, topic, queue_id, header.timestamp))]
    low, high = node.store.queue_bounds(topic, queue_id)
    if not low <= header.offset <= high + 1:
        text = f"Target offset {header.offset} not in consume queue range [{low}-{high}]"
        raise Refused(ResponseCode.SYSTEM_ERROR, text)
    return [(queue_id, header.offset)]


def _at_time(node: BrokerNode, topic: str, queue_id: int, wall_ms: int) -> int:
    if wall_ms < 0:
        return max_offset(node, topic, queue_id)
    return max(0, node.store.offset_by_time(topic, queue_id, wall_ms))


def _tell_clients(node: BrokerNode, header: ResetOffsetHeader) -> Offsets:
    offsets = _compared(node, header)
    group = node.consumers.group(header.group)
    if group is None:
        raise Refused(
            ResponseCode.CONSUMER_NOT_ONLINE,
            f"Consumer not online, so can not reset offset, Group: {header.group}"
            f" Topic: {header.topic} Timestamp: {header.timestamp}",
        )
    members = list(group.members.values())
    for member in members:
        check_version(member.version)
    for member in members:
        push = ResetOffsetHeader(header.group, header.topic, header.timestamp, header.isForce)
        body = _body_for(member.language, offsets)
        member.session.oneway(request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, push, body))
    return offsets


def check_version(version: int) -> None:
    """`Refused` 1 for a client too old to be told or asked."""
    if version < VERSION_RESET:
        text = f"the client does not support this feature. version={version}"
        raise Refused(ResponseCode.SYSTEM_ERROR, text)


def _compared(node: BrokerNode, header: ResetOffsetHeader) -> Offsets:
    """New offsets of all queues: forward only when forced."""
    offsets: Offsets = []
    for queue_id in range(known_topic(node, header.topic).write_queue_nums):
        consumed = node.offsets.get(header.group, header.topic, queue_id)
        if consumed == NONE:
            text = f"THe consumer group <{header.group}> not exist"
            raise Refused(ResponseCode.SYSTEM_ERROR, text)
        wanted = _at_time(node, header.topic, queue_id, header.timestamp)
        moved = wanted if header.isForce else min(wanted, consumed)
        offsets.append((queue_of(node, header.topic, queue_id), moved))
    return offsets


def _body_for(language: str, offsets: Offsets) -> bytes:
    if language != _C_PLUS_PLUS:
        return encode_body(ResetOffsetBody(mq_map_encode(offsets)))
    entries = [QueueOffsetEntry(q.topic, q.broker_name, q.queue_id, at) for q, at in offsets]
    return encode_body(ResetOffsetListBody(entries))


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: handle_reset,
}
