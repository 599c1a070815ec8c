"""Check whether a pull is allowed, and read its filter from the header or the subscription.

The order of the checks: the broker is readable, lite pulls are enabled, the group exists and may
consume, the topic exists and is readable, the queue is within the topic, the subscription exists
and is not older than the client's, the filter is usable.
"""

from collections.abc import Callable
from typing import Protocol

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.consume.consumer_filters import Matcher
from epochmq.broker.consume.long_polling import PullRequest
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.produce.send_topics import invalid_code
from epochmq.model import record
from epochmq.model.group import SubscriptionData, SubscriptionGroupConfig, build
from epochmq.model.properties import decode_bytes
from epochmq.model.tags import SUB_ALL
from epochmq.model.topic import TopicConfig, is_readable
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.headers.pull_headers import SUBSCRIPTION
from epochmq.wire.session import Session

_FORBIDDEN_READ_BIT = 1 << 2
_PROPERTY_BYTES = 16
"""This many bytes of properties cost as much to decode as one node of a filter to evaluate."""


class AnyPullHeader(Protocol):
    """The fields of a pull header, whichever decoder produced it."""

    @property
    def consumerGroup(self) -> str: ...

    @property
    def topic(self) -> str: ...

    @property
    def queueId(self) -> int: ...

    @property
    def queueOffset(self) -> int: ...

    @property
    def maxMsgNums(self) -> int: ...

    @property
    def sysFlag(self) -> int: ...

    @property
    def commitOffset(self) -> int: ...

    @property
    def suspendTimeoutMillis(self) -> int: ...

    @property
    def subVersion(self) -> int: ...

    @property
    def subscription(self) -> str | None: ...

    @property
    def expressionType(self) -> str | None: ...


class Forbidden(Refused):
    """The refusal NO_PERMISSION whose answer also has the field `forbiddenType`."""

    BROKER, GROUP, TOPIC, BROADCAST, SUBSCRIPTION = range(1, 6)

    def __init__(self, kind: int, remark: str) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, remark)
        self.kind = kind


def admit(
    node: BrokerContext,
    code: int,
    version: int,
    header: AnyPullHeader,
    session: Session,
    opaque: int,
    now: int,
) -> PullRequest:
    """Check a pull header and build the request to execute; `now` is monotonic ms.

    Raises `Refused`, or its subclass `Forbidden`.
    """
    check_broker(node)
    if code != RequestCode.PULL_MESSAGE:
        _check_lite(node, code)
    group = node.groups.get(header.consumerGroup)
    if group is None or not group.consume_enable:
        group = _check_group(node, header.consumerGroup)
    topic = _check_topic(node, header, version, session)
    request = PullRequest(
        session=session,
        opaque=opaque,
        code=code,
        arrived_ms=now,
        group=header.consumerGroup,
        topic=header.topic,
        queue_id=header.queueId,
        offset=header.queueOffset,
        max_count=header.maxMsgNums,
        topic_sys_flag=topic.topic_sys_flag,
        group_sys_flag=group.group_sys_flag,
    )
    if node.options.slave_read_enable:
        request.suggested_broker = group.broker_id if node.serving.is_master else 0
        request.slow_broker = group.which_broker_when_consume_slowly
    if not (
        header.subscription == SUB_ALL
        and header.sysFlag & SUBSCRIPTION
        and header.expressionType in ("TAG", None)
    ):
        _set_filter(node, header, group, request)
    return request


def check_broker(node: BrokerContext) -> None:
    """Check that this broker may be read in its present role; raises `Refused` or `Forbidden`."""
    options = node.options
    rights = node.serving.rights
    if not rights.readable or (rights.read_needs_slave_read and not options.slave_read_enable):
        raise Refused(ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST] this broker serves no pulls now")
    if not is_readable(options.broker_permission):
        raise Forbidden(
            Forbidden.BROKER, f"the broker[{options.broker_ip1}] pulling message is forbidden"
        )


def _check_lite(node: BrokerContext, code: int) -> None:
    options = node.options
    if code == RequestCode.LITE_PULL_MESSAGE and not options.lite_pull_message_enable:
        raise Forbidden(
            Forbidden.BROKER,
            f"the broker[{options.broker_ip1}] for lite pull consumer is forbidden",
        )


def _check_group(node: BrokerContext, name: str) -> SubscriptionGroupConfig:
    group = node.groups.find(name, node.clock.wall_ms())
    if group is None:
        raise Refused(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"subscription group [{name}] does not exist",
        )
    if not group.consume_enable:
        raise Forbidden(Forbidden.GROUP, f"subscription group no permission, {name}")
    return group


def readable_topic(node: BrokerContext, name: str) -> TopicConfig:
    """Return the topic's configuration.

    Raises `Refused` 17 when the topic does not exist, `Forbidden` when it has no read permission.
    """
    topic = node.topics.get(name)
    if topic is None:
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!")
    if not is_readable(topic.perm):
        raise Forbidden(Forbidden.TOPIC, f"the topic[{name}] pulling message is forbidden")
    return topic


def _check_topic(
    node: BrokerContext, header: AnyPullHeader, version: int, session: Session
) -> TopicConfig:
    name, queue_id = header.topic, header.queueId
    topic = readable_topic(node, name)
    groups = node.groups
    if groups.forbidden_table and (
        groups.forbidden(header.consumerGroup, name) & _FORBIDDEN_READ_BIT
    ):
        raise Forbidden(
            Forbidden.SUBSCRIPTION,
            f"the consumer group[{header.consumerGroup}] is forbidden for topic[{name}]",
        )
    if not 0 <= queue_id < topic.read_queue_nums:
        raise Refused(
            invalid_code(version),
            f"queueId[{queue_id}] is illegal, topic:[{name}] topicConfig.readQueueNums:"
            f"[{topic.read_queue_nums}] consumer:[{session.peer}]",
        )
    return topic


def _set_filter(
    node: BrokerContext, header: AnyPullHeader, group: SubscriptionGroupConfig, request: PullRequest
) -> None:
    """Set the filter of the pull."""
    if header.sysFlag & SUBSCRIPTION:
        wanted = build(header.topic, header.subscription, header.expressionType, header.subVersion)
    else:
        wanted = _registered(node, header, group)
    if wanted.is_tag:
        if not wanted.wants_all and not wanted.class_filter_mode:
            request.accept = wanted.code_set.__contains__
        return
    if header.sysFlag & SUBSCRIPTION:
        matcher = node.filters.compiled(wanted.sub_string, wanted.expression_type)
    else:
        matcher = node.filters.matcher(header.consumerGroup, wanted)
    request.verify = make_verifier(matcher)


def _registered(
    node: BrokerContext, header: AnyPullHeader, group: SubscriptionGroupConfig
) -> SubscriptionData:
    """Return the subscription that the heartbeats of the group registered; raises `Refused`."""
    name = header.consumerGroup
    members = node.consumers.group(name)
    if members is None:
        raise Refused(
            ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist, {name}"
        )
    if not group.consume_broadcast_enable and members.broadcasting:
        raise Forbidden(
            Forbidden.BROADCAST, f"the consumer group[{name}] can not consume by broadcast way"
        )
    wanted = members.subscriptions.get(header.topic)
    if wanted is None:
        raise Refused(
            ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's subscription not exist, {name}"
        )
    if wanted.sub_version < header.subVersion:
        raise Refused(
            ResponseCode.SUBSCRIPTION_NOT_LATEST, f"the consumer's subscription not latest, {name}"
        )
    return wanted


def make_verifier(matcher: Matcher) -> Callable[[memoryview], bool | None]:
    """Make the function that checks a record with a filter on its properties.

    The function returns None once the filter has cost `limits.FILTER_COST_MAX`. The read ends
    there, and the client continues with its next pull. The cost then counts from zero again.
    """
    left = limits.FILTER_COST_MAX

    def verify(raw: memoryview) -> bool | None:
        nonlocal left
        if left <= 0:
            left = limits.FILTER_COST_MAX
            return None
        properties = record.properties_at(raw, 0)
        left -= matcher.nodes + len(properties) // _PROPERTY_BYTES + 1
        return matcher(decode_bytes(properties)) is True

    return verify
