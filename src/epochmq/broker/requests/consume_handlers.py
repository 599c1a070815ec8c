"""Consume statistics and progress of topics and groups: 202, 208, 303, 317, and group queries."""

from collections.abc import Iterable, Mapping
from typing import Any

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.requests.common import NodeHandler, known_group, known_topic, ok, queue_of
from epochmq.broker.requests.query_handlers import earliest_time, max_offset
from epochmq.broker.state import broker_stats as counted
from epochmq.model import names
from epochmq.model.topic import MessageQueue
from epochmq.store.key_query import SteppedSearch
from epochmq.wire.bodies.body import mq_map_encode
from epochmq.wire.bodies.group_bodies import (
    ConsumeStats,
    ConsumeStatsList,
    ConsumeTimeSpans,
    CorrectionOffsets,
    OffsetWrapper,
    QuerySubscriptionBody,
    QueueTimeSpan,
)
from epochmq.wire.bodies.namesrv_bodies import TopicList
from epochmq.wire.bodies.topic_bodies import GroupList, TopicOffset, TopicStatsTable
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.group_headers import (
    CloneGroupOffsetHeader,
    GetBrokerConsumeStatsHeader,
    GetConsumeStatsHeader,
    QueryCorrectionOffsetHeader,
    QuerySubscriptionByConsumerHeader,
    QueryTopicsByConsumerHeader,
)
from epochmq.wire.headers.topic_headers import (
    GetTopicStatsHeader,
    QueryConsumeTimeSpanHeader,
    QueryTopicConsumeByWhoHeader,
)
from epochmq.wire.session import Session

WRAPPER_BYTES = 150
"""A queue in statistics of a group in JSON, without its name."""


def _tps(node: BrokerContext, name: str, key: str) -> float:
    item = node.stats.find(name, key)
    return 0.0 if item is None else item.minute().tps


def handle_topic_stats(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer bounds and last store time of each queue (GET_TOPIC_STATS_INFO 202)."""
    topic = decode_header(GetTopicStatsHeader, command.ext).topic
    config = known_topic(node, topic)
    count = max(config.write_queue_nums, config.read_queue_nums)
    rows = [(queue_of(node, topic, n), _topic_offset(node, topic, n)) for n in range(count)]
    return ok(TopicStatsTable(mq_map_encode(rows), _tps(node, counted.TOPIC_PUT_NUMS, topic)))


def _topic_offset(node: BrokerContext, topic: str, queue_id: int) -> TopicOffset:
    low, high = node.store.queue_bounds(topic, queue_id)
    time = node.store.store_time(topic, queue_id, high - 1) if high > 0 else 0
    return TopicOffset(max(0, low), max(0, high), time)


class GroupConsumeStats:
    """The progress of one group, computed step by step: it may read thousands of topics.

    It is a `SteppedSearch` whose items are queues.
    """

    def __init__(self, node: BrokerContext, group: str, topics: list[str]) -> None:
        self._node = node
        self._group = group
        self._left = topics[::-1]
        self.result: ConsumeStats | Refused = ConsumeStats()
        self._stats = self.result
        self._bytes = 0

    def step(self, items: int) -> bool:
        """Add topics with about `items` queues; return whether all topics are complete.

        Raises `NotInMemory`; the next step reads the same queues again.
        """
        node, group = self._node, self._group
        rows: list[tuple[MessageQueue, OffsetWrapper]] = []
        tps, done = 0.0, 0
        while done < len(self._left) and len(rows) + done < items:
            topic = self._left[-1 - done]
            config = node.topics.get(topic)
            done += 1
            if config is not None:
                rows += _wrappers(node, group, topic, config.read_queue_nums)
                tps += _tps(node, counted.GROUP_GET_NUMS, f"{topic}@{group}")
        node.store.confirm_reads()
        del self._left[len(self._left) - done :]
        table = mq_map_encode(rows)
        self._stats.offset_table.update(table)
        self._stats.consume_tps += tps
        self._bytes += _bytes_of(table)
        if self._bytes > limits.FRAME_BYTES_MAX:
            self._left.clear()
            self.result = _too_large(f"group {group}", "ask for some of its topics")
        return not self._left


def _bytes_of(table: Mapping[str, OffsetWrapper]) -> int:
    """Return the bytes of statistics in JSON, or somewhat less."""
    return sum(map(len, table)) + WRAPPER_BYTES * len(table)


def _too_large(what: str, instead: str) -> Refused:
    return Refused(
        ResponseCode.SYSTEM_ERROR,
        f"the progress of {what} does not fit into an answer of {limits.FRAME_BYTES_MAX} bytes;"
        f" {instead}",
    )


def handle_consume_stats(node: BrokerContext, command: Command, session: Session, now: int) -> Held:
    """Answer the progress of one group (GET_CONSUME_STATS 208).

    It covers the requested topics, or all topics in which the group has offsets. Returns `HELD` and
    answers when the statistics are complete: at once, or for many queues some turns of the event
    loop later; 1 if the disk fails.
    """
    header = decode_header(GetConsumeStatsHeader, command.ext)
    group = header.consumerGroup
    named = [name for name in (header.topicList or "").split(";") if name.strip()]
    if named:
        topics: Iterable[str] = named
    elif header.topic:
        topics = _subscribed(node, group, [header.topic])
    else:
        topics = _subscribed(node, group, node.offsets.topics_of(group))
    _answer_when_found(node, command, session, GroupConsumeStats(node, group, sorted(set(topics))))
    return HELD


def _answer_when_found(
    node: BrokerContext, command: Command, session: Session, search: SteppedSearch[Any]
) -> None:
    def done(found: Any) -> None:
        if found is None:
            text = "messages cannot be read now; see the log"
            session.answer(command, Reply(ResponseCode.SYSTEM_ERROR, text))
        elif isinstance(found, Refused):
            session.answer(command, Reply(found.code, found.remark))
        else:
            session.answer(command, ok(found))

    node.searches.run(search, done)


def _subscribed(node: BrokerContext, group: str, topics: Iterable[str]) -> list[str]:
    """Leave out topics that an online group does not subscribe to any more."""
    if node.consumers.subscription_count(group) == 0:
        return list(topics)
    return [topic for topic in topics if node.consumers.subscription(group, topic) is not None]


def _wrappers(
    node: BrokerContext, group: str, topic: str, count: int
) -> list[tuple[MessageQueue, OffsetWrapper]]:
    return [(queue_of(node, topic, n), _wrapper(node, group, topic, n)) for n in range(count)]


def _wrapper(node: BrokerContext, group: str, topic: str, queue_id: int) -> OffsetWrapper:
    consumed = max(0, node.offsets.get(group, topic, queue_id))
    time = node.store.store_time(topic, queue_id, consumed - 1) if consumed > 0 else 0
    end = max_offset(node, topic, queue_id)
    pulled = min(node.stats.pulled_to(topic, queue_id, group), end)
    found = OffsetWrapper(
        broker_offset=end,
        consumer_offset=consumed,
        pull_offset=max(consumed, pulled),
        last_timestamp=max(0, time),
    )
    if consumed < end:
        first = max(consumed, node.store.queue_bounds(topic, queue_id)[0])
        oldest = node.store.store_time(topic, queue_id, first)
        if oldest > 0:
            found.oldest_timestamp = oldest
    return found


class AllConsumeStats:
    """The progress of every group, computed step by step: a broker has thousands of groups.

    It is a `SteppedSearch` whose items are queues.
    """

    def __init__(self, node: BrokerContext, *, ordered_only: bool) -> None:
        self._node = node
        self._ordered_only = ordered_only
        self._rows: dict[str, list[ConsumeStats]] = {group: [] for group in node.groups.table}
        """The statistics of each group, one for each topic."""
        pairs = [(group, topic) for topic, group in node.offsets.pairs() if group in self._rows]
        self._left = pairs[::-1]
        self._diff = 0
        self._bytes = 0

    def step(self, items: int) -> bool:
        """Add groups with about `items` queues; return whether all groups are complete.

        Raises `NotInMemory`; the next step reads the same queues again.
        """
        found: list[tuple[str, ConsumeStats]] = []
        done = 0
        while done < len(self._left) and items > 0:
            group, topic = self._left[-1 - done]
            stats = self._stats(group, topic)
            done += 1
            items -= 1
            if stats is not None:
                found.append((group, stats))
                items -= len(stats.offset_table)
        self._node.store.confirm_reads()
        del self._left[len(self._left) - done :]
        for group, stats in found:
            self._rows[group].append(stats)
            self._bytes += _bytes_of(stats.offset_table)
            for one in stats.offset_table.values():
                self._diff += one.broker_offset - one.consumer_offset
        if self._bytes > limits.FRAME_BYTES_MAX:
            self._left.clear()
        return not self._left

    @property
    def result(self) -> ConsumeStatsList | Refused:
        if self._bytes > limits.FRAME_BYTES_MAX:
            return _too_large("all groups", "ask for each group")
        groups = [{group: rows} for group, rows in self._rows.items()]
        return ConsumeStatsList(groups, self._node.address, self._diff, 0)

    def _stats(self, group: str, topic: str) -> ConsumeStats | None:
        node = self._node
        config = node.topics.get(topic)
        if config is None or not (config.order or not self._ordered_only):
            return None
        if not _subscribed(node, group, [topic]):
            return None
        wrappers = _wrappers(node, group, topic, config.write_queue_nums)
        tps = _tps(node, counted.GROUP_GET_NUMS, f"{topic}@{group}")
        return ConsumeStats(mq_map_encode(wrappers), tps)


def handle_all_consume_stats(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Held:
    """Answer the progress of every group (GET_BROKER_CONSUME_STATS 317).

    `isOrder` selects ordered topics only. Returns `HELD` and answers when the statistics are
    complete, possibly many turns of the event loop later; 1 if the disk fails.
    """
    ordered_only = decode_header(GetBrokerConsumeStatsHeader, command.ext).isOrder
    _answer_when_found(node, command, session, AllConsumeStats(node, ordered_only=ordered_only))
    return HELD


def handle_time_span(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer the progress of a group as store times (QUERY_CONSUME_TIME_SPAN 303)."""
    header = decode_header(QueryConsumeTimeSpanHeader, command.ext)
    config = known_topic(node, header.topic)
    spans = [_span(node, header.group, header.topic, n) for n in range(config.write_queue_nums)]
    return ok(ConsumeTimeSpans(spans))


def _span(node: BrokerContext, group: str, topic: str, queue_id: int) -> QueueTimeSpan:
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


# Consume admin -------------------------------------------------------------------------------
# Which group consumes which topic, and copies of offsets: 300, 308, 314, 343, 345.


_NOT_TO_BE_CORRECTED = 2**63 - 1


def handle_groups_of_topic(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply:
    """Answer the groups that subscribe or committed offsets (QUERY_TOPIC_CONSUME_BY_WHO 300)."""
    topic = decode_header(QueryTopicConsumeByWhoHeader, command.ext).topic
    groups = node.consumers.groups_of_topic(topic) | node.offsets.groups_of(topic)
    return ok(GroupList(sorted(groups)))


def handle_topics_of_group(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply:
    """Answer the topics in which the group has offsets (QUERY_TOPICS_BY_CONSUMER 343)."""
    group = decode_header(QueryTopicsByConsumerHeader, command.ext).group
    return ok(TopicList(sorted(node.offsets.topics_of(group)), node.address))


def handle_subscription(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer a group's subscription to a topic (QUERY_SUBSCRIPTION_BY_CONSUMER 345).

    The answer is empty when the group is offline.
    """
    header = decode_header(QuerySubscriptionByConsumerHeader, command.ext)
    topic = header.topic or ""
    body = QuerySubscriptionBody(header.group, topic)
    found = node.consumers.subscription(header.group, topic)
    if found is not None:
        body.subscription_data = found
    return ok(body)


def handle_clone(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Copy the offsets of one group to another (CLONE_GROUP_OFFSET 314), for a topic or all."""
    header = decode_header(CloneGroupOffsetHeader, command.ext)
    source, target = header.srcGroup, header.destGroup
    names.check_group(target)
    known_group(node, target)
    topics = {header.topic} if header.topic else node.offsets.topics_of(source)
    online = node.consumers.subscription_count(source) > 0 and not header.offline
    wall = node.clock.wall_ms()
    for topic in sorted(topics):
        if topic not in node.topics:
            continue
        if online and node.consumers.subscription(source, topic) is None:
            continue
        node.offsets.clone(source, target, topic, wall)
    return Reply()


def handle_correction(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer by queue the lowest offset of any group (QUERY_CORRECTION_OFFSET 308), as RocketMQ.

    A queue in which the compared group is behind that offset is marked with the largest number.
    """
    header = decode_header(QueryCorrectionOffsetHeader, command.ext)
    ignored = frozenset(name for name in (header.filterGroups or "").split(",") if name)
    lowest = node.offsets.lowest(header.topic, ignored)
    for queue_id, offset in node.offsets.row(header.compareGroup, header.topic).items():
        if lowest.get(queue_id, offset) > offset:
            lowest[queue_id] = _NOT_TO_BE_CORRECTED
    return ok(CorrectionOffsets(lowest))


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.GET_TOPIC_STATS_INFO: handle_topic_stats,
    RequestCode.GET_CONSUME_STATS: handle_consume_stats,
    RequestCode.GET_BROKER_CONSUME_STATS: handle_all_consume_stats,
    RequestCode.QUERY_CONSUME_TIME_SPAN: handle_time_span,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: handle_groups_of_topic,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: handle_topics_of_group,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: handle_subscription,
    RequestCode.CLONE_GROUP_OFFSET: handle_clone,
    RequestCode.QUERY_CORRECTION_OFFSET: handle_correction,
}
