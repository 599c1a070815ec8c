"""Consumer offsets: query 14, commit 15, the tables that slaves copy (43, 45), and reset 222."""

from epochmq.base.errors import Refused
from epochmq.base.unbounded import UNLIMITED
from epochmq.broker.consume.consumer_offsets import NONE
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.group.lock_ballot import another_holds
from epochmq.broker.requests.common import (
    NodeHandler,
    check_queue_id,
    known_group,
    known_topic,
    ok,
    queue_of,
    watched_rows,
)
from epochmq.broker.requests.query_handlers import max_offset
from epochmq.broker.state.stamps import stamped
from epochmq.model import record
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies.body import encode_body, mq_map_encode
from epochmq.wire.bodies.offset_bodies import QueueOffsetEntry, ResetOffsetBody, ResetOffsetListBody
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Held, Reply, request
from epochmq.wire.header import decode_header
from epochmq.wire.headers.admin_headers import ResetOffsetHeader
from epochmq.wire.headers.offset_headers import (
    OffsetResponseHeader,
    QueryConsumerOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from epochmq.wire.session import Session

_NO_ZERO = "Not found, do not set to zero, maybe this group boot first"
_FIRST_TIME = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"


def handle_query(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer the committed offset of a group (QUERY_CONSUMER_OFFSET 14).

    A group without a commit begins at 0 while the queue's first message exists and is recent.
    Otherwise `Refused` 22 is raised and the client decides. A client that sends
    setZeroIfNotFound=false (5.0) always gets 22 then.
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


def _young(node: BrokerContext, topic: str, queue_id: int) -> bool:
    """Return whether a new group should begin at the queue's first message."""
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


def handle_update(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Commit an offset (UPDATE_CONSUMER_OFFSET 15), usually one-way.

    Raises `Refused` 17 or 26 for an unknown topic or group, 1 for an invalid offset.
    """
    header = decode_header(UpdateConsumerOffsetHeader, command.ext)
    group, topic, queue_id = header.consumerGroup, header.topic, header.queueId
    known_topic(node, topic)
    known_group(node, group)
    check_queue_id(queue_id)
    if header.commitOffset < 0:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"commitOffset {header.commitOffset} is negative")
    if node.options.use_server_side_reset_offset:
        # The client commits an offset from before the reset; its next pull gets the new offset.
        queue, offsets = (group, topic, queue_id), node.offsets
        if offsets.has_reset(*queue) or offsets.delivered_resets.hides(
            *queue, header.commitOffset, now
        ):
            return Reply(remark="Offset has been previously reset")
    if another_holds(node, session, group, topic, queue_id, now):
        text = f"another consumer of {group} holds {topic}:{queue_id}; its progress is not put back"
        raise Refused(ResponseCode.SYSTEM_ERROR, text)
    node.offsets.commit(group, topic, queue_id, header.commitOffset, node.clock.wall_ms())
    return Reply()


def handle_all_offsets(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply | Held:
    """Answer the table of offsets, or its changes to a replica (GET_ALL_CONSUMER_OFFSET 43)."""
    return watched_rows(node, command, session, now, node.offsets)


def handle_delay_offsets(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply:
    """Answer the delivered offset of each delay level (GET_ALL_DELAY_OFFSET 45)."""
    stamp = f"{node.started_wall_ms}.{node.schedule.updates}"
    return stamped(command, stamp, node.delay_offsets.encode)


# Reset handlers ------------------------------------------------------------------------------
# Reset of a group's offsets: 222 in the broker, or by its clients with 220.


VERSION_RESET = 28
"""Clients from 3.0.7-SNAPSHOT on know 220 and 221."""

_C_PLUS_PLUS = "CPP"

Offsets = list[tuple[MessageQueue, int]]


def handle_reset(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Reset a group's offsets (INVOKE_BROKER_TO_RESET_OFFSET 222).

    The target is a time, the end of the queue (negative time), or an offset. With
    useServerSideResetOffset the broker keeps the new offsets until the next pulls, even for an
    offline group. Without it, only online clients can be reset.
    """
    header = decode_header(ResetOffsetHeader, command.ext)
    known_topic(node, header.topic)
    if node.options.use_server_side_reset_offset:
        offsets = _reset_here(node, header)
    else:
        offsets = _tell_clients(node, header)
    return ok(ResetOffsetBody(mq_map_encode(offsets)))


def read_wanted_offsets(node: BrokerContext, command: Command) -> None:
    """Search the offsets for INVOKE_BROKER_TO_RESET_OFFSET; raises `Refused`, `HeaderError`."""
    header = decode_header(ResetOffsetHeader, command.ext)
    if node.options.use_server_side_reset_offset:
        _wanted(node, header)
    else:
        _compared(node, header)


def _reset_here(node: BrokerContext, header: ResetOffsetHeader) -> Offsets:
    group, topic = header.group, header.topic
    if group not in node.groups:
        text = f"Group {group} does not exist"
        raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
    offsets = [(queue_of(node, topic, n), offset) for n, offset in _wanted(node, header)]
    wall = node.clock.wall_ms()
    node.stats.forget_pulled(topic, group)
    for queue, offset in offsets:
        node.offsets.reset(group, topic, queue.queue_id, offset, wall)
    # Wake every held pull of the queues, at any offset: the members then get the new offsets.
    node.arrivals.notify([(topic, queue.queue_id, UNLIMITED) for queue, _ in offsets])
    return offsets


def _wanted(node: BrokerContext, header: ResetOffsetHeader) -> list[tuple[int, int]]:
    """Return (queue id, new offset) for the requested queue, or for all readable queues."""
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


def _at_time(node: BrokerContext, topic: str, queue_id: int, wall_ms: int) -> int:
    if wall_ms < 0:
        return max_offset(node, topic, queue_id)
    return max(0, node.store.offset_by_time(topic, queue_id, wall_ms))


def _tell_clients(node: BrokerContext, header: ResetOffsetHeader) -> Offsets:
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
    """Raise `Refused` 1 for a client that is too old for 220 and 221."""
    if version < VERSION_RESET:
        text = f"the client does not support this feature. version={version}"
        raise Refused(ResponseCode.SYSTEM_ERROR, text)


def _compared(node: BrokerContext, header: ResetOffsetHeader) -> Offsets:
    """Return the new offsets of all queues; they move forward only with `isForce`."""
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
    RequestCode.QUERY_CONSUMER_OFFSET: handle_query,
    RequestCode.UPDATE_CONSUMER_OFFSET: handle_update,
    RequestCode.GET_ALL_CONSUMER_OFFSET: handle_all_offsets,
    RequestCode.GET_ALL_DELAY_OFFSET: handle_delay_offsets,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: handle_reset,
}
