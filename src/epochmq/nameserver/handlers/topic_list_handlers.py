"""Lists of topics, for tools."""

from epochmq.base.errors import Refused
from epochmq.nameserver.name_server_node import NameServerNode
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.namesrv_bodies import TopicList
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.headers import namesrv_headers as headers
from epochmq.wire.headers.header import decode_header
from epochmq.wire.session import Session


def handle_all_topics(node: NameServerNode, request: Command, session: Session, now: int) -> Reply:
    if not node.options.enable_all_topic_list:
        raise Refused(ResponseCode.SYSTEM_ERROR, "disable: enableAllTopicList is false")
    return _topics([*node.table.topics.queues])


def handle_topics_of_cluster(
    node: NameServerNode, request: Command, session: Session, now: int
) -> Reply:
    header = decode_header(headers.GetTopicsByClusterHeader, request.ext)
    _check_topic_list(node)
    return _topics(node.table.topics_of_cluster(header.cluster))


def handle_system_topics(
    node: NameServerNode, request: Command, session: Session, now: int
) -> Reply:
    names, addr = node.table.system_topics()
    body = TopicList(names)
    if addr is not None:
        body.broker_addr = addr
    return Reply(body=encode_body(body))


def handle_units(
    wanted: int,
    unwanted: int,
    node: NameServerNode,
    request: Command,
    session: Session,
    now: int,
) -> Reply:
    """Topics with the system flag bits `wanted` and none of `unwanted`; bound in the table."""
    _check_topic_list(node)
    return _topics(node.table.topics.units(wanted, unwanted))


def _check_topic_list(node: NameServerNode) -> None:
    if not node.options.enable_topic_list:
        raise Refused(ResponseCode.SYSTEM_ERROR, "disable: enableTopicList is false")


def _topics(names: list[str]) -> Reply:
    return Reply(body=encode_body(TopicList(names)))
