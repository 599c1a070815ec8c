"""Acknowledge popped messages, or change their invisible time (ACK_MESSAGE and others).

The request codes are ACK_MESSAGE 200051, BATCH_ACK_MESSAGE 200151 and
CHANGE_MESSAGE_INVISIBLETIME 200053. Two answers differ from RocketMQ's. RocketMQ answers SUCCESS
when an acknowledgement was not stored; this broker answers SYSTEM_ERROR. When the invisible time
is over, this broker answers NO_MESSAGE 208. The other codes are RocketMQ's: TOPIC_NOT_EXIST 17,
MESSAGE_ILLEGAL 13 for an invalid queue or receipt handle, NO_MESSAGE 208 for an offset outside the
queue.
"""

from collections.abc import Callable
from typing import Protocol

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.pop.broker_pop_state import PoppedCheckPoint
from epochmq.broker.pop.ordered_pop import AckRefusal
from epochmq.broker.pop.pop_records import ORDER_QUEUE, CheckPoint, Key, retry_name
from epochmq.broker.pop.pop_windows import QueueKey
from epochmq.broker.pop.receipt_handle import ReceiptHandle, parse_handle
from epochmq.broker.pop.revive import MessageState
from epochmq.broker.produce.send_topics import invalid_code
from epochmq.broker.requests.common import NodeHandler
from epochmq.broker.requests.pop_orders import when_copied
from epochmq.model.revive_routing import is_pinned
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.pop_bodies import BatchAck, BatchAckBody
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.pop_headers import (
    AckHeader,
    ChangeInvisibleTimeHeader,
    ChangeInvisibleTimeResponseHeader,
)
from epochmq.wire.session import Session

NOT_KEPT = Reply(ResponseCode.SYSTEM_ERROR, "the acknowledgement was not kept; send it again")
OVER = (
    "the invisible time of the message is over: it is, or will be, handed out again under another"
    " receipt handle"
)
OUTSIDE = Reply(ResponseCode.NO_MESSAGE, "a message of the batch is not in its queue")
TOO_LATE = Reply(ResponseCode.NO_MESSAGE, OVER)


class HandleFields(Protocol):
    """The header fields that acknowledgements and changes of the invisible time share."""

    @property
    def consumerGroup(self) -> str: ...

    @property
    def topic(self) -> str: ...

    @property
    def queueId(self) -> int: ...

    @property
    def extraInfo(self) -> str: ...

    @property
    def offset(self) -> int: ...


def handle_ack(node: BrokerContext, command: Command, session: Session, now: int) -> Reply | Held:
    """Acknowledge one popped message (ACK_MESSAGE 200051).

    Returns `HELD` and answers when the acknowledgement is stored; raises `Refused`.
    """
    header = decode_header(AckHeader, command.ext)
    handle = _checked(node, header)
    if handle.revive_queue_id == ORDER_QUEUE:
        _ack_in_order(node, header, handle)
        when_copied(node, now, lambda kept: session.answer(command, Reply() if kept else NOT_KEPT))
        return HELD
    key = _key(header, handle)
    if _known(node, key, handle, header.offset, now) is MessageState.ACKED:
        return Reply()

    def done(kept: bool) -> None:
        session.answer(command, Reply() if kept else NOT_KEPT)

    node.pop.ack(
        key,
        handle.revive_queue_id,
        [header.offset],
        node.clock.wall_ms(),
        done,
        invisible_ms=handle.invisible_time,
    )
    return HELD


def handle_change(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply | Held:
    """Change the invisible time of a message (CHANGE_MESSAGE_INVISIBLETIME 200053).

    The handler writes a new check point. When the new check point is stored, the handler
    acknowledges the message at the old check point. In between the message has two check points: a
    crash there can repeat the message, but cannot lose it. Returns `HELD` and answers when both are
    stored; raises `Refused`.
    """
    header = decode_header(ChangeInvisibleTimeHeader, command.ext)
    handle = _checked(node, header)
    if not 0 < header.invisibleTime <= limits.POP_INVISIBLE_MS_MAX:
        raise Refused(
            invalid_code(command.version),
            f"invisibleTime {header.invisibleTime} is not within 1..{limits.POP_INVISIBLE_MS_MAX}",
        )
    if header.offset >= node.store.queue_bounds(header.topic, header.queueId)[1]:
        raise Refused(ResponseCode.NO_MESSAGE, "no message at this offset yet")  # rocketmq#9187
    if handle.revive_queue_id == ORDER_QUEUE:
        changed = _change_in_order(node, header, handle, now)
        when_copied(node, now, lambda kept: session.answer(command, changed if kept else NOT_KEPT))
        return HELD
    old = _key(header, handle)
    if _known(node, old, handle, header.offset, now) is MessageState.ACKED:
        raise Refused(ResponseCode.NO_MESSAGE, "the message is acknowledged already")
    wall = max(node.clock.wall_ms(), handle.pop_time + 1)  # so that the two keys differ
    new = CheckPoint(
        topic=header.topic,
        group=header.consumerGroup,
        queue_id=header.queueId,
        start=header.offset,
        pop_time=wall,
        invisible_time=header.invisibleTime,
        deltas=[0],
        count=1,
        broker_name=node.options.broker_name,
        first_pop_time=node.pop.first_popped_ms(old, handle.revive_queue_id),
    )
    revive_queue = node.pop.hiding_queue(handle.revive_queue_id, header.topic)

    def acked(kept: bool) -> None:
        answer = ChangeInvisibleTimeResponseHeader(wall, header.invisibleTime, revive_queue)
        session.answer(command, Reply(header=answer) if kept else NOT_KEPT)

    def written(kept: list[bool]) -> None:
        if kept[0]:
            node.pop.ack(
                old,
                handle.revive_queue_id,
                [header.offset],
                wall,
                acked,
                invisible_ms=handle.invisible_time,
            )
        else:
            session.answer(
                command, Reply(ResponseCode.SYSTEM_ERROR, "the new check point was not kept")
            )

    taken = [PoppedCheckPoint(new, revive_queue, None)]
    node.pop.keep(taken, node.clock.now_ms(), wall, lambda kept: written(list(kept)))
    return HELD


def handle_batch_ack(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply | Held:
    """Acknowledge messages of several pops (BATCH_ACK_MESSAGE 200151).

    Returns `HELD`; one answer follows when every entry is done. Any failed entry makes the answer a
    failure. Raises `Refused`.
    """
    acks = decode_body(BatchAckBody, command.body).acks
    if not acks:
        raise Refused(ResponseCode.NO_MESSAGE, "the batch acknowledges nothing")
    wanted: list[tuple[BatchAck, list[int], bool]] = []
    room = limits.POP_ACKS_PER_REQUEST_MAX
    for one in acks:
        told = one.offsets(room)
        if told is None or len(acks) > limits.POP_ACKS_PER_REQUEST_MAX:
            raise Refused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"more than {limits.POP_ACKS_PER_REQUEST_MAX} messages in one batch; split it",
            )
        room -= len(told)
        wanted.append((one, *_within_queue(node, one, told)))
    pending = [offsets for _, offsets, _ in wanted if offsets]
    if not pending:
        raise Refused(ResponseCode.NO_MESSAGE, "no message of the batch is within its queue")
    left = len(pending)
    worst = OUTSIDE if any(outside for *_, outside in wanted) else Reply()

    def done(outcome: Reply) -> None:
        nonlocal left, worst
        left -= 1
        worst = outcome if outcome.code else worst
        if not left:
            session.answer(command, worst)

    for one, offsets, _ in wanted:
        if offsets:
            _ack_batch(node, one, offsets, done, now)
    return HELD


def _within_queue(node: BrokerContext, one: BatchAck, offsets: list[int]) -> tuple[list[int], bool]:
    """Return the offsets of one entry inside its queue, and whether others are behind its end.

    Raises `Refused` for an invalid topic, queue or revive queue, as for a single acknowledgement.
    """
    topic = _batch_topic(one)
    _check_queue(node, topic, one.queue_id)
    if one.revive_queue_id != ORDER_QUEUE:
        _check_revive_queue(node, one.revive_queue_id)
    low, high = node.store.queue_bounds(topic, one.queue_id)
    return [at for at in offsets if low <= at < high], any(at >= high for at in offsets)


def _ack_batch(
    node: BrokerContext, one: BatchAck, offsets: list[int], done: Callable[[Reply], None], now: int
) -> None:
    topic = _batch_topic(one)
    if one.revive_queue_id == ORDER_QUEUE:
        queue = QueueKey(one.consumer_group, topic, one.queue_id)
        moved = [_move_in_order(node, queue, offset, one.pop_time) for offset in offsets]
        answer = TOO_LATE if any(moved) else Reply()
        when_copied(node, now, lambda kept: done(answer if kept else NOT_KEPT))
        return
    key = Key(
        topic, one.consumer_group, one.queue_id, one.start_offset, one.pop_time,
        node.options.broker_name,
    )  # fmt: skip
    node.pop.ack(
        key,
        one.revive_queue_id,
        offsets,
        node.clock.wall_ms(),
        lambda kept: done(Reply() if kept else NOT_KEPT),
        invisible_ms=one.invisible_time,
    )


def _batch_topic(one: BatchAck) -> str:
    return retry_name(one.consumer_group, one.topic, one.retry)


# Checks --------------------------------------------------------------------------------------


def _checked(node: BrokerContext, header: HandleFields) -> ReceiptHandle:
    """Parse the receipt handle and compare it with the other fields; raises `Refused`."""
    _check_queue(node, header.topic, header.queueId)
    low, high = node.store.queue_bounds(header.topic, header.queueId)
    if not low <= header.offset <= high:
        raise Refused(
            ResponseCode.NO_MESSAGE,
            f"request offset not in queue range[{low}, {high}]: {header.offset}",
        )
    handle = parse_handle(header.extraInfo)
    if handle.broker_name != node.options.broker_name:
        raise Refused(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the receipt handle was given out by broker {handle.broker_name}; acknowledge there",
        )
    if handle.queue_id != header.queueId or handle.offset not in (None, header.offset):
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, "the receipt handle belongs to another message")
    if handle.revive_queue_id != ORDER_QUEUE:
        _check_revive_queue(node, handle.revive_queue_id)
    return handle


def _check_queue(node: BrokerContext, name: str, queue_id: int) -> None:
    topic = node.topics.get(name)
    if topic is None:
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!")
    if not 0 <= queue_id < topic.read_queue_nums:
        raise Refused(
            ResponseCode.MESSAGE_ILLEGAL,
            f"queueId[{queue_id}] is illegal, topic:[{name}] topicConfig.readQueueNums:"
            f"[{topic.read_queue_nums}]",
        )


def _check_revive_queue(node: BrokerContext, queue_id: int) -> None:
    if not (0 <= queue_id < node.pop.revive_queues() or is_pinned(queue_id)):
        raise Refused(
            ResponseCode.MESSAGE_ILLEGAL, f"the receipt handle names revive queue {queue_id}"
        )


def _key(header: HandleFields, handle: ReceiptHandle) -> Key:
    return Key(
        header.topic,
        header.consumerGroup,
        header.queueId,
        handle.start,
        handle.pop_time,
        handle.broker_name,
    )


def _known(
    node: BrokerContext, key: Key, handle: ReceiptHandle, offset: int, now: int
) -> MessageState | None:
    """Return the known state of the message, None when no state is known.

    Raises `Refused` 13 for a forged receipt handle and `Refused` 208 when the invisible time is
    over.
    """
    wall = node.clock.wall_ms()
    over = handle.pop_time + handle.invisible_time <= wall
    seen = node.pop.seen(key, handle.revive_queue_id, offset, now, wall)
    if seen is MessageState.FOREIGN:
        raise Refused(
            ResponseCode.MESSAGE_ILLEGAL, "no such message was given out under this receipt handle"
        )
    if seen is MessageState.DELIVERED or (seen is MessageState.UNKNOWN and over):
        raise Refused(ResponseCode.NO_MESSAGE, OVER)
    return seen


# Ordered -------------------------------------------------------------------------------------


def _ack_in_order(node: BrokerContext, header: AckHeader, handle: ReceiptHandle) -> None:
    queue = QueueKey(header.consumerGroup, header.topic, header.queueId)
    verdict = _move_in_order(node, queue, header.offset, handle.pop_time)
    if verdict is AckRefusal.ILLEGAL:
        raise Refused(
            ResponseCode.MESSAGE_ILLEGAL,
            f"offset is illegal, key:{header.topic}@{header.consumerGroup}@{header.queueId},"
            f" commit:{header.offset}",
        )
    if verdict is AckRefusal.STALE:
        raise Refused(ResponseCode.NO_MESSAGE, OVER)


def _move_in_order(
    node: BrokerContext, queue: QueueKey, offset: int, pop_time: int
) -> AckRefusal | None:
    """Acknowledge in an ordered queue: commit the new offset and wake the waiting pops.

    Returns None, or the reason why the acknowledgement is refused.
    """
    found = node.pop.orders.ack(queue, offset, pop_time)
    if isinstance(found, AckRefusal):
        return found
    if not node.offsets.has_reset(*queue) and found > node.offsets.get(*queue):
        node.offsets.commit(*queue, found, node.clock.wall_ms())
    node.arrivals.notify([(queue.topic, queue.queue_id, 0)])
    return None


def _change_in_order(
    node: BrokerContext, header: ChangeInvisibleTimeHeader, handle: ReceiptHandle, now: int
) -> Reply:
    wall = node.clock.wall_ms()
    queue = QueueKey(header.consumerGroup, header.topic, header.queueId)
    changed = node.pop.orders.change(
        queue, header.offset, handle.pop_time, header.invisibleTime, now, wall
    )
    if not changed:
        raise Refused(ResponseCode.NO_MESSAGE, OVER)
    return Reply(
        header=ChangeInvisibleTimeResponseHeader(
            handle.pop_time, wall + header.invisibleTime - handle.pop_time, ORDER_QUEUE
        )
    )


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.ACK_MESSAGE: handle_ack,
    RequestCode.BATCH_ACK_MESSAGE: handle_batch_ack,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: handle_change,
}
