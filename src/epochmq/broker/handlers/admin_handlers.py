"""Housekeeping by hand and single counters: 305, 306, 315, 316, 329."""

from epochmq.base.errors import Refused
from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.handlers.common import NodeHandler, ok
from epochmq.broker.stats.item import StatsSpan
from epochmq.model import names
from epochmq.wire.bodies.namesrv_bodies import TopicList
from epochmq.wire.bodies.runtime_bodies import BrokerStatsData, BrokerStatsItem
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.headers.admin_headers import ViewBrokerStatsHeader
from epochmq.wire.headers.header import decode_header
from epochmq.wire.session import Session


def handle_system_topics(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """GET_SYSTEM_TOPIC_LIST_FROM_BROKER 305."""
    return ok(TopicList(sorted(names.SYSTEM_TOPICS | node.topics.system)))


def handle_stats(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """VIEW_BROKER_STATS_DATA 315: one counter over a minute, an hour and a day; 1 if unknown."""
    header = decode_header(ViewBrokerStatsHeader, command.ext)
    item = node.stats.find(header.statsName, header.statsKey)
    if item is None:
        text = f"The stats <{header.statsName}> <{header.statsKey}> not exist"
        raise Refused(ResponseCode.SYSTEM_ERROR, text)
    spans = (item.minute(), item.hour(), item.day())
    return ok(BrokerStatsData(*map(_stats_item, spans)))


def _stats_item(span: StatsSpan) -> BrokerStatsItem:
    return BrokerStatsItem(span.sum, span.tps, span.avgpt)


def handle_clean_queues(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """CLEAN_EXPIRED_CONSUMEQUEUE 306: nothing to do, queue files follow the log by themselves."""
    return Reply()


def handle_clean_log(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """DELETE_EXPIRED_COMMITLOG 329: log files past their time go now, not at deleteWhen."""
    node.store.retention.by_hand = True
    return Reply()


def handle_clean_topics(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """CLEAN_UNUSED_TOPIC 316: queues of topics that are not configured any more."""
    node.store.clean_unused(set(node.topics.table))
    return Reply()


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: handle_system_topics,
    RequestCode.VIEW_BROKER_STATS_DATA: handle_stats,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: handle_clean_queues,
    RequestCode.DELETE_EXPIRED_COMMITLOG: handle_clean_log,
    RequestCode.CLEAN_UNUSED_TOPIC: handle_clean_topics,
}
