"""Sends that are not stored in their topic directly: retries, delayed, timed and half messages."""

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
# The number of retries that a broker allows for the message of a request.


def retry_limit(asked: int | None, version: int, group: SubscriptionGroupConfig) -> int:
    """Return the request's `maxReconsumeTimes` (clients from 3.4.9 on) or the group's limit."""
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
    """Return the draft to store, and the queue id for the answer; raises `Refused`.

    Another broker may forward records of the revive topic with the time at which RocketMQ's timer
    would deliver them. This broker stores them in the revive topic at once (ADR 0047).
    """
    level = asked.delay
    if asked.inner or draft.sys_flag & INNER_BATCH:  # batches have their own request code
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
    if transactional:  # the retry of a consumed message, which is an ordinary message
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
    """Return the draft for the timer topic, or `draft` itself when its time is past.

    Raises `Refused` without a timer, for an invalid time, and when its slot of the timer is full.
    """
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
    """Return the half message for `draft`, of producer group `group`; raises `Refused`."""
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
    """Return `draft` for the dead letter topic of `group`, without a delay."""
    topic = dlq_topic(group)
    node.topics.ensure(topic, 1, PERM_READ_WRITE, node.clock.wall_ms())
    text = put(draft.properties.decode(), {DELAY: DLQ_DELAY})
    return msgspec.structs.replace(draft, topic=topic, queue_id=0, properties=text.encode())


def _is_dead(
    node: BrokerContext, draft: Draft, group: str, header: AnySendHeader, version: int
) -> bool:
    """Return whether a retry that a consumer sent is a dead letter, with no retries left.

    An orderly consumer of Java sends a retry only when the message has no retries left, and does
    not count that retry. A group that holds a queue lock consumes in order. Messages without a
    limit are not dead letters: those that another broker forwards, and those that EpochMQ's
    producer sends again.
    """
    config = check_group(node, group, node.clock.wall_ms())
    allowed = retry_limit(header.maxReconsumeTimes, version, config)
    if is_tried_out(draft.reconsume_times - 1, allowed):
        return True
    return allowed < RETRIES_UNLIMITED and node.locks.any_live(group, node.clock.now_ms())


def _refused(node: BrokerContext, status: PutStatus) -> Refused:
    reply = refusal(status, node.options)
    return Refused(reply.code, reply.remark or "")
