"""Client connections and heartbeats: which clients of a group are connected, join and leave.

Request codes: HEART_BEAT 34, UNREGISTER_CLIENT 35, CHECK_CLIENT_CONFIG 46, and the lists 38, 203,
204 and 328.
"""

from collections.abc import Iterable

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.consume.client_tables import ACTIVELY, ClientMember, Manner, NotifyMembers
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.requests.common import NodeHandler, ok
from epochmq.model import names
from epochmq.model.topic import PERM_READ_WRITE
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.group_bodies import (
    CheckClientBody,
    ClientConnection,
    ConsumerConnection,
    ConsumerData,
    ConsumerList,
    HeartbeatData,
    ProducerConnection,
    ProducerInfo,
    ProducerTable,
)
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply, request
from epochmq.wire.header import decode_header
from epochmq.wire.headers.group_headers import (
    GetConsumerConnectionListHeader,
    GetConsumerListHeader,
    GetProducerConnectionListHeader,
    HeartbeatResponseHeader,
    NotifyConsumerIdsChangedHeader,
    UnregisterClientHeader,
)
from epochmq.wire.session import Session


def handle_consumer_list(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply:
    """Answer the client ids of a group (GET_CONSUMER_LIST_BY_GROUP 38); 1 when there is none."""
    name = decode_header(GetConsumerListHeader, command.ext).consumerGroup
    group = node.consumers.group(name)
    if group is None:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {name}")
    return ok(ConsumerList(group.client_ids()))


def _connections(members: Iterable[ClientMember]) -> list[ClientConnection]:
    return [ClientConnection(m.client_id, m.session.peer, m.language, m.version) for m in members]


def handle_consumer_connections(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply:
    """Answer the members and subscriptions of a group (GET_CONSUMER_CONNECTION_LIST 203).

    Raises `Refused` 206 when no member is online.
    """
    name = decode_header(GetConsumerConnectionListHeader, command.ext).consumerGroup
    group = node.consumers.group(name)
    if group is None:
        text = f"the consumer group[{name}] not online"
        raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, text)
    return ok(
        ConsumerConnection(
            connection_set=_connections(group.members.values()),
            subscription_table=group.subscriptions,
            consume_type=group.manner.consume_type,
            message_model=group.manner.message_model,
            consume_from_where=group.manner.from_where,
        )
    )


def handle_producer_connections(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply:
    """Answer the members of a producer group (GET_PRODUCER_CONNECTION_LIST 204).

    Raises `Refused` 1 when there is none.
    """
    name = decode_header(GetProducerConnectionListHeader, command.ext).producerGroup
    members = node.producers.members(name)
    if not members:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
    return ok(ProducerConnection(_connections(members)))


def handle_all_producers(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply:
    """Answer every producer of every group (GET_ALL_PRODUCER_INFO 328)."""
    table = {
        group: [
            ProducerInfo(m.client_id, m.session.peer, m.language, m.version, m.seen_wall_ms)
            for m in members.values()
        ]
        for group, members in node.producers.groups.items()
    }
    return ok(ProducerTable(table))


# Client heartbeat ----------------------------------------------------------------------------
# Clients register, send heartbeats and leave: 34, 35, 46, closed connections, expired clients.


_UNIT_SUBSCRIPTION = 2
"""topicSysFlag of a retry topic whose group has unit mode."""


def handle_heartbeat(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Register all groups of a client, and create their retry topics (HEART_BEAT 34).

    The version in the answer's header tells the client whether SQL92 filters are supported. Raises
    `Refused` 1 for a heartbeat that is too large.
    """
    data = decode_body(HeartbeatData, command.body)
    if len(data.client_id) > limits.CLIENT_ID_LENGTH_MAX:
        raise Refused(ResponseCode.SYSTEM_ERROR, "the client id is too long")
    if len(data.consumer_data_set) + len(data.producer_data_set) > limits.HEARTBEAT_GROUPS_MAX:
        text = f"more than {limits.HEARTBEAT_GROUPS_MAX} groups in one heartbeat"
        raise Refused(ResponseCode.SYSTEM_ERROR, text)
    subscriptions = sum(len(each.subscription_data_set) for each in data.consumer_data_set)
    if subscriptions > limits.SUBSCRIPTIONS_PER_GROUP_MAX:
        text = f"more than {limits.SUBSCRIPTIONS_PER_GROUP_MAX} subscriptions in one heartbeat"
        raise Refused(ResponseCode.SYSTEM_ERROR, text)
    session.client_id = data.client_id
    session.language, session.version = command.language, command.version
    wall = node.clock.wall_ms()
    member = ClientMember(session, data.client_id, command.language, command.version, now, wall)
    changed = False
    for consumer in data.consumer_data_set:
        changed = _consumer(node, member, consumer, data) or changed
    for producer in data.producer_data_set:
        if 0 < len(producer.group_name) <= limits.NAME_LENGTH_MAX:
            node.producers.heartbeat(producer.group_name, member)
    return Reply(header=HeartbeatResponseHeader(True, changed or not data.heartbeat_fingerprint))


def _consumer(
    node: BrokerContext, member: ClientMember, consumer: ConsumerData, data: HeartbeatData
) -> bool:
    """Register the client in one consumer group.

    Returns whether the members should send their full subscriptions again.
    """
    group = consumer.group_name
    if node.options.reject_pull_consumer_enable and consumer.consume_type == ACTIVELY:
        return False
    config = node.groups.find(group, member.seen_wall_ms)
    if config is None:
        return False
    wanted = None if data.without_sub else consumer.subscription_data_set
    node.topics.ensure(
        names.retry_topic(group),
        config.retry_queue_nums,
        PERM_READ_WRITE,
        member.seen_wall_ms,
        sys_flag=_UNIT_SUBSCRIPTION if consumer.unit_mode else 0,
        order=None if wanted is None else any(node.topics.is_order(s.topic) for s in wanted),
    )
    known = node.consumers.group(group)
    manner = Manner(consumer.consume_type, consumer.message_model, consumer.consume_from_where)
    notify = (
        config.notify_consumer_ids_changed_enable
        and node.options.notify_consumer_ids_changed_enable
    )
    send_notices(node.consumers.heartbeat(group, member, manner, wanted, notify=notify))
    if wanted is not None:
        node.filters.register(group, wanted, member.seen_wall_ms)
    return _fingerprint(node, group, known is None, data)


def _fingerprint(node: BrokerContext, group: str, was_unknown: bool, data: HeartbeatData) -> bool:
    """Compare the fingerprint of a V2 heartbeat (5.1+) with the last one of the group.

    V2 heartbeats omit the subscriptions while they do not change. Returns whether full ones are
    needed.
    """
    found = node.consumers.group(group)
    if found is None:
        return False
    before, found.fingerprint = found.fingerprint, data.heartbeat_fingerprint
    if was_unknown:
        return data.without_sub
    return before != data.heartbeat_fingerprint


def handle_unregister(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Remove a client from a producer group, a consumer group or both (UNREGISTER_CLIENT 35)."""
    header = decode_header(UnregisterClientHeader, command.ext)
    if header.producerGroup:
        node.producers.unregister(header.producerGroup, session)
    if header.consumerGroup:
        config = node.groups.get(header.consumerGroup)
        notify = config is None or config.notify_consumer_ids_changed_enable
        # Release the locks before the other members are notified: they lock its queues at once. A
        # disconnected client keeps its locks until they expire, because it may still consume.
        node.locks.leave(header.consumerGroup, header.clientID)
        node.pop_clients_left.notify(header.consumerGroup, session)
        notices = node.consumers.unregister(header.consumerGroup, session, notify=notify)
        send_notices(notices)
    return Reply()


def handle_check_client(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Check a filter expression (CHECK_CLIENT_CONFIG 46).

    Raises `Refused` 1 when such filters are disabled, 23 when the expression is invalid.
    """
    wanted = decode_body(CheckClientBody, command.body).subscription_data
    if wanted and not wanted.is_tag:
        node.filters.compiled(wanted.sub_string, wanted.expression_type)
    return Reply()


def send_notices(notices: Iterable[NotifyMembers]) -> None:
    """Send NOTIFY_CONSUMER_IDS_CHANGED 40 to the sessions that `ConsumerManager` returned."""
    for notice in notices:
        header = NotifyConsumerIdsChangedHeader(consumerGroup=notice.group)
        for session in notice.sessions:
            if not session.closed:
                session.oneway(request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header))


def session_closed(node: BrokerContext, session: Session) -> None:
    """Remove the client of a closed connection from every group."""
    node.producers.session_closed(session)
    send_notices(node.consumers.session_closed(session))


def expire_clients(node: BrokerContext, now: int) -> None:
    """Close clients without heartbeats; called every `client_tables.SCAN_MS`.

    Filters and locks that no client needs are removed too.
    """
    silent = node.consumers.expire(now)
    send_notices(silent.notices)
    for session in (*silent.sessions, *node.producers.expire(now).sessions):
        session.close("no heartbeat")
    node.locks.expire(now)
    node.filters.bury(lambda group: node.consumers.group(group) is not None, node.clock.wall_ms())


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: handle_consumer_list,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: handle_consumer_connections,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: handle_producer_connections,
    RequestCode.GET_ALL_PRODUCER_INFO: handle_all_producers,
    RequestCode.HEART_BEAT: handle_heartbeat,
    RequestCode.UNREGISTER_CLIENT: handle_unregister,
    RequestCode.CHECK_CLIENT_CONFIG: handle_check_client,
}
