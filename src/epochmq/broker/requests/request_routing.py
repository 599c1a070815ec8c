"""Request routing: permission, body size limit, ports and role check of each request code.

Every request code of the protocol has a row in `ROWS`. A code without a row stops the start (and
fails a test), so that no request is served without a permission. Rows with access ELSEWHERE are
answered "not supported" (3): they belong to name servers, controllers and clients, or to parts of
RocketMQ that EpochMQ does not have.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial

from epochmq.auth.access_control import NOBODY, AccessRefused
from epochmq.auth.audit_log import AuditLog
from epochmq.base import limits
from epochmq.base.errors import HeaderError, OurBug, Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.requests.cold_requests import after_reading, from_memory
from epochmq.broker.requests.common import NodeHandler
from epochmq.broker.requests.permissions import PERMISSIONS
from epochmq.broker.requests.request_table import READS_FIRST, REQUEST_TABLE
from epochmq.broker.serving.roles import Role
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, Held, Reply
from epochmq.wire.dispatcher import Handler
from epochmq.wire.session import Session


class Access(Enum):
    """The kind of a request; `requests/permissions.py` says what a user needs for it."""

    PUBLISH = auto()
    """Send to the named topic."""
    SUBSCRIBE = auto()
    """Read the named topic, or act for the named group."""
    CLIENT = auto()
    """Be a client."""
    INSPECT = auto()
    """Read the broker's state."""
    ADMIN = auto()
    """Change the broker's state; is written to the audit log."""
    PEER = auto()
    """Be a broker of the same cluster."""
    ELSEWHERE = auto()
    """Not for brokers, or not supported."""


class Needs(Enum):
    """What the broker's role must allow for a request (`broker/serving/roles.py`)."""

    NOTHING = auto()
    TABLES = auto()
    """Its tables are valid for the group: not while it copies changes made without it (INV-29)."""
    SERVING = auto()
    """It is a registered member of its group; the data of a fenced broker may be old."""
    CONSUMING = auto()
    """It is the master or an acting master, which keeps offsets and locks and serves pops."""
    WRITING = auto()
    """It is the master: changes made here are copied to the replicas."""


@dataclass(frozen=True, slots=True)
class RequestRow:
    """The rules for one request code.

    Attributes:
        access: what kind of request it is.
        body_bytes_max: limit of its body.
        objects_max: limit of the JSON objects in its body; None for those that check it themselves.
        fast_port: whether the VIP port serves it too.
        needs: what the broker's role must allow.
        reads_messages: whether it only reads, and waits for messages that are not in memory.
    """

    access: Access
    body_bytes_max: int
    fast_port: bool = True
    needs: Needs = Needs.NOTHING
    reads_messages: bool = False
    objects_max: int | None = None


OBJECTS_MAX = {
    Code.UPDATE_AND_CREATE_TOPIC_LIST: limits.CONFIGS_PER_REQUEST_MAX,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: limits.CONFIGS_PER_REQUEST_MAX,
    Code.LOCK_BATCH_MQ: limits.QUEUES_LOCKED_PER_REQUEST_MAX,
    Code.UNLOCK_BATCH_MQ: limits.QUEUES_LOCKED_PER_REQUEST_MAX,
    Code.BATCH_ACK_MESSAGE: 2 * limits.POP_ACKS_PER_REQUEST_MAX,
}
"""Requests with a list whose items take long. The whole list is executed in one turn of the event
loop, so longer lists are refused before they are decoded."""

READS_MESSAGES = frozenset({
    Code.VIEW_MESSAGE_BY_ID, Code.SEARCH_OFFSET_BY_TIMESTAMP, Code.GET_EARLIEST_MSG_STORETIME,
    Code.QUERY_CONSUME_QUEUE, Code.EPOCH_OFFSETS, Code.LOG_READ, Code.PEEK_MESSAGE,
    Code.GET_TOPIC_STATS_INFO,
    Code.QUERY_CONSUME_TIME_SPAN, Code.GET_BROKER_RUNTIME_INFO, Code.BULK_READ,
})  # fmt: skip
"""Requests that only read, messages among them: see `cold_requests`.

`READS_FIRST` has those that also change something. Pulls, pops, searches by key and statistics of
groups wait for the device in their own way.
"""

KIB, MIB = 1024, 1024 * 1024
_FRAME = 16 * MIB


def _rows(
    access: Access,
    size: int,
    *codes: Code,
    fast_port: bool = True,
    needs: Needs = Needs.NOTHING,
) -> dict[Code, RequestRow]:
    return {
        code: RequestRow(
            access, size, fast_port, needs, code in READS_MESSAGES, OBJECTS_MAX.get(code)
        )
        for code in codes
    }


ROWS: dict[Code, RequestRow] = {
    **_rows(
        Access.PUBLISH, _FRAME,
        Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.SEND_REPLY_MESSAGE,
        Code.SEND_REPLY_MESSAGE_V2,
    ),
    **_rows(Access.PUBLISH, 64 * KIB, Code.END_TRANSACTION, Code.RECALL_MESSAGE),
    **_rows(
        Access.SUBSCRIBE, 0,
        Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE, Code.BULK_READ,
        fast_port=False,
    ),
    **_rows(
        Access.SUBSCRIBE, 64 * KIB,
        Code.QUERY_CONSUMER_OFFSET,
        Code.SEARCH_OFFSET_BY_TIMESTAMP, Code.GET_MAX_OFFSET, Code.GET_MIN_OFFSET,
        Code.GET_EARLIEST_MSG_STORETIME, Code.QUERY_MESSAGE, Code.VIEW_MESSAGE_BY_ID,
        Code.EPOCH_OFFSETS, Code.KEY_PLACES,
        needs=Needs.SERVING,
    ),
    **_rows(
        Access.SUBSCRIBE, 64 * KIB, Code.CONSUMER_SEND_MSG_BACK, Code.GET_CONSUMER_LIST_BY_GROUP
    ),
    **_rows(Access.SUBSCRIBE, 64 * KIB, Code.QUERY_ASSIGNMENT, needs=Needs.SERVING),
    **_rows(Access.SUBSCRIBE, 64 * KIB, Code.UPDATE_CONSUMER_OFFSET, needs=Needs.CONSUMING),
    **_rows(
        Access.SUBSCRIBE, 64 * KIB,
        Code.PEEK_MESSAGE, Code.NOTIFICATION, Code.POLLING_INFO,
        fast_port=False, needs=Needs.SERVING,
    ),
    **_rows(
        Access.SUBSCRIBE, 64 * KIB, Code.POP_MESSAGE, fast_port=False, needs=Needs.CONSUMING
    ),
    **_rows(
        Access.SUBSCRIBE, MIB,
        Code.ACK_MESSAGE, Code.BATCH_ACK_MESSAGE, Code.CHANGE_MESSAGE_INVISIBLETIME,
        needs=Needs.CONSUMING,
    ),
    **_rows(Access.SUBSCRIBE, 4 * MIB, Code.UNLOCK_BATCH_MQ),
    # The handler checks the role: a request for a vote is answered by any member of the group.
    **_rows(Access.SUBSCRIBE, 4 * MIB, Code.LOCK_BATCH_MQ, needs=Needs.SERVING),
    **_rows(
        Access.CLIENT, MIB,
        Code.HEART_BEAT, Code.UNREGISTER_CLIENT, Code.CHECK_CLIENT_CONFIG,
    ),
    **_rows(Access.CLIENT, 0, Code.AUTH_CHALLENGE),
    **_rows(
        Access.INSPECT, MIB,
        Code.GET_ALL_TOPIC_CONFIG, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        needs=Needs.TABLES,
    ),
    **_rows(
        Access.INSPECT, MIB,
        Code.GET_TOPIC_CONFIG, Code.GET_BROKER_CONFIG, Code.GET_BROKER_RUNTIME_INFO,
        Code.GET_SUBSCRIPTIONGROUP_CONFIG, Code.GET_TOPIC_STATS_INFO,
        Code.GET_CONSUMER_CONNECTION_LIST, Code.GET_PRODUCER_CONNECTION_LIST,
        Code.GET_CONSUME_STATS, Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        Code.QUERY_TOPIC_CONSUME_BY_WHO, Code.QUERY_CONSUME_TIME_SPAN,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, Code.GET_CONSUMER_RUNNING_INFO,
        Code.QUERY_CORRECTION_OFFSET, Code.CONSUME_MESSAGE_DIRECTLY, Code.VIEW_BROKER_STATS_DATA,
        Code.GET_BROKER_CONSUME_STATS, Code.QUERY_CONSUME_QUEUE, Code.GET_ALL_PRODUCER_INFO,
        Code.QUERY_TOPICS_BY_CONSUMER, Code.QUERY_SUBSCRIPTION_BY_CONSUMER,
    ),
    **_rows(
        Access.ADMIN, 4 * MIB,
        Code.UPDATE_AND_CREATE_TOPIC, Code.UPDATE_AND_CREATE_TOPIC_LIST,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, Code.DELETE_SUBSCRIPTIONGROUP,
        Code.DELETE_TOPIC_IN_BROKER, Code.INVOKE_BROKER_TO_RESET_OFFSET,
        Code.CLONE_GROUP_OFFSET, Code.CLEAN_UNUSED_TOPIC, Code.UPDATE_AND_GET_GROUP_FORBIDDEN,
        Code.SET_MESSAGE_REQUEST_MODE, Code.RESUME_CHECK_HALF_MESSAGE,
        needs=Needs.WRITING,
    ),
    **_rows(
        Access.ADMIN, 4 * MIB,
        Code.UPDATE_BROKER_CONFIG, Code.CLEAN_EXPIRED_CONSUMEQUEUE, Code.DELETE_EXPIRED_COMMITLOG,
        Code.RESET_MASTER_FLUSH_OFFSET,
    ),
    # A replica answers changes of users as done: RocketMQ's tools send them to all brokers.
    **_rows(
        Access.ADMIN, MIB,
        Code.AUTH_CREATE_USER, Code.AUTH_UPDATE_USER, Code.AUTH_DELETE_USER, Code.AUTH_CREATE_ACL,
        Code.AUTH_UPDATE_ACL, Code.AUTH_DELETE_ACL,
        needs=Needs.SERVING,
    ),
    **_rows(
        Access.INSPECT, MIB,
        Code.AUTH_GET_USER, Code.AUTH_LIST_USER, Code.AUTH_GET_ACL, Code.AUTH_LIST_ACL,
        needs=Needs.SERVING,
    ),
    **_rows(
        Access.INSPECT, MIB,
        Code.GET_BROKER_HA_STATUS, Code.GET_BROKER_EPOCH_CACHE, Code.READ_AUDIT_LOG,
    ),
    **_rows(Access.INSPECT, 0, Code.LOG_DIGESTS, fast_port=False),
    **_rows(Access.INSPECT, 0, Code.MASTER_STATE),
    # The log has the messages of all topics: read permission for one topic is not enough.
    **_rows(Access.ADMIN, 0, Code.LOG_READ, fast_port=False),
    **_rows(
        Access.PEER, MIB,
        Code.GET_ALL_CONSUMER_OFFSET, Code.GET_ALL_DELAY_OFFSET,
        Code.GET_ALL_MESSAGE_REQUEST_MODE, Code.GET_TIMER_CHECK_POINT, Code.GET_TIMER_METRICS,
        Code.GET_ALL_CONSUMER_ORDER_INFO, Code.GET_ALL_ACCOUNTS,
        needs=Needs.TABLES,
    ),
    **_rows(
        Access.PEER, MIB,
        Code.EXCHANGE_BROKER_HA_INFO, Code.NOTIFY_BROKER_ROLE_CHANGED,
        Code.NOTIFY_MIN_BROKER_ID_CHANGE,
    ),
    **_rows(
        Access.ELSEWHERE, 0,
        # Unused codes.

        Code.QUERY_BROKER_OFFSET, Code.TRIGGER_DELETE_FILES,
        Code.GET_TOPIC_CONFIG_LIST, Code.GET_TOPIC_NAME_LIST, Code.SUSPEND_CONSUMER,
        Code.RESUME_CONSUMER, Code.RESET_CONSUMER_OFFSET_IN_CONSUMER,
        Code.RESET_CONSUMER_OFFSET_IN_BROKER, Code.ADJUST_CONSUMER_THREAD_POOL,
        Code.WHO_CONSUME_THE_MESSAGE, Code.REGISTER_FILTER_SERVER,
        Code.REGISTER_MESSAGE_FILTER_CLASS,
        # Requests to clients.
        Code.CHECK_TRANSACTION_STATE, Code.NOTIFY_CONSUMER_IDS_CHANGED,
        Code.RESET_CONSUMER_CLIENT_OFFSET, Code.GET_CONSUMER_STATUS_FROM_CLIENT,
        Code.PUSH_REPLY_MESSAGE_TO_CLIENT,
        # Requests to name servers.
        Code.GET_CLIENT_CONFIG, Code.PUT_KV_CONFIG, Code.GET_KV_CONFIG, Code.DELETE_KV_CONFIG,
        Code.REGISTER_BROKER, Code.UNREGISTER_BROKER, Code.GET_ROUTEINFO_BY_TOPIC,
        Code.GET_BROKER_CLUSTER_INFO, Code.WIPE_WRITE_PERM_OF_BROKER,
        Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Code.DELETE_TOPIC_IN_NAMESRV,
        Code.REGISTER_TOPIC_IN_NAMESRV, Code.GET_KVLIST_BY_NAMESPACE, Code.GET_TOPICS_BY_CLUSTER,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, Code.GET_UNIT_TOPIC_LIST,
        Code.GET_HAS_UNIT_SUB_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        Code.UPDATE_NAMESRV_CONFIG, Code.GET_NAMESRV_CONFIG, Code.QUERY_DATA_VERSION,
        Code.ADD_WRITE_PERM_OF_BROKER, Code.GET_BROKER_MEMBER_GROUP, Code.BROKER_HEARTBEAT,
        # Requests to controllers.
        Code.CONTROLLER_ALTER_SYNC_STATE_SET, Code.CONTROLLER_ELECT_MASTER,
        Code.CONTROLLER_REGISTER_BROKER, Code.CONTROLLER_GET_REPLICA_INFO,
        Code.CONTROLLER_GET_METADATA_INFO, Code.CONTROLLER_GET_SYNC_STATE_DATA,
        Code.UPDATE_CONTROLLER_CONFIG, Code.GET_CONTROLLER_CONFIG, Code.CLEAN_BROKER_DATA,
        Code.CONTROLLER_GET_NEXT_BROKER_ID, Code.CONTROLLER_APPLY_BROKER_ID,
        Code.CONTROLLER_GET_TIMELINE,
        Code.RAFT_MESSAGE,
        Code.RAFT_LINK,
        # Replicas and roles.
        Code.ADD_BROKER, Code.REMOVE_BROKER,
        # POP.
        Code.POP_ROLLBACK,
        # Users and access policies of ACL 1.0.
        Code.UPDATE_AND_CREATE_ACL_CONFIG, Code.DELETE_ACL_CONFIG,
        Code.GET_BROKER_CLUSTER_ACL_INFO, Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
        Code.GET_BROKER_CLUSTER_ACL_CONFIG,
        # Static topics, cold data, RocksDB.
        Code.UPDATE_AND_CREATE_STATIC_TOPIC, Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
        Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, Code.GET_COLD_DATA_FLOW_CTR_INFO,
        Code.SET_COMMITLOG_READ_MODE, Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS,
        Code.EXPORT_ROCKSDB_CONFIG_TO_JSON,
    ),
}  # fmt: skip


def bind(node: BrokerContext, more: Mapping[int, Handler]) -> dict[int, Handler]:
    """Return the handlers of this broker by code, each behind the checks of its row.

    Raises `OurBug` when rows and handlers do not match.
    """
    handlers: dict[int, Handler] = dict(more)
    for code, handler in REQUEST_TABLE.items():
        if code in handlers:
            raise OurBug(f"request code {code} has two handlers")
        handlers[code] = _with_node(node, handler)
    check_complete(handlers)
    return {
        code: _guarded(node, Code(code), handler, node.audit) for code, handler in handlers.items()
    }


def check_complete(handled: Iterable[int]) -> None:
    """Raise `OurBug` unless every code has a row, and exactly the served codes have a handler and
    a permission.
    """
    unclassified = [code.name for code in Code if code not in ROWS]
    if unclassified:
        raise OurBug(f"request codes without a row: {', '.join(unclassified)}")
    served = {int(code) for code, row in ROWS.items() if row.access is not Access.ELSEWHERE}
    unguarded = served.symmetric_difference(PERMISSIONS)
    if unguarded:
        names = ", ".join(sorted(Code(code).name for code in unguarded))
        raise OurBug(f"request codes whose row and permission do not agree: {names}")
    wrong = served.symmetric_difference(handled)
    if wrong:
        names = ", ".join(sorted(Code(code).name for code in wrong))
        raise OurBug(f"request codes whose row and handler do not agree: {names}")


def _with_node(node: BrokerContext, handler: NodeHandler) -> Handler:
    def handle(command: Command, session: Session, now: int) -> Reply | Held:
        return handler(node, command, session, now)

    return handle


def check_objects(command: Command, most: int) -> None:
    """Raise `Refused` if the body has more than `most` JSON objects."""
    count = bytes(command.body).count(b"{")
    if count > most:
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"the list is too long: {count} JSON objects, and request type {command.code} may have"
            f" {most}; send it in several requests",
        )


def check_role(node: BrokerContext, row: RequestRow) -> None:
    """Raise `Refused` unless the broker's present role allows the request."""
    if row.needs is Needs.NOTHING:
        return
    if node.serving.role is Role.PRE_ONLINE:
        raise Refused(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            "service not available now: this broker is not online yet, it takes over what its group"
            " did without it",
        )
    if row.needs is Needs.TABLES:
        return
    rights = node.serving.rights
    if not rights.registers:
        raise Refused(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            "service not available now: this broker has no place in its group; ask for the route"
            " again",
        )
    lacks_changes = row.needs is Needs.WRITING and not rights.changes
    if lacks_changes or (row.needs is Needs.CONSUMING and not rights.consumes):
        if rights.writable:
            raise Refused(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "service not available now: this master hears no controller; until it does it takes"
                " messages, but no changes of topics, groups, offsets and locks",
            )
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            "this broker is a replica: topics, groups, offsets and locks are changed at the master"
            f" of the group {node.group_position.master_address}".rstrip(),
        )


def _guarded(node: BrokerContext, code: Code, handler: Handler, audit: AuditLog) -> Handler:
    """Wrap `handler` with the checks of its code: port, body size, permission and role."""
    row = ROWS[code]
    access, cluster = node.access, node.options.broker_cluster_name
    needs_of = partial(PERMISSIONS[code], cluster)
    is_change = row.access is Access.ADMIN
    is_limited = not row.fast_port or row.objects_max is not None
    needs_role = row.needs is not Needs.NOTHING

    def handle(command: Command, session: Session, now: int) -> Reply | Held:
        if is_limited or len(command.body) > row.body_bytes_max:
            check_shape(command, session)  # before the body is read for its signature
        user = NOBODY
        if access is not None:
            try:
                user = access.check(command, needs_of, session, now).name
            except AccessRefused as error:
                audit.refused(code.name, session.peer, error, now)
                raise
        if not is_change:
            return execute(command, session, now)
        return audit.run(
            code.name,
            session.peer,
            user,
            lambda: resources(command),
            lambda: execute(command, session, now),
        )

    def resources(command: Command) -> list[str]:
        """Return what is changed, for the audit log."""
        ext = command.ext or {}
        if user := ext.get("username") or ext.get("subject"):
            return [user if user.startswith("User:") else f"User:{user}"]
        try:
            return [f"{need.type}:{need.name}" for need in needs_of(command)]
        except HeaderError:
            return []

    def check_shape(command: Command, session: Session) -> None:
        if session.fast_port and not row.fast_port:
            raise Refused(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                f" request type {command.code} not supported",
            )
        if len(command.body) > row.body_bytes_max:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"a body of {len(command.body)} bytes is more than request type {command.code} may"
                f" have ({row.body_bytes_max})",
            )
        if row.objects_max is not None:
            check_objects(command, row.objects_max)

    def checked(command: Command, session: Session, now: int) -> Reply | Held:
        # A master that may make changes may do everything.
        if needs_role and not node.serving.rights.changes:
            check_role(node, row)
        return handler(command, session, now)

    execute: Handler = checked
    if row.reads_messages:
        execute = from_memory(node, checked)
    elif (reads := READS_FIRST.get(code)) is not None:
        execute = after_reading(node, reads, checked)
    return handle
