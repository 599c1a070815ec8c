"""Request handlers for routes of topics, write permissions, and lists of topics."""

from epochmq.base import limits
from epochmq.base.errors import HeaderError, Refused
from epochmq.model.topic import TopicRouteData
from epochmq.nameserver.name_server_node import NameServerNode
from epochmq.wire.bodies.body import decode_body, encode_body
from epochmq.wire.bodies.namesrv_bodies import TopicList
from epochmq.wire.codes import VERSION_4_9_4, ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers import namesrv_headers as headers
from epochmq.wire.session import Session


def handle_route(node: NameServerNode, request: Command, session: Session, now: int) -> Reply:
    """Return the route of a topic (105); 17 if no broker has the topic."""
    header = decode_header(headers.GetRouteHeader, request.ext)
    if not node.ready(now):
        raise Refused(ResponseCode.SYSTEM_ERROR, "name server not ready; brokers still register")
    ext = request.ext or {}
    bare = request.version < VERSION_4_9_4 and not header.acceptStandardJsonOnly
    zone = ext.get("__ZONE_NAME")
    if zone and ext.get("__ZONE_MODE", "").lower() == "true":
        body = node.routes.encoded_for_zone(header.topic, zone, bare=bare)
    elif header.ownAddresses:
        body = node.routes.encoded_own(header.topic)
    else:
        body = node.routes.encoded(header.topic, bare=bare)
    if body is None:
        raise Refused(
            ResponseCode.TOPIC_NOT_EXIST,
            f"No topic route info in name server for the topic: {header.topic}",
        )
    return Reply(body=body)


def handle_delete_topic(
    node: NameServerNode, request: Command, session: Session, now: int
) -> Reply:
    """Remove the route of a topic (216)."""
    header = decode_header(headers.DeleteTopicInNamesrvHeader, request.ext)
    node.table.delete_topic(header.topic, header.clusterName)
    return Reply()


def handle_register_topic(
    node: NameServerNode, request: Command, session: Session, now: int
) -> Reply:
    """Set the queues of a topic on known broker groups (217)."""
    header = decode_header(headers.RegisterTopicHeader, request.ext)
    route = decode_body(TopicRouteData, request.body)
    if not header.topic or len(header.topic) > limits.NAME_LENGTH_MAX:
        raise HeaderError(f"a topic has 1 to {limits.NAME_LENGTH_MAX} characters")
    node.table.register_topic(header.topic, route.queue_datas)
    return Reply()


def handle_wipe_write(node: NameServerNode, request: Command, session: Session, now: int) -> Reply:
    """Remove the write permission of all topics of a broker group (205)."""
    header = decode_header(headers.WipeWritePermHeader, request.ext)
    count = node.table.wipe_write(header.brokerName)
    return Reply(header=headers.WipeWritePermResponseHeader(count))


def handle_add_write(node: NameServerNode, request: Command, session: Session, now: int) -> Reply:
    """Make all topics of a broker group readable and writable (327)."""
    header = decode_header(headers.AddWritePermHeader, request.ext)
    count = node.table.add_write(header.brokerName)
    return Reply(header=headers.AddWritePermResponseHeader(count))


# Topic list handlers -------------------------------------------------------------------------
# Lists of topics for tools.


def handle_all_topics(node: NameServerNode, request: Command, session: Session, now: int) -> Reply:
    """Return the names of all topics (206)."""
    if not node.options.enable_all_topic_list:
        raise Refused(ResponseCode.SYSTEM_ERROR, "disable: enableAllTopicList is false")
    return _topics([*node.table.topics.queues])


def handle_topics_of_cluster(
    node: NameServerNode, request: Command, session: Session, now: int
) -> Reply:
    """Return the names of the topics of a cluster (224)."""
    header = decode_header(headers.GetTopicsByClusterHeader, request.ext)
    _check_topic_list(node)
    return _topics(node.table.topics_of_cluster(header.cluster))


def handle_system_topics(
    node: NameServerNode, request: Command, session: Session, now: int
) -> Reply:
    """Return the names of clusters and broker groups, which are topics too (304)."""
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
    """Return the topics with system flag bits `wanted` and none of `unwanted`; the table binds
    both.
    """
    _check_topic_list(node)
    return _topics(node.table.topics.units(wanted, unwanted))


def _check_topic_list(node: NameServerNode) -> None:
    if not node.options.enable_topic_list:
        raise Refused(ResponseCode.SYSTEM_ERROR, "disable: enableTopicList is false")


def _topics(names: list[str]) -> Reply:
    return Reply(body=encode_body(TopicList(names)))
