"""Delayed messages: conversion into messages of the delay topic, and back for delivery."""

import msgspec

from epochmq.model import properties as props
from epochmq.model.host import pack
from epochmq.model.message import StoredMessage
from epochmq.model.names import HALF_TOPIC, SCHEDULE_TOPIC
from epochmq.model.property_names import (
    KEYS,
    KEYS_SEPARATOR,
    REAL_QID,
    REAL_TOPIC,
    TAGS,
    UNIQ_KEY,
    WAIT,
)
from epochmq.model.tags import tags_code
from epochmq.store.draft import Draft

_QUEUE_ID_DIGITS_MAX = 9


def delay(draft: Draft, level: int) -> Draft:
    """Convert `draft` into a message of the delay topic, in queue `level` - 1.

    The real topic and queue are added to the properties. The store calculates the deliver time in
    the consume queue unit from the store time.
    """
    real = f"{REAL_TOPIC}\x01{draft.topic}\x02{REAL_QID}\x01{draft.queue_id}".encode()
    return msgspec.structs.replace(
        draft,
        topic=SCHEDULE_TOPIC,
        queue_id=level - 1,
        properties=props.append(draft.properties, real),
        tags_code=0,
    )


def index_keys(properties: dict[str, str]) -> tuple[str, ...]:
    """Return the keys of a message for the key index, UNIQ_KEY first."""
    uniq = properties.get(UNIQ_KEY)
    keys = tuple([key for key in properties.get(KEYS, "").split(KEYS_SEPARATOR) if key])
    return (uniq, *keys) if uniq else keys


def restore(message: StoredMessage) -> Draft | None:
    """Make the message to deliver; None without a valid real topic and queue.

    As in RocketMQ, the born time and host, and the properties DELAY, REAL_TOPIC and REAL_QID stay.
    The message is not delayed again, because the internal writer delays no message.
    """
    properties = message.properties
    topic, queue_id = properties.get(REAL_TOPIC), properties.get(REAL_QID, "0")
    if len(queue_id) > _QUEUE_ID_DIGITS_MAX or not queue_id.isdecimal():
        return None
    if not topic or topic in (HALF_TOPIC, SCHEDULE_TOPIC):
        return None
    kept = {**properties, WAIT: "false"}
    return Draft(
        topic=topic,
        queue_id=int(queue_id),
        body=message.body,
        properties=props.encode(kept).encode(),
        tags_code=tags_code(properties.get(TAGS)),
        keys=index_keys(properties),
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_wall_ms=message.born_wall_ms,
        born_host=pack(*message.born_host),
        reconsume_times=message.reconsume_times,
    )
