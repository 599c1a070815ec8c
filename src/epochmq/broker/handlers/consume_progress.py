"""How far topics and groups are: 202, 208, 303, 317."""

from collections.abc import Iterable

from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.handlers.common import NodeHandler, known_topic, ok, queue_of
from epochmq.broker.handlers.queue_bounds import earliest_time, max_offset
from epochmq.broker.stats import stat_names as counted
from epochmq.model.queue import MessageQueue
from epochmq.wire.bodies.body import mq_map_encode
from epochmq.wire.bodies.group_bodies import (
    ConsumeStats,
    ConsumeStatsList,
    ConsumeTimeSpans,
    OffsetWrapper,
    QueueTimeSpan,
)
from epochmq.wire.bodies.topic_bodies import TopicOffset, TopicStatsTable
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.headers.group_headers import GetBrokerConsumeStatsHeader, GetConsumeStatsHeader
from epochmq.wire.headers.header import decode_header
from epochmq.wire.headers.topic_headers import GetTopicStatsHeader, QueryConsumeTimeSpanHeader
from epochmq.wire.session import Session


def _tps(node: BrokerNode, name: str, key: str) -> float:
    item = node.stats.find(name, key)
    return 0.0 if item is None else item.minute().tps


def handle_topic_stats(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """GET_TOPIC_STATS_INFO 202: bounds and last store time of each queue."""
    topic = decode_header(GetTopicStatsHeader, command.ext).topic
    config = known_topic(node, topic)
    count = max(config.write_queue_nums, config.read_queue_nums)
    rows = [(queue_of(node, topic, n), _topic_offset(node, topic, n)) for n in range(count)]
    return ok(TopicStatsTable(mq_map_encode(rows), _tps(node, counted.TOPIC_PUT_NUMS, topic)))


def _topic_offset(node: BrokerNode, topic: str, queue_id: int) -> TopicOffset:
    low, high = node.store.queue_bounds(topic, queue_id)
    time = node.store.store_time(topic, queue_id, high - 1) if high > 0 else 0
    return TopicOffset(max(0, low), max(0, high), time)


def handle_consume_stats(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """GET_CONSUME_STATS 208: of one group, in the topics asked for or all it has offsets in."""
    header = decode_header(GetConsumeStatsHeader, command.ext)
    group = header.consumerGroup
    named = [name for name in (header.topicList or "").split(";") if name.strip()]
    if named:
        topics: Iterable[str] = named
    elif header.topic:
        topics = _subscribed(node, group, [header.topic])
    else:
        topics = _subscribed(node, group, node.offsets.topics_of(group))
    rows: list[tuple[MessageQueue, OffsetWrapper]] = []
    tps = 0.0
    for topic in sorted(set(topics)):
        config = node.topics.get(topic)
        if config is not None:
            rows += _wrappers(node, group, topic, config.read_queue_nums)
            tps += _tps(node, counted.GROUP_GET_NUMS, f"{topic}@{group}")
    return ok(ConsumeStats(mq_map_encode(rows), tps))


def _subscribed(node: BrokerNode, group: str, topics: Iterable[str]) -> list[str]:
    """Leave out topics that an online group no longer subscribes to."""
    if node.consumers.subscription_count(group) == 0:
        return list(topics)
    return [topic for topic in topics if node.consumers.subscription(group, topic) is not None]


def _wrappers(
    node: BrokerNode, group: str, topic: str, count: int
) -> list[tuple[MessageQueue, OffsetWrapper]]:
    return [(queue_of(node, topic, n), _wrapper(node, group, topic, n)) for n in range(count)]


def _wrapper(node: BrokerNode, group: str, topic: str, queue_id: int) -> OffsetWrapper:
    consumed = max(0, node.offsets.get(group, topic, queue_id))
    time = node.store.store_time(topic, queue_id, consumed - 1) if consumed > 0 else 0
    end = max_offset(node, topic, queue_id)
    pulled = min(node.stats.pulled_to(topic, queue_id, group), end)
    return OffsetWrapper(
        broker_offset=end,
        consumer_offset=consumed,
        pull_offset=max(consumed, pulled),
        last_timestamp=max(0, time),
    )


def handle_all_consume_stats(
    node: BrokerNode, command: Command, session: Session, now: int
) -> Reply:
    """GET_BROKER_CONSUME_STATS 317: of every group; `isOrder` asks for ordered topics only."""
    ordered_only = decode_header(GetBrokerConsumeStatsHeader, command.ext).isOrder
    topics_of: dict[str, list[str]] = {group: [] for group in node.groups.table}
    for topic, group in node.offsets.pairs():
        if group in topics_of:
            topics_of[group].append(topic)
    groups: list[dict[str, list[ConsumeStats]]] = []
    total = 0
    for group, topics in topics_of.items():
        rows = []
        for topic in _subscribed(node, group, topics):
            config = node.topics.get(topic)
            if config is not None and (config.order or not ordered_only):
                wrappers = _wrappers(node, group, topic, config.write_queue_nums)
                tps = _tps(node, counted.GROUP_GET_NUMS, f"{topic}@{group}")
                rows.append(ConsumeStats(mq_map_encode(wrappers), tps))
                total += sum(w.broker_offset - w.consumer_offset for _, w in wrappers)
        groups.append({group: rows})
    return ok(ConsumeStatsList(groups, node.address, total, 0))


def handle_time_span(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """QUERY_CONSUME_TIME_SPAN 303: the same in store times."""
    header = decode_header(QueryConsumeTimeSpanHeader, command.ext)
    config = known_topic(node, header.topic)
    spans = [_span(node, header.group, header.topic, n) for n in range(config.write_queue_nums)]
    return ok(ConsumeTimeSpans(spans))


def _span(node: BrokerNode, group: str, topic: str, queue_id: int) -> QueueTimeSpan:
    store = node.store
    first = earliest_time(node, topic, queue_id)
    end = max_offset(node, topic, queue_id)
    consumed = max(0, node.offsets.get(group, topic, queue_id))
    span = QueueTimeSpan(queue_of(node, topic, queue_id), min_time_stamp=first)
    span.max_time_stamp = store.store_time(topic, queue_id, end - 1) if end > 0 else -1
    span.consume_time_stamp = (
        store.store_time(topic, queue_id, consumed - 1) if consumed > 0 else first
    )
    if consumed < end:
        next_time = store.store_time(topic, queue_id, consumed)
        span.delay_time = max(0, node.clock.wall_ms() - next_time) if next_time > 0 else 0
    return span


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.GET_TOPIC_STATS_INFO: handle_topic_stats,
    RequestCode.GET_CONSUME_STATS: handle_consume_stats,
    RequestCode.GET_BROKER_CONSUME_STATS: handle_all_consume_stats,
    RequestCode.QUERY_CONSUME_TIME_SPAN: handle_time_span,
}
