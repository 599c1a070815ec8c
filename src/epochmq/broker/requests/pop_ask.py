"""POP requests that only read: PEEK_MESSAGE 200052, NOTIFICATION 200054, POLLING_INFO 200055."""

from epochmq.base import limits
from epochmq.broker.consume.consumer_offsets import NONE
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.pop.pop_polls import PollKey
from epochmq.broker.pop.pop_records import MESSAGES_MAX, sources
from epochmq.broker.pop.pop_windows import QueueKey
from epochmq.broker.requests.common import NodeHandler
from epochmq.broker.requests.pop_gate import (
    ANSWER_EARLY_MS,
    PopRequest,
    check_group,
    check_queue,
    check_readable,
)
from epochmq.model.topic import ANY_QUEUE
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.pop_headers import (
    NotificationHeader,
    NotificationResponseHeader,
    PeekHeader,
    PollingInfoHeader,
    PollingInfoResponseHeader,
    PopResponseHeader,
)
from epochmq.wire.session import Session


def handle_peek(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Return the next messages of a group without popping them (PEEK_MESSAGE 200052).

    Answers PULL_NOT_FOUND when there is no message; raises `Refused`.
    """
    header = decode_header(PeekHeader, command.ext)
    check_readable(node, "peek")
    check_queue(node, header.topic, header.queueId, command, session)
    check_group(node, header.consumerGroup)
    room = max(0, min(header.maxMsgNums, MESSAGES_MAX))
    rest, chunks = 0, []
    for key in _queues(node, header.topic, header.consumerGroup, header.queueId):
        offset, high = _span(node, key)
        if room > 0 and offset < high:
            size = node.options.max_transfer_bytes_on_message_in_memory
            found = node.store.read_queue(key.topic, key.queue_id, offset, room, size)
            chunks += found.chunks
            room -= found.count
            offset = found.next_offset
        rest += max(high - offset, 0)
    answer = PopResponseHeader(popTime=0, invisibleTime=0, reviveQid=0, restNum=rest)
    if not chunks:
        return Reply(ResponseCode.PULL_NOT_FOUND, "no message to peek", answer)
    return Reply(0, "FOUND", answer, chunks)


def handle_notification(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply | Held:
    """Answer whether a pop would find messages (NOTIFICATION 200054).

    Without messages the request is held for up to `pollTime` ms. Raises `Refused`.
    """
    header = decode_header(NotificationHeader, command.ext)
    check_readable(node, "notification")
    check_queue(node, header.topic, header.queueId, command, session)
    check_group(node, header.consumerGroup)
    queue_id = max(header.queueId, ANY_QUEUE)
    for key in _queues(node, header.topic, header.consumerGroup, queue_id):
        offset, high = _span(node, key)
        blocked = header.order and node.pop.orders.blocked(key, header.attemptId, now)
        if offset < high and not blocked:
            return Reply(header=NotificationResponseHeader(True, False))
    wait_ms = min(header.pollTime, limits.HOLD_MS_MAX) - ANSWER_EARLY_MS
    if wait_ms <= 0:
        return Reply(header=NotificationResponseHeader(False, False))
    poll = PollKey(header.topic, header.consumerGroup, queue_id, notify=True)
    request = PopRequest(session, command, poll)
    request.deadline = now + wait_ms
    if not node.pop.polls.hold(request):
        return Reply(header=NotificationResponseHeader(False, True))
    return HELD


def handle_polling_info(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Return how many pops of a group wait for a queue (POLLING_INFO 200055); raises `Refused`."""
    header = decode_header(PollingInfoHeader, command.ext)
    check_readable(node, "polling info")
    check_queue(node, header.topic, header.queueId, command, session)
    check_group(node, header.consumerGroup)
    key = PollKey(header.topic, header.consumerGroup, max(header.queueId, ANY_QUEUE))
    return Reply(header=PollingInfoResponseHeader(node.pop.polls.waiting(key)))


def _queues(node: BrokerContext, topic: str, group: str, queue_id: int) -> list[QueueKey]:
    """Return the queues that a pop would read, including those of the retry topics."""
    found = []
    for name in sources(group, topic):
        config = node.topics.get(name)
        count = 0 if config is None else config.read_queue_nums
        one = name == topic and queue_id != ANY_QUEUE
        found += [QueueKey(group, name, at) for at in ([queue_id] if one else range(count))]
    return found


def _span(node: BrokerContext, key: QueueKey) -> tuple[int, int]:
    """Return (the next queue offset of the group, the readable end of the queue)."""
    low, high = node.store.queue_bounds(key.topic, key.queue_id)
    taken = node.pop.windows.next_offset(key)
    offset = node.offsets.get(*key) if taken is None else taken
    return max(low, 0) if offset == NONE else max(offset, low), high


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.PEEK_MESSAGE: handle_peek,
    RequestCode.NOTIFICATION: handle_notification,
    RequestCode.POLLING_INFO: handle_polling_info,
}
