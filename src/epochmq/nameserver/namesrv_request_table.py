"""The request handlers of the name server, by request code."""

from collections.abc import Callable
from functools import partial

from epochmq.nameserver import namesrv_config, registration_handlers, route_handlers
from epochmq.nameserver.name_server_node import NameServerNode
from epochmq.nameserver.routed_topics import UNIT, UNIT_SUB
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, Held, Reply
from epochmq.wire.dispatcher import Handler
from epochmq.wire.session import Session

NodeHandler = Callable[[NameServerNode, Command, Session, int], Reply | Held]

TABLE: dict[RequestCode, NodeHandler] = {
    RequestCode.PUT_KV_CONFIG: namesrv_config.handle_put_kv,
    RequestCode.GET_KV_CONFIG: namesrv_config.handle_get_kv,
    RequestCode.DELETE_KV_CONFIG: namesrv_config.handle_delete_kv,
    RequestCode.REGISTER_BROKER: registration_handlers.handle_register,
    RequestCode.UNREGISTER_BROKER: registration_handlers.handle_unregister,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: route_handlers.handle_route,
    RequestCode.GET_BROKER_CLUSTER_INFO: registration_handlers.handle_cluster_info,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: route_handlers.handle_wipe_write,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: route_handlers.handle_all_topics,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: route_handlers.handle_delete_topic,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: route_handlers.handle_register_topic,
    RequestCode.GET_KVLIST_BY_NAMESPACE: namesrv_config.handle_list_kv,
    RequestCode.GET_TOPICS_BY_CLUSTER: route_handlers.handle_topics_of_cluster,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: route_handlers.handle_system_topics,
    RequestCode.GET_UNIT_TOPIC_LIST: partial(route_handlers.handle_units, UNIT, 0),
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: partial(route_handlers.handle_units, UNIT_SUB, 0),
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: partial(
        route_handlers.handle_units, UNIT_SUB, UNIT
    ),
    RequestCode.UPDATE_NAMESRV_CONFIG: namesrv_config.handle_update_config,
    RequestCode.GET_NAMESRV_CONFIG: namesrv_config.handle_get_config,
    RequestCode.QUERY_DATA_VERSION: registration_handlers.handle_query_version,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: route_handlers.handle_add_write,
    RequestCode.GET_BROKER_MEMBER_GROUP: registration_handlers.handle_member_group,
    RequestCode.BROKER_HEARTBEAT: registration_handlers.handle_heartbeat,
}


FREE = frozenset(
    {
        RequestCode.GET_KV_CONFIG,
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.GET_KVLIST_BY_NAMESPACE,
        RequestCode.GET_TOPICS_BY_CLUSTER,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        RequestCode.QUERY_DATA_VERSION,
        RequestCode.GET_BROKER_MEMBER_GROUP,
        RequestCode.GET_BROKER_RUNTIME_INFO,
    }
)
"""Requests that need no signature with authenticationEnabled: they read names and addresses, which
clients need. A name server does not know the users of the brokers."""
CHANGES = frozenset(
    {
        RequestCode.PUT_KV_CONFIG,
        RequestCode.DELETE_KV_CONFIG,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER,
        RequestCode.ADD_WRITE_PERM_OF_BROKER,
        RequestCode.DELETE_TOPIC_IN_NAMESRV,
        RequestCode.UPDATE_NAMESRV_CONFIG,
    }
)
"""Changes by administrators, for the audit log."""


def handlers(node: NameServerNode) -> dict[int, Handler]:
    """Return the table for a `Dispatcher`, bound to `node`."""
    return {int(code): partial(handler, node) for code, handler in TABLE.items()}
