"""Looking messages up: by key 12, by place 33, and units of a queue 321."""

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.base.types import Buffer
from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.handlers.common import NodeHandler, ok
from epochmq.model import record
from epochmq.store.message_index import IndexResult
from epochmq.wire.bodies.query_bodies import ConsumeQueueData, QueryConsumeQueueBody
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.headers.header import decode_header
from epochmq.wire.headers.query_headers import (
    QueryConsumeQueueHeader,
    QueryMessageHeader,
    QueryMessageResponseHeader,
    ViewMessageHeader,
)
from epochmq.wire.session import Session

_ANSWER_BYTES_MAX = limits.FRAME_BYTES_MAX - limits.HEADER_BYTES_MAX
_LOOK_BYTES = 1024 * 1024


def handle_query(node: BrokerNode, command: Command, session: Session, now: int) -> Held:
    """QUERY_MESSAGE 12: by a key or the unique key, within store times; 22 when there is none.

    Index entries are hashes: the client compares the keys itself. Answered when the search is over,
    which may take many turns of the loop.
    """
    header = decode_header(QueryMessageHeader, command.ext)
    options = node.options
    wanted = options.default_query_max_num if header.uniqueKey else header.maxNum
    search = node.store.search_index(
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
    """As many of the records as fit into one frame."""
    chunks: list[Buffer] = []
    room = _ANSWER_BYTES_MAX
    for found in records:
        room -= len(found)
        if room < 0:
            break
        chunks.append(found)
    return chunks


def handle_view(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """VIEW_MESSAGE_BY_ID 33: the record at a log position; 1 when none starts there."""
    offset = decode_header(ViewMessageHeader, command.ext).offset
    found = node.store.message_at(offset) if offset >= 0 else None
    if found is None:
        text = f"can not find message by the offset, {offset}"
        raise Refused(ResponseCode.SYSTEM_ERROR, text)
    return Reply(body=found)


def handle_consume_queue(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """QUERY_CONSUME_QUEUE 321: units from an index on, and what a group's filter would be."""
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
    node: BrokerNode, topic: str, queue_id: int, index: int, count: int
) -> list[ConsumeQueueData]:
    """Units are seen through the records they point to: what nobody may read is not shown."""
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
    """(log offset, size) of each record in a view."""
    places = []
    at = 0
    while at < len(chunk):
        size = record.size_at(chunk, at)
        places.append((record.offset_at(chunk, at), size))
        at += size
    return places


def _describe_filter(node: BrokerNode, group: str, topic: str, body: QueryConsumeQueueBody) -> None:
    subscription = node.consumers.subscription(group, topic)
    if subscription is None:
        body.filter_data = f"{group}@{topic} is not online!"
        return
    body.subscription_data = subscription
    found = node.filters.get(topic, group)
    if found is not None:
        body.filter_data = found.expression


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.QUERY_MESSAGE: handle_query,
    RequestCode.VIEW_MESSAGE_BY_ID: handle_view,
    RequestCode.QUERY_CONSUME_QUEUE: handle_consume_queue,
}
