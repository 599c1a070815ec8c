"""Which group reads which topic, and copying progress: 300, 308, 314, 343, 345."""

from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.handlers.common import NodeHandler, known_group, ok
from epochmq.model import names
from epochmq.wire.bodies.group_bodies import CorrectionOffsets, QuerySubscriptionBody
from epochmq.wire.bodies.namesrv_bodies import TopicList
from epochmq.wire.bodies.topic_bodies import GroupList
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.headers.group_headers import (
    CloneGroupOffsetHeader,
    QueryCorrectionOffsetHeader,
    QuerySubscriptionByConsumerHeader,
    QueryTopicsByConsumerHeader,
)
from epochmq.wire.headers.header import decode_header
from epochmq.wire.headers.topic_headers import QueryTopicConsumeByWhoHeader
from epochmq.wire.session import Session

_NOT_TO_BE_CORRECTED = 2**63 - 1


def handle_groups_of_topic(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """QUERY_TOPIC_CONSUME_BY_WHO 300: groups that subscribe now or once committed."""
    topic = decode_header(QueryTopicConsumeByWhoHeader, command.ext).topic
    groups = node.consumers.groups_of_topic(topic) | node.offsets.groups_of(topic)
    return ok(GroupList(sorted(groups)))


def handle_topics_of_group(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """QUERY_TOPICS_BY_CONSUMER 343: topics the group has offsets in."""
    group = decode_header(QueryTopicsByConsumerHeader, command.ext).group
    return ok(TopicList(sorted(node.offsets.topics_of(group)), node.address))


def handle_subscription(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """QUERY_SUBSCRIPTION_BY_CONSUMER 345: what a group wants of a topic; nothing when offline."""
    header = decode_header(QuerySubscriptionByConsumerHeader, command.ext)
    topic = header.topic or ""
    body = QuerySubscriptionBody(header.group, topic)
    found = node.consumers.subscription(header.group, topic)
    if found is not None:
        body.subscription_data = found
    return ok(body)


def handle_clone(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """CLONE_GROUP_OFFSET 314: one group starts where another is, in one topic or in all."""
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


def handle_correction(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """QUERY_CORRECTION_OFFSET 308: by queue, the least any group consumed (RocketMQ's routine).

    A queue in which the compared group is already behind that is marked with the largest number.
    """
    header = decode_header(QueryCorrectionOffsetHeader, command.ext)
    ignored = frozenset(name for name in (header.filterGroups or "").split(",") if name)
    lowest = node.offsets.lowest(header.topic, ignored)
    for queue_id, offset in node.offsets.row(header.compareGroup, header.topic).items():
        if lowest.get(queue_id, offset) > offset:
            lowest[queue_id] = _NOT_TO_BE_CORRECTED
    return ok(CorrectionOffsets(lowest))


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: handle_groups_of_topic,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: handle_topics_of_group,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: handle_subscription,
    RequestCode.CLONE_GROUP_OFFSET: handle_clone,
    RequestCode.QUERY_CORRECTION_OFFSET: handle_correction,
}
