"""Permissions: what a user needs for each request (RIP-68, the resources of RocketMQ 5.3).

`PERMISSIONS` has one function for each served request code. It returns the accesses that the
request needs, all of them; an empty list means that any user may send the request. `super_only`
requests need the rights of a server of the cluster. A retry topic and a dead-letter topic stand
for their group.

Stricter than RocketMQ 5.3, which checks none of these: options and figures of the broker (26, 28),
groups (200, 201, 225), lite pulls (361), request modes (401), cleaning of files (306, 316, 329),
batches of acknowledgements (200151), replies (324, 325), lists of topics (21), messages by offset
(33, which can name a message of any topic), and retry topics of other groups.
"""

from collections.abc import Callable, Iterable

from epochmq.auth.policies import Action, Need, ResourceType
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.names import DLQ, RETRY
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.group_bodies import (
    HeartbeatData,
    LockBatchRequest,
    SubscriptionGroupList,
)
from epochmq.wire.bodies.pop_bodies import (
    BatchAckBody,
    MessageRequestMode,
    QueryAssignmentRequest,
)
from epochmq.wire.bodies.topic_bodies import TopicConfigList
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.command import Command

Needs = list[Need]
PermissionOf = Callable[[str, Command], Needs]
"""Returns what a request needs on a broker of the cluster with this name."""

_PUB = frozenset({Action.PUB})
_SUB = frozenset({Action.SUB})
_GET = frozenset({Action.GET})
_LIST = frozenset({Action.LIST})
_CREATE = frozenset({Action.CREATE})
_UPDATE = frozenset({Action.UPDATE})
_DELETE = frozenset({Action.DELETE})
_POP_RETRY_MARKS = ("_", "+")
"""They separate group and topic in the retry topics of POP, of the first and second version."""


def on_topic(name: str, actions: frozenset[Action], group: str = "") -> Need:
    """Return the need for a topic; for a retry or dead-letter topic it is one for its group.

    `group` is the group of the request. POP makes a retry topic for each of its topics, whose name
    contains both; the need is then one for that topic, beside the group of the request.
    """
    for prefix in (RETRY, DLQ):
        if name.startswith(prefix):
            owner = name.removeprefix(prefix)
            for mark in _POP_RETRY_MARKS:
                if group and owner.startswith(group + mark):
                    return Need(ResourceType.TOPIC, owner.removeprefix(group + mark), actions)
            return on_group(owner, _SUB if actions == _PUB else actions)
    return Need(ResourceType.TOPIC, name, actions)


def on_group(name: str, actions: frozenset[Action]) -> Need:
    """Return the need for a consumer group."""
    return Need(ResourceType.GROUP, name, actions)


# By header fields ----------------------------------------------------------------------------


def _field(command: Command, name: str) -> str:
    return (command.ext or {}).get(name, "")


def _topic(field: str, actions: frozenset[Action]) -> PermissionOf:
    """The topic in a header field; if the field is missing, the handler refuses the request."""
    return lambda cluster, command: [on_topic(_field(command, field), actions)]


def _group(field: str, actions: frozenset[Action]) -> PermissionOf:
    return lambda cluster, command: [on_group(_field(command, field), actions)]


def _both(group_field: str, actions: frozenset[Action], topic_field: str = "topic") -> PermissionOf:
    """A group, and a topic if the request names one."""

    def needs(cluster: str, command: Command) -> Needs:
        group, topic = _field(command, group_field), _field(command, topic_field)
        found = [on_group(group, actions)]
        return [*found, on_topic(topic, actions, group)] if topic else found

    return needs


def _cluster(actions: frozenset[Action]) -> PermissionOf:
    return lambda cluster, command: [Need(ResourceType.CLUSTER, cluster, actions)]


def _all_topics(cluster: str, command: Command) -> Needs:
    return [Need(ResourceType.TOPIC, "*", _LIST)]


def _any_user(cluster: str, command: Command) -> Needs:
    return []


def _end_transaction(cluster: str, command: Command) -> Needs:
    """The topic, which old clients do not name; the half message was sent with permission."""
    topic = _field(command, "topic")
    return [on_topic(topic, _PUB)] if topic else []


def _unregister(cluster: str, command: Command) -> Needs:
    group = _field(command, "consumerGroup")
    return [on_group(group, _SUB)] if group else []


def _consume_stats(cluster: str, command: Command) -> Needs:
    topics = [_field(command, "topic"), *_field(command, "topicList").split(";")]
    group = _field(command, "consumerGroup")
    return [on_group(group, _GET), *(on_topic(each, _GET, group) for each in topics if each)]


def _clone_offsets(cluster: str, command: Command) -> Needs:
    topic = _field(command, "topic")
    groups = [on_group(_field(command, field), _UPDATE) for field in ("srcGroup", "destGroup")]
    return [*groups, on_topic(topic, _UPDATE)] if topic else groups


def _resume_check(cluster: str, command: Command) -> Needs:
    topic = _field(command, "topic")
    return [on_topic(topic, _UPDATE)] if topic else _cluster(_UPDATE)(cluster, command)


# By the body ---------------------------------------------------------------------------------


def _heartbeat(cluster: str, command: Command) -> Needs:
    found: Needs = []
    for consumer in decode_body(HeartbeatData, command.body).consumer_data_set:
        group = consumer.group_name
        found.append(on_group(group, _SUB))
        topics = [subscription.topic for subscription in consumer.subscription_data_set]
        found += [on_topic(topic, _SUB, group) for topic in topics]
    return _unique(found)


def _locks(cluster: str, command: Command) -> Needs:
    body = decode_body(LockBatchRequest, command.body)
    group = body.consumer_group
    topics = [on_topic(queue.topic, _SUB, group) for queue in body.mq_set]
    return _unique([on_group(group, _SUB), *topics])


def _batch_ack(cluster: str, command: Command) -> Needs:
    found: Needs = []
    for ack in decode_body(BatchAckBody, command.body).acks:
        group = ack.consumer_group
        found += [on_group(group, _SUB), on_topic(ack.topic, _SUB, group)]
    return _unique(found)


def _assignment(cluster: str, command: Command) -> Needs:
    body = decode_body(QueryAssignmentRequest, command.body)
    group = body.consumer_group
    return [on_group(group, _SUB), on_topic(body.topic, _SUB, group)]


def _request_mode(cluster: str, command: Command) -> Needs:
    body = decode_body(MessageRequestMode, command.body)
    group = body.consumer_group
    return [on_group(group, _UPDATE), on_topic(body.topic, _UPDATE, group)]


def _create_topics(cluster: str, command: Command) -> Needs:
    topics = decode_body(TopicConfigList, command.body).topic_config_list
    return [on_topic(config.topic_name, _CREATE) for config in topics]


def _create_group(cluster: str, command: Command) -> Needs:
    return [on_group(decode_body(SubscriptionGroupConfig, command.body).group_name, _CREATE)]


def _create_groups(cluster: str, command: Command) -> Needs:
    groups = decode_body(SubscriptionGroupList, command.body).group_config_list
    return [on_group(config.group_name, _CREATE) for config in groups]


def _unique(needs: Iterable[Need]) -> Needs:
    return list(dict.fromkeys(needs))


# Table ---------------------------------------------------------------------------------------


def _codes(permission: PermissionOf, *codes: Code) -> dict[Code, PermissionOf]:
    return dict.fromkeys(codes, permission)


super_only = _cluster(frozenset())
"""No entry of a policy names no action, so that only Super users have this permission."""

PERMISSIONS: dict[Code, PermissionOf] = {
    **_codes(_topic("topic", _PUB), Code.SEND_MESSAGE, Code.SEND_REPLY_MESSAGE),
    **_codes(
        _topic("b", _PUB),
        Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.SEND_REPLY_MESSAGE_V2,
    ),
    **_codes(_topic("topic", _PUB), Code.RECALL_MESSAGE),
    **_codes(_end_transaction, Code.END_TRANSACTION),
    **_codes(
        _both("consumerGroup", _SUB),
        Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE, Code.POP_MESSAGE, Code.ACK_MESSAGE,
        Code.CHANGE_MESSAGE_INVISIBLETIME, Code.NOTIFICATION, Code.PEEK_MESSAGE, Code.POLLING_INFO,
    ),
    **_codes(_topic("topic", _SUB), Code.BULK_READ, Code.EPOCH_OFFSETS, Code.KEY_PLACES),
    **_codes(_batch_ack, Code.BATCH_ACK_MESSAGE),
    **_codes(_group("group", _SUB), Code.CONSUMER_SEND_MSG_BACK),
    **_codes(_group("consumerGroup", _SUB | _GET), Code.GET_CONSUMER_LIST_BY_GROUP),
    **_codes(_assignment, Code.QUERY_ASSIGNMENT),
    **_codes(_both("consumerGroup", _SUB | _GET), Code.QUERY_CONSUMER_OFFSET),
    **_codes(_both("consumerGroup", _SUB | _UPDATE), Code.UPDATE_CONSUMER_OFFSET),
    **_codes(_locks, Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ),
    **_codes(_heartbeat, Code.HEART_BEAT),
    **_codes(_unregister, Code.UNREGISTER_CLIENT),
    **_codes(_any_user, Code.CHECK_CLIENT_CONFIG, Code.MASTER_STATE, Code.AUTH_CHALLENGE),
    **_codes(_topic("topic", _SUB | _GET), Code.QUERY_MESSAGE),
    **_codes(_cluster(_GET), Code.VIEW_MESSAGE_BY_ID),
    **_codes(
        _topic("topic", _GET),
        Code.SEARCH_OFFSET_BY_TIMESTAMP, Code.GET_MAX_OFFSET, Code.GET_MIN_OFFSET,
        Code.GET_EARLIEST_MSG_STORETIME, Code.GET_TOPIC_CONFIG, Code.GET_TOPIC_STATS_INFO,
        Code.QUERY_TOPIC_CONSUME_BY_WHO, Code.QUERY_CONSUME_QUEUE,
    ),
    **_codes(_both("compareGroup", _GET), Code.QUERY_CORRECTION_OFFSET),
    **_codes(
        _group("consumerGroup", _GET),
        Code.GET_CONSUMER_CONNECTION_LIST, Code.GET_CONSUMER_RUNNING_INFO,
    ),
    **_codes(
        _both("group", _GET),
        Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, Code.QUERY_CONSUME_TIME_SPAN,
        Code.QUERY_TOPICS_BY_CONSUMER, Code.QUERY_SUBSCRIPTION_BY_CONSUMER,
        Code.GET_SUBSCRIPTIONGROUP_CONFIG,
    ),
    **_codes(_consume_stats, Code.GET_CONSUME_STATS),
    **_codes(_both("consumerGroup", _UPDATE), Code.CONSUME_MESSAGE_DIRECTLY),
    **_codes(
        _cluster(_GET),
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Code.GET_BROKER_CONFIG,
        Code.GET_BROKER_RUNTIME_INFO, Code.GET_PRODUCER_CONNECTION_LIST,
        Code.GET_ALL_PRODUCER_INFO, Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
        Code.VIEW_BROKER_STATS_DATA, Code.GET_BROKER_CONSUME_STATS, Code.GET_BROKER_HA_STATUS,
        Code.GET_BROKER_EPOCH_CACHE, Code.LOG_DIGESTS, Code.GET_ALL_CONSUMER_OFFSET,
        Code.GET_ALL_DELAY_OFFSET, Code.GET_ALL_MESSAGE_REQUEST_MODE, Code.GET_TIMER_CHECK_POINT,
        Code.GET_TIMER_METRICS, Code.GET_ALL_CONSUMER_ORDER_INFO,
        Code.AUTH_GET_USER, Code.AUTH_LIST_USER, Code.AUTH_GET_ACL, Code.AUTH_LIST_ACL,
        Code.READ_AUDIT_LOG,
    ),
    **_codes(_all_topics, Code.GET_ALL_TOPIC_CONFIG),
    **_codes(_topic("topic", _CREATE), Code.UPDATE_AND_CREATE_TOPIC),
    **_codes(_create_topics, Code.UPDATE_AND_CREATE_TOPIC_LIST),
    **_codes(_topic("topic", _DELETE), Code.DELETE_TOPIC_IN_BROKER),
    **_codes(_create_group, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP),
    **_codes(_create_groups, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST),
    **_codes(_group("groupName", _DELETE), Code.DELETE_SUBSCRIPTIONGROUP),
    **_codes(
        _both("group", _UPDATE),
        Code.INVOKE_BROKER_TO_RESET_OFFSET, Code.UPDATE_AND_GET_GROUP_FORBIDDEN,
    ),
    **_codes(_clone_offsets, Code.CLONE_GROUP_OFFSET),
    **_codes(_resume_check, Code.RESUME_CHECK_HALF_MESSAGE),
    **_codes(_request_mode, Code.SET_MESSAGE_REQUEST_MODE),
    **_codes(
        _cluster(_UPDATE),
        Code.UPDATE_BROKER_CONFIG, Code.CLEAN_UNUSED_TOPIC, Code.CLEAN_EXPIRED_CONSUMEQUEUE,
        Code.DELETE_EXPIRED_COMMITLOG, Code.RESET_MASTER_FLUSH_OFFSET,
        Code.AUTH_CREATE_USER, Code.AUTH_UPDATE_USER, Code.AUTH_DELETE_USER, Code.AUTH_CREATE_ACL,
        Code.AUTH_UPDATE_ACL, Code.AUTH_DELETE_ACL,
    ),
    # What only the servers of the cluster send.
    **_codes(
        super_only,
        Code.LOG_READ, Code.GET_ALL_ACCOUNTS, Code.EXCHANGE_BROKER_HA_INFO,
        Code.NOTIFY_BROKER_ROLE_CHANGED, Code.NOTIFY_MIN_BROKER_ID_CHANGE,
    ),
}  # fmt: skip
