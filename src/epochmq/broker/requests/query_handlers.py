"""Queries of messages and queues: by key 12 and 34013, by log offset 33, queue units 321, bounds 29
to 32.
"""

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.base.ports import Buffer
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.requests.common import NodeHandler, known_topic, ok
from epochmq.model import record
from epochmq.store.key_query import KeyPlaces
from epochmq.store.message_index import IndexResult
from epochmq.wire.bodies.offset_bodies import (
    ConsumeQueueData,
    KeyPlacesBody,
    QueryConsumeQueueBody,
)
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.offset_headers import (
    GetEarliestStoreTimeHeader,
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    OffsetResponseHeader,
    QueryConsumeQueueHeader,
    QueryMessageHeader,
    QueryMessageResponseHeader,
    SearchOffsetHeader,
    TimestampResponseHeader,
    ViewMessageHeader,
)
from epochmq.wire.headers.pull_headers import KeyPlacesHeader
from epochmq.wire.session import Session

_ANSWER_BYTES_MAX = limits.FRAME_BYTES_MAX - limits.HEADER_BYTES_MAX
_LOOK_BYTES = 1024 * 1024


def handle_query(node: BrokerContext, command: Command, session: Session, now: int) -> Held:
    """Search messages by key or unique key (QUERY_MESSAGE 12), within store times in wall ms.

    The index holds hashes, so the client must compare the keys. Returns `HELD` and answers when the
    search is complete, possibly many turns of the event loop later; 22 when nothing is found.
    """
    header = decode_header(QueryMessageHeader, command.ext)
    options = node.options
    wanted = options.default_query_max_num if header.uniqueKey else header.maxNum
    search = node.store.keys.newest(
        header.topic,
        header.key,
        max(1, min(wanted, options.max_msgs_num_batch)),
        header.beginTimestamp,
        header.endTimestamp,
    )
    if search is None:
        session.answer(command, _answer(IndexResult([], 0, 0)))
    else:
        node.searches.run(search, lambda found: session.answer(command, _answer(found)))
    return HELD


def handle_key_places(node: BrokerContext, command: Command, session: Session, now: int) -> Held:
    """Answer where the messages with a key are (KEY_PLACES 34013), if the index has them all.

    Returns `HELD` and answers when the search is complete. Raises `Refused` for an unknown topic.
    """
    header = decode_header(KeyPlacesHeader, command.ext)
    topic = known_topic(node, header.topic)
    store = node.store
    search = store.keys.places(header.topic, header.key)
    if search is None:
        session.answer(command, ok(KeyPlacesBody()))
        return HELD
    queue_ids = sorted({*range(topic.read_queue_nums), *store.queues(header.topic)})
    bounds = {queue_id: store.queue_bounds(header.topic, queue_id) for queue_id in queue_ids}

    def done(found: KeyPlaces | None) -> None:
        body = KeyPlacesBody()
        if found is not None and found.complete:
            for queue_id, (begin, end) in bounds.items():
                if found.complete_from > store.pointers.start:
                    begin = store.offset_at_place(header.topic, queue_id, found.complete_from)
                offsets = sorted(found.found.get(queue_id, ()))
                body.queues[str(queue_id)] = (begin, end, offsets)
        session.answer(command, ok(body))

    node.searches.run(search, done)
    return HELD


def _answer(found: IndexResult | None) -> Reply:
    if found is None:
        return Reply(ResponseCode.SYSTEM_ERROR, "the index cannot be read now; see the log")
    answer = QueryMessageResponseHeader(found.last_update_ms, found.last_update_offset)
    chunks = _within(found.records)
    if not chunks:
        text = "can not find message, maybe time range not correct"
        return Reply(ResponseCode.QUERY_NOT_FOUND, text, answer)
    return Reply(header=answer, body=chunks)


def _within(records: list[memoryview]) -> list[Buffer]:
    """Return as many records as fit into one frame."""
    chunks: list[Buffer] = []
    room = _ANSWER_BYTES_MAX
    for found in records:
        room -= len(found)
        if room < 0:
            break
        chunks.append(found)
    return chunks


def handle_view(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer the record at a log offset (VIEW_MESSAGE_BY_ID 33); 1 when no record begins there."""
    offset = decode_header(ViewMessageHeader, command.ext).offset
    found = node.store.message_at(offset) if offset >= 0 else None
    if found is None:
        text = f"can not find message by the offset, {offset}"
        raise Refused(ResponseCode.SYSTEM_ERROR, text)
    return Reply(body=found)


def handle_consume_queue(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply:
    """Answer queue units from an index on, and a group's filter (QUERY_CONSUME_QUEUE 321)."""
    header = decode_header(QueryConsumeQueueHeader, command.ext)
    topic, queue_id = header.topic, header.queueId
    low, high = node.store.queue_bounds(topic, queue_id)
    if low == high == 0 and topic not in node.topics:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
    count = min(header.count, limits.PULL_COUNT_MAX)
    body = QueryConsumeQueueBody(min_queue_index=low, max_queue_index=high)
    if low <= header.index < high:
        body.queue_data = _units(node, topic, queue_id, header.index, count)
    if header.consumerGroup:
        _describe_filter(node, header.consumerGroup, topic, body)
    return ok(body)


def _units(
    node: BrokerContext, topic: str, queue_id: int, index: int, count: int
) -> list[ConsumeQueueData]:
    """Return units of the queue, read through their records: unreadable records have none."""
    rows: list[ConsumeQueueData] = []
    while len(rows) < count:
        codes: list[int] = []

        def note(code: int, codes: list[int] = codes) -> bool:
            codes.append(code)
            return True

        left = count - len(rows)
        found = node.store.read_queue(topic, queue_id, index, left, _LOOK_BYTES, note)
        places = [place for chunk in found.chunks for place in _places(chunk)]
        rows += [
            ConsumeQueueData(offset, size, code)
            for (offset, size), code in zip(places, codes, strict=False)
        ]
        if not places or found.next_offset <= index:
            break
        index = found.next_offset
    return rows


def _places(chunk: memoryview) -> list[tuple[int, int]]:
    """Return (log offset, size) of each record in the chunk."""
    places = []
    at = 0
    while at < len(chunk):
        size = record.size_at(chunk, at)
        places.append((record.offset_at(chunk, at), size))
        at += size
    return places


def _describe_filter(
    node: BrokerContext, group: str, topic: str, body: QueryConsumeQueueBody
) -> None:
    subscription = node.consumers.subscription(group, topic)
    if subscription is None:
        body.filter_data = f"{group}@{topic} is not online!"
        return
    body.subscription_data = subscription
    found = node.filters.get(topic, group)
    if found is not None:
        body.filter_data = found.expression


# Queue bounds --------------------------------------------------------------------------------
# Bounds and store times of queues: 29 to 32.


_UPPER = "UPPER"
_BOUNDARIES = ("LOWER", _UPPER)


def handle_search(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer the first message at or after a time (SEARCH_OFFSET_BY_TIMESTAMP 29).

    The answer is 0 for an unknown queue.
    """
    header = decode_header(SearchOffsetHeader, command.ext)
    boundary = (header.boundaryType or "LOWER").upper()
    if boundary not in _BOUNDARIES:
        text = f"boundaryType {header.boundaryType} is neither LOWER nor UPPER"
        raise Refused(ResponseCode.SYSTEM_ERROR, text)
    offset = node.store.offset_by_time(
        header.topic, header.queueId, header.timestamp, boundary == _UPPER
    )
    return Reply(header=OffsetResponseHeader(offset))


def handle_max(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer the offset after the last message (GET_MAX_OFFSET 30); 0 for an unknown queue."""
    header = decode_header(GetMaxOffsetHeader, command.ext)
    return Reply(header=OffsetResponseHeader(max_offset(node, header.topic, header.queueId)))


def handle_min(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer the offset of the first message (GET_MIN_OFFSET 31).

    As in RocketMQ the answer is -1 for an unknown topic, and for an empty queue of a topic with
    batch queues.
    """
    header = decode_header(GetMinOffsetHeader, command.ext)
    low, high = node.store.queue_bounds(header.topic, header.queueId)
    is_batch = node.topics.has_batch_queues(header.topic)
    unknown = low == high == 0 and (is_batch is None or is_batch)
    return Reply(header=OffsetResponseHeader(-1 if unknown else low))


def handle_earliest(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer the store time of the first message (GET_EARLIEST_MSG_STORETIME 32); -1 for none."""
    header = decode_header(GetEarliestStoreTimeHeader, command.ext)
    time = earliest_time(node, header.topic, header.queueId)
    return Reply(header=TimestampResponseHeader(time))


def max_offset(node: BrokerContext, topic: str, queue_id: int) -> int:
    """Return the offset after the last readable message."""
    return max(0, node.store.queue_bounds(topic, queue_id)[1])


def earliest_time(node: BrokerContext, topic: str, queue_id: int) -> int:
    """Return the store time (wall ms) of the queue's first message; -1 when there is none."""
    low, high = node.store.queue_bounds(topic, queue_id)
    return node.store.store_time(topic, queue_id, low) if low < high else -1


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.QUERY_MESSAGE: handle_query,
    RequestCode.KEY_PLACES: handle_key_places,
    RequestCode.VIEW_MESSAGE_BY_ID: handle_view,
    RequestCode.QUERY_CONSUME_QUEUE: handle_consume_queue,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: handle_search,
    RequestCode.GET_MAX_OFFSET: handle_max,
    RequestCode.GET_MIN_OFFSET: handle_min,
    RequestCode.GET_EARLIEST_MSG_STORETIME: handle_earliest,
}
