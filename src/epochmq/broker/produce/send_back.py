"""CONSUMER_SEND_MSG_BACK 36: a consumer sends back a message that it could not consume.

The broker reads the stored message and writes a copy through the internal writer. The copy goes
to the group's retry topic after a delay level, or to its dead letter topic (DLQ) when the message
has no retries left. The answer is sent when the copy is written, because the consumer then counts
the message as consumed. An acting master sends the copy to another master without a delay; that
master applies the delay.
"""

from collections.abc import Sequence

from epochmq.base.errors import Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.delay.delayed import delay, index_keys
from epochmq.broker.internal_writes.internal_writer import Origin, WriteOutcome
from epochmq.broker.produce.send_special import retry_limit
from epochmq.broker.state import broker_stats as stat
from epochmq.model import record
from epochmq.model.group import SubscriptionGroupConfig, is_tried_out
from epochmq.model.host import pack
from epochmq.model.message import StoredMessage
from epochmq.model.names import dlq_topic, retry_topic
from epochmq.model.properties import encode_loosely
from epochmq.model.property_names import (
    DELAY,
    ORIGIN_MESSAGE_ID,
    REAL_QID,
    REAL_TOPIC,
    RETRY_TOPIC,
    TAGS,
    WAIT,
)
from epochmq.model.sys_flag import INNER_BATCH
from epochmq.model.tags import tags_code
from epochmq.model.topic import PERM_READ_WRITE, is_writable
from epochmq.store.draft import Draft
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.dispatcher import Handler
from epochmq.wire.header import decode_header
from epochmq.wire.headers.send_headers import SendBackHeader
from epochmq.wire.session import Session

FIRST_RETRY_LEVEL = 3
"""Delay level of the first retry when the request names none; each retry adds one level."""


def make_send_back(node: BrokerContext) -> Handler:
    """Make the handler of CONSUMER_SEND_MSG_BACK 36."""

    def handle_send_back(command: Command, session: Session, now: int) -> Reply | Held:
        return _send_back(node, command, session)

    return handle_send_back


def read_message(node: BrokerContext, command: Command) -> None:
    """Read the message that CONSUMER_SEND_MSG_BACK names; raises `HeaderError`."""
    node.store.message_at(decode_header(SendBackHeader, command.ext).offset)


def _send_back(node: BrokerContext, command: Command, session: Session) -> Reply | Held:
    header = decode_header(SendBackHeader, command.ext)
    wall = node.clock.wall_ms()
    group = node.groups.find(header.group, wall)
    if group is None:
        raise Refused(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"subscription group not exist, {header.group}",
        )
    writes = node.serving.rights.writable or node.serving.escapes
    if not writes or not is_writable(node.options.broker_permission):
        raise Refused(
            ResponseCode.NO_PERMISSION,
            f"the broker[{node.options.broker_ip1}] sending message is forbidden",
        )
    if group.retry_queue_nums <= 0:
        return Reply()
    message = _find(node, header)
    if message.sys_flag & INNER_BATCH:  # the record holds other messages too
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            "MESSAGE_ILLEGAL: the message is part of an inner batch, whose other messages must not"
            " be sent back with it; send it to the retry topic",
        )
    dead = _is_dead(message, group, header, command.version)
    draft = _draft(node, message, group, header, dead=dead, wall=wall)

    def done(outcomes: Sequence[WriteOutcome]) -> None:
        if dead and outcomes[0] is WriteOutcome.STORED:
            node.stats.add(stat.DLQ_PUT_NUMS, f"{message.topic}@{header.group}", 1)
        session.answer(command, _reply(outcomes[0]))

    origin = Origin.DEAD_LETTER if dead else Origin.RETRY
    node.stats.add(stat.SNDBCK_PUT_NUMS, f"{message.topic}@{header.group}", 1)
    node.internal_writer.put([draft], origin, wall, done)
    return HELD


def _find(node: BrokerContext, header: SendBackHeader) -> StoredMessage:
    raw = node.store.message_at(header.offset)
    if raw is None:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {header.offset}")
    return record.decode(raw)


def _is_dead(
    message: StoredMessage, group: SubscriptionGroupConfig, header: SendBackHeader, version: int
) -> bool:
    """Return whether the message has no retries left, or the consumer asks for the DLQ.

    A negative delay level in the request asks for the dead letter topic.
    """
    allowed = retry_limit(header.maxReconsumeTimes, version, group)
    return header.delayLevel < 0 or is_tried_out(message.reconsume_times, allowed)


def _draft(
    node: BrokerContext,
    message: StoredMessage,
    group: SubscriptionGroupConfig,
    header: SendBackHeader,
    *,
    dead: bool,
    wall: int,
) -> Draft:
    properties = dict(message.properties)
    for place in (REAL_TOPIC, REAL_QID):  # properties of an earlier delay
        properties.pop(place, None)
    properties.setdefault(RETRY_TOPIC, message.topic)
    # Message id of the first copy; the client's originMsgId is UNIQ_KEY, which is a property too.
    properties.setdefault(ORIGIN_MESSAGE_ID, message.offset_msg_id)
    properties[WAIT] = "false"
    level = 0
    if dead:
        topic, queues = dlq_topic(header.group), 1
        properties[DELAY] = "0"
    else:
        topic, queues = retry_topic(header.group), group.retry_queue_nums
        level = header.delayLevel or FIRST_RETRY_LEVEL + message.reconsume_times
        level = node.schedule.level_for(level)
        properties[DELAY] = str(level)
    config = node.topics.ensure(topic, queues, PERM_READ_WRITE, wall)
    if not is_writable(config.perm):
        raise Refused(
            ResponseCode.NO_PERMISSION, f"the topic[{topic}] sending message is forbidden"
        )
    draft = Draft(
        topic=topic,
        queue_id=node.next_number() % queues,
        body=message.body,
        properties=encode_loosely(properties).encode(),
        tags_code=tags_code(properties.get(TAGS)),
        keys=index_keys(properties),
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_wall_ms=message.born_wall_ms,
        born_host=pack(*message.born_host),
        reconsume_times=message.reconsume_times + 1,
    )
    waits_here = level > 0 and not node.serving.escapes
    return delay(draft, level) if waits_here else draft


def _reply(outcome: WriteOutcome) -> Reply:
    if outcome is WriteOutcome.STORED:
        return Reply()
    return Reply(ResponseCode.SYSTEM_ERROR, f"the message was not kept: {outcome.name}")
