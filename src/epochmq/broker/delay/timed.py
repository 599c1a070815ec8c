"""Timed messages: conversion into messages of the timer topic, and back for delivery.

In the timer topic, TIMER_OUT_MS is the slot of the message, and REAL_TOPIC and REAL_QID are its
real topic and queue. The delivered message has TIMER_ENQUEUE_MS and TIMER_DEQUEUE_MS in addition.
Of TIMER_DELAY_SEC, TIMER_DELAY_MS and TIMER_DELIVER_MS, the first that is present counts, in that
order. Relative times count from the moment when the broker received the message.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from epochmq.base.limits import PROPERTIES_BYTES_MAX
from epochmq.base.unbounded import LONG_MAX
from epochmq.broker.delay.delayed import index_keys
from epochmq.model import properties as props
from epochmq.model import record
from epochmq.model.host import pack
from epochmq.model.message import StoredMessage
from epochmq.model.names import HALF_TOPIC, TIMER_TOPIC, is_retry_topic
from epochmq.model.property_names import (
    REAL_QID,
    REAL_TOPIC,
    TAGS,
    TIMER_DEL_UNIQKEY,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_DEQUEUE_MS,
    TIMER_ENQUEUE_MS,
    TIMER_OUT_MS,
    TIMER_ROLL_TIMES,
    UNIQ_KEY,
    WAIT,
)
from epochmq.model.recall_handle import RecallHandle
from epochmq.model.tags import java_hash, tags_code
from epochmq.store.draft import Draft, PutStatus

_QUEUE_ID_DIGITS_MAX = 9
_NUMBER_LENGTH_MAX = 20
_PRECISION_MAX_MS = 1000
_ROOM_BYTES = 128
"""Bytes reserved for properties that the broker adds later."""


def deliver_wall(properties: Mapping[str, str], wall: int) -> int | None:
    """Return the requested deliver time (wall ms); relative times count from `wall`.

    None if the message is not timed. Raises `ValueError` if the value is not a Java long.
    """
    for name, unit in ((TIMER_DELAY_SEC, 1000), (TIMER_DELAY_MS, 1)):
        if name in properties:
            return wall + _long(properties[name]) * unit
    text = properties.get(TIMER_DELIVER_MS)
    return None if text is None else _long(text)


def _long(text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if len(text) > _NUMBER_LENGTH_MAX or not digits.isascii() or not digits.isdecimal():
        raise ValueError(
            f"{text[:_NUMBER_LENGTH_MAX]!r} is not a number of milliseconds or seconds"
        )
    if abs(int(text)) > LONG_MAX:
        raise ValueError(f"{text} is too large")
    return int(text)


def timed(
    draft: Draft, wall: int, *, precision_ms: int, delay_max_sec: int
) -> tuple[Draft, int] | PutStatus | None:
    """Convert `draft` into a message of the timer topic; return it and its slot (wall ms).

    Returns a `PutStatus` if the message is refused, and None if it is an ordinary message. As in
    RocketMQ, a message with a past time is an ordinary message; a cancellation with a past time is
    refused. A time further away than `delay_max_sec` is refused. A message with TIMER_OUT_MS was on
    a wheel before and is an ordinary message.
    """
    properties = props.decode_bytes(draft.properties)
    if TIMER_OUT_MS in properties or draft.topic == TIMER_TOPIC:
        return None
    try:
        deliver = deliver_wall(properties, wall)
    except ValueError:
        return PutStatus.WHEEL_TIMER_MSG_ILLEGAL
    if deliver is None:
        return None
    if deliver <= wall:
        cancels = TIMER_DEL_UNIQKEY in properties
        return PutStatus.WHEEL_TIMER_MSG_ILLEGAL if cancels else None
    if deliver - wall > delay_max_sec * 1000:
        return PutStatus.WHEEL_TIMER_MSG_ILLEGAL
    slot_ms = (deliver - 1) // precision_ms * precision_ms
    more = {TIMER_OUT_MS: str(slot_ms), REAL_TOPIC: draft.topic, REAL_QID: str(draft.queue_id)}
    added = props.encode(more).encode()
    if properties.keys().isdisjoint(more):
        text = props.append(draft.properties, added)
    else:
        kept = {name: value for name, value in properties.items() if name not in more}
        text = _encoded({**kept, **more})
    if len(text) > PROPERTIES_BYTES_MAX - _ROOM_BYTES:
        return PutStatus.PROPERTIES_SIZE_EXCEEDED
    return msgspec.structs.replace(draft, topic=TIMER_TOPIC, queue_id=0, properties=text), slot_ms


def _encoded(properties: Mapping[str, str]) -> bytes:
    return props.PAIR_END.join(
        [f"{name}{props.NAME_END}{value}" for name, value in properties.items()]
    ).encode()


def recall_handle(draft: Draft, topic: str, broker_name: str, uniq_key: str) -> str:
    """Return the recall handle of a message in the timer topic; empty if it cannot be recalled.

    As in RocketMQ, the time in the handle is TIMER_OUT_MS + 1, which belongs to the same slot.
    """
    out = props.find(draft.properties, TIMER_OUT_MS.encode())
    if out is None or is_retry_topic(topic):
        return ""
    return str(RecallHandle(topic, broker_name, _long(out.decode()) + 1, uniq_key))


class WheelMessage(NamedTuple):
    """The fields of a message in the timer topic that the timer wheel needs."""

    deliver_wall_ms: int
    topic_hash: int
    topic: str
    cancels: str
    """TIMER_DEL_UNIQKEY: the message to cancel; empty for other messages."""


def waiting(raw: memoryview) -> WheelMessage | None:
    """Decode a record of the timer topic; None if it has no time, no topic, or is damaged."""
    if record.check(raw, 0, len(raw), crc=True) <= 0:
        return None
    properties = props.decode_bytes(record.properties_at(raw, 0))
    deliver = due_wall(properties, record.store_time_at(raw, 0))
    topic = properties.get(REAL_TOPIC, "")
    if deliver is None or not topic:
        return None
    cancels = properties.get(TIMER_DEL_UNIQKEY, "")
    return WheelMessage(deliver, java_hash(topic), topic, cancels)


def due_wall(properties: Mapping[str, str], store_wall_ms: int) -> int | None:
    """Return the exact deliver time (wall ms) of a waiting message; None if it has no valid time.

    The time is never before the time that the producer asked for. TIMER_OUT_MS gives only the slot.
    A relative time began no later than the store time of the first copy of the message. A later
    copy (TIMER_ROLL_TIMES) has another store time, so TIMER_OUT_MS plus 1 s is used for it.
    """
    try:
        out = _long(properties[TIMER_OUT_MS])
        if TIMER_ROLL_TIMES in properties and (
            TIMER_DELAY_SEC in properties or TIMER_DELAY_MS in properties
        ):
            return out + _PRECISION_MAX_MS
        exact = deliver_wall(properties, store_wall_ms)
    except (KeyError, ValueError):
        return None
    return out + 1 if exact is None else max(out + 1, min(exact, out + _PRECISION_MAX_MS))


def names_of(message: StoredMessage) -> tuple[str, ...]:
    """Return the names by which a cancellation may refer to a message.

    A name contains the UNIQ_KEY, since 5.3.2 with the topic before it. Names are valid only within
    one topic: a sender to one topic must not cancel messages of another topic.
    """
    key, topic = message.properties.get(UNIQ_KEY), message.properties.get(REAL_TOPIC, "")
    return () if key is None else tuple(f"{topic}\x01{name}{key}" for name in _forms(topic))


def _forms(topic: str) -> tuple[str, str, str]:
    return "", f"{topic}+", topic


def cancelled_name(waiting: WheelMessage) -> str:
    """Return the name that a cancellation refers to, in the form of `names_of`."""
    return f"{waiting.topic}\x01{waiting.cancels}"


def restore(message: StoredMessage, enqueued_ms: int, wall: int) -> Draft | None:
    """Make the message to deliver; None without a valid real topic and queue.

    `enqueued_ms` and `wall` become TIMER_ENQUEUE_MS and TIMER_DEQUEUE_MS (wall ms).
    """
    properties = message.properties
    topic, queue_id = properties.get(REAL_TOPIC), properties.get(REAL_QID, "0")
    if len(queue_id) > _QUEUE_ID_DIGITS_MAX or not queue_id.isdecimal():
        return None
    if not topic or topic in (HALF_TOPIC, TIMER_TOPIC):
        return None
    more = {TIMER_ENQUEUE_MS: str(enqueued_ms), TIMER_DEQUEUE_MS: str(wall)}
    kept = {**properties, **more, WAIT: "false"}
    return _draft(message, topic, int(queue_id), kept)


def roll(message: StoredMessage) -> Draft:
    """Make a copy for the timer topic, because the deliver time is still beyond the window."""
    times = message.properties.get(TIMER_ROLL_TIMES, "0")
    rolled = int(times) + 1 if times.isascii() and times.isdecimal() and len(times) < 9 else 1
    kept = {**message.properties, TIMER_ROLL_TIMES: str(rolled), WAIT: "false"}
    return _draft(message, TIMER_TOPIC, 0, kept)


def _draft(message: StoredMessage, topic: str, queue_id: int, kept: dict[str, str]) -> Draft:
    text = props.PAIR_END.join(f"{name}{props.NAME_END}{value}" for name, value in kept.items())
    return Draft(
        topic=topic,
        queue_id=queue_id,
        body=message.body,
        properties=text.encode(),
        tags_code=tags_code(kept.get(TAGS)),
        keys=index_keys(kept),
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_wall_ms=message.born_wall_ms,
        born_host=pack(*message.born_host),
        reconsume_times=message.reconsume_times,
    )
