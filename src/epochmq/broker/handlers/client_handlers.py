"""Who is connected: 38, 203, 204, 328."""

from collections.abc import Iterable

from epochmq.base.errors import Refused
from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.clients.group_members import ClientMember
from epochmq.broker.handlers.common import NodeHandler, ok
from epochmq.wire.bodies.client_bodies import (
    ClientConnection,
    ConsumerConnection,
    ConsumerList,
    ProducerConnection,
    ProducerInfo,
    ProducerTable,
)
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.headers.client_headers import (
    GetConsumerConnectionListHeader,
    GetConsumerListHeader,
    GetProducerConnectionListHeader,
)
from epochmq.wire.headers.header import decode_header
from epochmq.wire.session import Session


def handle_consumer_list(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """GET_CONSUMER_LIST_BY_GROUP 38: the client ids that share the queues; 1 when none."""
    name = decode_header(GetConsumerListHeader, command.ext).consumerGroup
    group = node.consumers.group(name)
    if group is None:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {name}")
    return ok(ConsumerList(group.client_ids()))


def _connections(members: Iterable[ClientMember]) -> list[ClientConnection]:
    return [ClientConnection(m.client_id, m.session.peer, m.language, m.version) for m in members]


def handle_consumer_connections(
    node: BrokerNode, command: Command, session: Session, now: int
) -> Reply:
    """GET_CONSUMER_CONNECTION_LIST 203: members, manner and subscriptions; 206 when none."""
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
    node: BrokerNode, command: Command, session: Session, now: int
) -> Reply:
    """GET_PRODUCER_CONNECTION_LIST 204; 1 when there is none."""
    name = decode_header(GetProducerConnectionListHeader, command.ext).producerGroup
    members = node.producers.members(name)
    if not members:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
    return ok(ProducerConnection(_connections(members)))


def handle_all_producers(node: BrokerNode, command: Command, session: Session, now: int) -> Reply:
    """GET_ALL_PRODUCER_INFO 328: every producer of every group."""
    table = {
        group: [
            ProducerInfo(m.client_id, m.session.peer, m.language, m.version, m.seen_wall_ms)
            for m in members.values()
        ]
        for group, members in node.producers.groups.items()
    }
    return ok(ProducerTable(table))


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: handle_consumer_list,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: handle_consumer_connections,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: handle_producer_connections,
    RequestCode.GET_ALL_PRODUCER_INFO: handle_all_producers,
}
