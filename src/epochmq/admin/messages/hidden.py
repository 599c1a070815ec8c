"""Describes messages in the brokers' internal topics: their real topic, and when they are due.

Delayed, timed and half messages wait in internal topics and have their real topic in properties;
POP stores records of the messages that it handed out. Times are wall ms.
"""

import json
from collections.abc import Sequence

from epochmq.base.errors import EpochError
from epochmq.model import names
from epochmq.model import property_names as props
from epochmq.model.message import StoredMessage

Row = dict[str, object]

_RECORDS = {"ck": "POP check point", "ack": "POP ack", "bAck": "POP batch ack"}
_SHORT = {
    "topic": ("t", "topic"),
    "group": ("c", "consumerGroup"),
    "queue": ("q", "queueId"),
    "start": ("so", "startOffset"),
    "ack": ("ao", "ackOffset"),
    "popped": ("pt", "popTime"),
    "invisible": ("it", "invisibleTime"),
}
"""Field names of POP's records, and the long names in acknowledgements of version 5.0."""


def describe(message: StoredMessage, levels_ms: Sequence[int]) -> Row:
    """Return the state of a message; empty for an ordinary message in its topic.

    `levels_ms` are the delay levels (ms) of its broker.
    """
    real = message.properties.get(props.REAL_TOPIC, "")
    if message.topic.startswith(names.REVIVE_TOPIC_PREFIX):
        return _record(message)
    if message.topic == names.TIMER_TOPIC:
        row = _timed(message)
        if real.startswith(names.REVIVE_TOPIC_PREFIX):
            return {**row, **_record(message)}
        return row
    if message.topic == names.SCHEDULE_TOPIC:
        return _delayed(message, levels_ms)
    if message.topic == names.HALF_TOPIC:
        return _half(message)
    if message.topic == names.OP_HALF_TOPIC:
        return {"state": "end of transactions", "half_offsets": _text(message)}
    if message.topic == names.TRANS_CHECK_MAX_TIME_TOPIC:
        return {**_half(message), "state": "half, given up: its producer never said how it ended"}
    if props.FIRST_POP_TIME in message.properties and names.is_retry_topic(message.topic):
        first = _number(message.properties[props.FIRST_POP_TIME])
        return {"state": "POP retry: it was not acknowledged in time", "first_popped_ms": first}
    return {}


def _delayed(message: StoredMessage, levels_ms: Sequence[int]) -> Row:
    level = message.queue_id + 1
    row = {"state": f"delayed, level {level}", **_real_place(message)}
    if level <= len(levels_ms):
        row["due_ms"] = message.store_wall_ms + levels_ms[level - 1]
    return row


def _timed(message: StoredMessage) -> Row:
    cancels = message.properties.get(props.TIMER_DEL_UNIQKEY)
    row = {"state": "timed", **_real_place(message)}
    due = _number(message.properties.get(props.TIMER_OUT_MS, ""))
    if due is not None:
        row["due_ms"] = due
    if cancels is not None:
        row |= {"state": "cancels a timed message", "cancels": cancels}
    return row


def _half(message: StoredMessage) -> Row:
    checks = message.properties.get(props.TRANSACTION_CHECK_TIMES, "0")
    return {
        "state": "half: shown to nobody unless its transaction is committed",
        **_real_place(message),
        "producer_group": message.properties.get(props.PGROUP),
        "checks": _number(checks),
    }


def _record(message: StoredMessage) -> Row:
    """Describe a record of POP; its messages are in flight until it is due."""
    row: Row = {"state": _RECORDS.get(message.tags or "", "POP record")}
    try:
        found = json.loads(_text(message))
    except ValueError:
        return row
    if not isinstance(found, dict):
        return row
    told = {
        name: next((found[key] for key in keys if key in found), None)
        for name, keys in _SHORT.items()
    }
    row |= {
        "real_topic": told["topic"],
        "real_queue_id": told["queue"],
        "group": told["group"],
        "first_offset": told["start"],
        "acked_offset": told["ack"],
    }
    if isinstance(told["popped"], int) and isinstance(told["invisible"], int):
        row["due_ms"] = told["popped"] + told["invisible"]
    return {name: value for name, value in row.items() if value is not None}


def _real_place(message: StoredMessage) -> Row:
    return {
        "real_topic": message.properties.get(props.REAL_TOPIC),
        "real_queue_id": _number(message.properties.get(props.REAL_QID, "")),
    }


def _text(message: StoredMessage) -> str:
    try:
        return message.plain_body().decode(errors="replace")
    except EpochError:
        return ""


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 20 else None
