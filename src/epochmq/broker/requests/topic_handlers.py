"""Administration of topics: create, change, read and delete (17, 18, 21, 215, 351).

The service registers changed topics with the name servers; it reads `topics.changed`.
"""

import msgspec

from epochmq.base.errors import Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.requests.common import NodeHandler, known_topic, ok, watched_rows
from epochmq.broker.state.topic_table import check_topic_config, parse_changes
from epochmq.model import names
from epochmq.model.topic import TopicConfig
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.topic_bodies import TopicConfigList
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Held, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.topic_headers import (
    CreateTopicHeader,
    DeleteTopicHeader,
    GetTopicConfigHeader,
)
from epochmq.wire.session import Session

_POP_RETRY_MARKS = ("_", "+")
"""Separators of group and topic in the names of POP retry topics, versions 1 and 2."""


def handle_update(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Create or change a topic (UPDATE_AND_CREATE_TOPIC 17).

    Raises `Refused` 1 for an invalid name, number or attribute, and for a system topic.
    """
    header = decode_header(CreateTopicHeader, command.ext)
    config = TopicConfig(
        topic_name=header.topic,
        read_queue_nums=header.readQueueNums,
        write_queue_nums=header.writeQueueNums,
        perm=header.perm,
        topic_filter_type=header.topicFilterType,
        topic_sys_flag=header.topicSysFlag or 0,
        order=header.order,
    )
    changes = parse_changes(header.attributes)
    _check(node, config, changes)
    node.topics.update(config, changes, node.clock.wall_ms())
    return Reply()


def handle_update_list(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Create or change topics (UPDATE_AND_CREATE_TOPIC_LIST 18, from 5.3 on).

    If one is invalid, none is changed.
    """
    topics = decode_body(TopicConfigList, command.body).topic_config_list
    for config in topics:
        _check(node, config, config.attributes)
    for config in topics:
        plain = msgspec.structs.replace(config, attributes={})
        node.topics.update(plain, config.attributes, node.clock.wall_ms())
    return Reply()


def _check(node: BrokerContext, config: TopicConfig, changes: dict[str, str]) -> None:
    check_topic_config(config)
    _check_not_system(node, config.topic_name)
    if changes.get("+message.type") == "MIXED" and not node.options.enable_mixed_message_type:
        raise Refused(ResponseCode.SYSTEM_ERROR, "MIXED message type is not supported.")


def _check_not_system(node: BrokerContext, topic: str) -> None:
    if node.options.validate_system_topic_when_update_topic and node.topics.is_system(topic):
        text = f"The topic[{topic}] is conflict with system topic."
        raise Refused(ResponseCode.SYSTEM_ERROR, text)


def handle_get_all(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply | Held:
    """Answer all topics (GET_ALL_TOPIC_CONFIG 21); a replica may wait for changes."""
    return watched_rows(node, command, session, now, node.topics)


def handle_get(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer one topic (GET_TOPIC_CONFIG 351); 17 when there is none."""
    return ok(known_topic(node, decode_header(GetTopicConfigHeader, command.ext).topic))


def handle_delete(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Delete a topic, its offsets, messages and POP retry topics (DELETE_TOPIC_IN_BROKER 215).

    Deleting an unknown topic succeeds, so that a tool can repeat the request.
    """
    topic = decode_header(DeleteTopicHeader, command.ext).topic
    names.check_topic(topic)
    _check_not_system(node, topic)
    doomed = [topic]
    if node.options.clear_retry_topic_when_delete_topic:
        doomed += [
            retry
            for group in node.offsets.groups_of(topic)
            for mark in _POP_RETRY_MARKS
            if (retry := names.retry_topic(f"{group}{mark}{topic}")) in node.topics
        ]
    for name in doomed:
        delete_topic(node, name)
    return Reply()


def delete_topic(node: BrokerContext, topic: str) -> None:
    """Delete everything that the broker has of a topic."""
    wall = node.clock.wall_ms()
    node.topics.delete(topic, wall)
    node.offsets.drop_topic(topic, wall)
    node.pop.drop_topic(topic)
    node.store.delete_topic(topic)
    node.stats.forget(topic)
    node.transactions.topics.forget(topic)
    node.pop.driver.counts.forget(topic)
    if node.timer is not None:
        node.timer.driver.counts.forget(topic)


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: handle_update,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: handle_update_list,
    RequestCode.GET_ALL_TOPIC_CONFIG: handle_get_all,
    RequestCode.DELETE_TOPIC_IN_BROKER: handle_delete,
    RequestCode.GET_TOPIC_CONFIG: handle_get,
}
