"""Messages that do not simply go into their topic: retries, delayed, timed, transactional ones."""

import msgspec

from epochmq.base.errors import Refused
from epochmq.base.limits import PROPERTIES_BYTES_MAX, TRANSACTIONS_OPEN_MAX
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.delay.delayed import delay
from epochmq.broker.delay.timed import timed
from epochmq.broker.produce.send_answers import refusal
from epochmq.broker.produce.send_properties import DLQ_DELAY, Parsed, put
from epochmq.broker.produce.send_topics import AnySendHeader, SendTopic, check_group
from epochmq.broker.transaction.half_messages import prepare
from epochmq.model.group import (
    RETRIES_UNLIMITED,
    SubscriptionGroupConfig,
    broker_limit,
    is_tried_out,
)
from epochmq.model.names import REVIVE_TOPIC_PREFIX, dlq_topic
from epochmq.model.property_names import DELAY
from epochmq.model.sys_flag import INNER_BATCH, TX_NONE, TX_PREPARED, with_transaction_type
from epochmq.model.topic import PERM_READ_WRITE
from epochmq.store.draft import Draft, PutStatus
from epochmq.wire.codes import VERSION_3_4_9, ResponseCode

# Retry limit ---------------------------------------------------------------------------------
# How many retries a broker allows for the message of a request.


def retry_limit(asked: int | None, version: int, group: SubscriptionGroupConfig) -> int:
    """The request's `maxReconsumeTimes` if the client is 3.4.9 or newer, else the group's limit."""
    return broker_limit(asked if version >= VERSION_3_4_9 else None, group.retry_max_times)


# Send special --------------------------------------------------------------------------------


def special_draft(
    node: BrokerContext,
    draft: Draft,
    asked: Parsed,
    send_topic: SendTopic,
    header: AnySendHeader,
    version: int,
) -> tuple[Draft, int]:
    """The draft as it is to be stored, and the queue id to answer; raises `Refused`.

    Records of the revive topic that another broker hands over name the time when RocketMQ's timer
    would put them there; here they go there at once (ADR 0047).
    """
    level = asked.delay
    if asked.inner or draft.sys_flag & INNER_BATCH:  # a batch comes with its own request
        raise _refused(node, PutStatus.MESSAGE_ILLEGAL)
    if send_topic.retry_group is not None and _is_dead(
        node, draft, send_topic.retry_group, header, version
    ):
        draft = dead_letter(node, draft, send_topic.retry_group)
        level = 0
    transactional = asked.transactional or draft.sys_flag & TX_PREPARED
    if transactional and not (draft.reconsume_times > 0 and level > 0):
        if not asked.transactional:
            raise Refused(
                ResponseCode.NO_PERMISSION,
                "the transaction bits of sysFlag are for messages that say TRAN_MSG=true",
            )
        return half_message(node, draft, header.producerGroup), draft.queue_id
    if transactional:  # a retry of one that was consumed: an ordinary message by now
        flag = with_transaction_type(draft.sys_flag, TX_NONE)
        draft = msgspec.structs.replace(draft, sys_flag=flag)
    queue_id = draft.queue_id
    if level > 0:
        draft = delay(draft, node.schedule.level_for(level))
        if len(draft.properties) > PROPERTIES_BYTES_MAX:
            raise _refused(node, PutStatus.PROPERTIES_SIZE_EXCEEDED)
    elif asked.timer and not draft.topic.startswith(REVIVE_TOPIC_PREFIX):
        draft = timed_draft(node, draft)
    return draft, queue_id


def timed_draft(node: BrokerContext, draft: Draft) -> Draft:
    """`draft` as it waits for its exact time, or as it is when that is past; raises `Refused`."""
    timer, options = node.timer, node.options
    if timer is None:
        raise _refused(node, PutStatus.WHEEL_TIMER_NOT_ENABLE)
    found = timed(
        draft,
        node.clock.wall_ms(),
        precision_ms=options.timer_precision_ms,
        delay_max_sec=options.timer_max_delay_sec,
    )
    if isinstance(found, PutStatus):
        raise _refused(node, found)
    if found is None:
        return draft
    if timer.is_congested(found[1]):
        raise _refused(node, PutStatus.WHEEL_TIMER_FLOW_CONTROL)
    return found[0]


def half_message(node: BrokerContext, draft: Draft, group: str) -> Draft:
    """`draft` as it waits for the end of its transaction; raises `Refused`."""
    if node.options.reject_transaction_message:
        raise Refused(
            ResponseCode.NO_PERMISSION,
            f"the broker[{node.options.broker_ip1}] sending transaction message is forbidden",
        )
    if node.transactions.full:
        raise Refused(
            ResponseCode.SYSTEM_BUSY,
            f"{TRANSACTIONS_OPEN_MAX} transactions are open on this broker; end some of them first",
        )
    return prepare(draft, group)


def dead_letter(node: BrokerContext, draft: Draft, group: str) -> Draft:
    """`draft` for the dead letter queue of `group`, where nothing may delay it any more."""
    topic = dlq_topic(group)
    node.topics.ensure(topic, 1, PERM_READ_WRITE, node.clock.wall_ms())
    text = put(draft.properties.decode(), {DELAY: DLQ_DELAY})
    return msgspec.structs.replace(draft, topic=topic, queue_id=0, properties=text.encode())


def _is_dead(
    node: BrokerContext, draft: Draft, group: str, header: AnySendHeader, version: int
) -> bool:
    """Whether a copy that a consumer sent is a dead letter: its message is tried out.

    Java's consumers in order send a copy only of what is tried out, and count no retry to come: a
    group that holds a queue lock consumes in order. What another broker
    hands over, and what our producer sends anew, has no limit and is no dead letter.
    """
    config = check_group(node, group, node.clock.wall_ms())
    allowed = retry_limit(header.maxReconsumeTimes, version, config)
    if is_tried_out(draft.reconsume_times - 1, allowed):
        return True
    return allowed < RETRIES_UNLIMITED and node.locks.any_live(group, node.clock.now_ms())


def _refused(node: BrokerContext, status: PutStatus) -> Refused:
    reply = refusal(status, node.options.max_message_size)
    return Refused(reply.code, reply.remark or "")
