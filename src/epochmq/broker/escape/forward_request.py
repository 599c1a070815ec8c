"""A draft as SEND_MESSAGE_V2 carries it to another master, which does with it what we would have.

What the draft's way through the own internal writer skips, a send must not bring back: a level or a
time that was kept already (DELAY, TIMER_...) is taken off, as upstream does for the level; one that
goes on waiting, or a consumer sent back just now, keeps it. `ESCAPE_ID` marks the message: a master
of ours drops a repeat by it and does not store it; any other keeps it as it keeps every property.
"""

import msgspec

from epochmq.base.limits import PROPERTIES_BYTES_MAX
from epochmq.broker.escape.forward_batch import ForwardedMessage, Where
from epochmq.broker.escape.revive_routing import is_pinned, unpinned
from epochmq.broker.handlers.send_properties import encode_loosely
from epochmq.model import names
from epochmq.model import property_names as prop
from epochmq.model.escape_mark import ESCAPE_ID, escape_id
from epochmq.model.properties import decode_bytes
from epochmq.model.retries import RETRIES_UNLIMITED
from epochmq.model.sys_flag import HOSTS_V6_MASK, INNER_BATCH
from epochmq.store.draft import Draft
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, request
from epochmq.wire.headers.send_headers import SendHeaderV2

DEFAULT_QUEUES = 8
"""Queues that a topic gets which is made by our send, as upstream asks for."""
ANY_QUEUE = -1
"""The master chooses: it knows its queues best."""
_KEPT_TIMES = (prop.DELAY, prop.TIMER_DELAY_SEC, prop.TIMER_DELAY_MS, prop.TIMER_DELIVER_MS)
_MARK_ROOM = 256


def item_of(draft: Draft, broker: str) -> ForwardedMessage | None:
    """Where a draft of group `broker` may go; None when it belongs in the own log only."""
    topic = draft.topic
    size = len(draft.body) + len(draft.properties)
    if topic in names.NOT_SENDABLE_TOPICS or draft.sys_flag & INNER_BATCH:
        return None
    if topic.startswith(names.REVIVE_TOPIC_PREFIX):
        if not is_pinned(draft.queue_id):
            return None
        # No name: check points and acknowledgements cancel each other by their own keys.
        return ForwardedMessage(draft, topic, size, Where.PINNED, unpinned(draft.queue_id)[0])
    where = Where.TOPIC
    if topic == names.TIMER_TOPIC:
        where = Where.ONE  # where it meets those that take it back (TIMER_DEL_UNIQKEY)
    elif names.is_retry_topic(topic) or names.is_dlq_topic(topic):
        where = Where.ANY
    return ForwardedMessage(draft, topic, size, where, name=_name(draft, broker))


def _name(draft: Draft, broker: str) -> str:
    return escape_id(
        broker,
        draft.topic,
        decode_bytes(draft.properties),
        draft.sys_flag & ~HOSTS_V6_MASK,
        draft.flag,
        draft.born_wall_ms,
        draft.reconsume_times,
        draft.body,
    )


def forward_request(item: ForwardedMessage, group: str) -> Command:
    """The request that hands `item` over; `group` sends what has no producer group of its own."""
    draft = item.draft
    properties = decode_bytes(draft.properties)
    waits = item.where in (Where.PINNED, Where.ONE)
    if not (waits or level_to_wait(draft)):
        for name in _KEPT_TIMES:
            properties.pop(name, None)
    properties[prop.WAIT] = "true"  # the answer stands for what is held (H14)
    if item.name:
        properties[ESCAPE_ID] = item.name
    text = encode_loosely(properties)
    if len(text.encode()) > PROPERTIES_BYTES_MAX - _MARK_ROOM:
        properties.pop(ESCAPE_ID, None)
        text = encode_loosely(properties)
    header = SendHeaderV2(
        producerGroup=properties.get(prop.PGROUP) or group,
        topic=item.topic,
        defaultTopic=names.DEFAULT_TOPIC,
        defaultTopicQueueNums=DEFAULT_QUEUES,
        queueId=_queue(item),
        sysFlag=draft.sys_flag & ~HOSTS_V6_MASK,
        bornTimestamp=draft.born_wall_ms,
        flag=draft.flag,
        properties=text,
        reconsumeTimes=draft.reconsume_times,
        unitMode=False,
        # A retry was counted where it was consumed; nobody else gives it up.
        maxReconsumeTimes=RETRIES_UNLIMITED,
        batch=False,
    )
    return request(RequestCode.SEND_MESSAGE_V2, header, draft.body)


def level_to_wait(draft: Draft) -> int:
    """The level that a message still has to wait that a consumer sent back; 0 for any other.

    What has waited names the place it waited for (REAL_TOPIC).
    """
    if not names.is_retry_topic(draft.topic):
        return 0
    properties = decode_bytes(draft.properties)
    level = properties.get(prop.DELAY, "")
    waited = prop.REAL_TOPIC in properties
    return int(level) if level.isascii() and level.isdecimal() and not waited else 0


def _queue(item: ForwardedMessage) -> int:
    if item.where is Where.PINNED:
        return unpinned(item.draft.queue_id)[1]
    return 0 if item.where is Where.ONE else ANY_QUEUE


def here(draft: Draft) -> Draft:
    """It for a store of this process: a pinned queue by its own number."""
    if not is_pinned(draft.queue_id):
        return draft
    return msgspec.structs.replace(draft, queue_id=unpinned(draft.queue_id)[1])
