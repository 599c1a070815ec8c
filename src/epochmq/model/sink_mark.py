"""The properties that a sink writes on each message, so that repeats are recognised (ADR 0036).

Four properties: the id of the sink (`__SINK_ID`), the batch, the part of the batch, and the number
in that part. Other brokers treat them as ordinary user properties.
"""

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from epochmq.model.names import SCHEDULE_TOPIC, is_dlq_topic, is_retry_topic, is_system_topic
from epochmq.model.property_names import REAL_TOPIC, TIMER_DEQUEUE_MS, TIMER_ENQUEUE_MS, WAIT

SINK_ID = "__SINK_ID"
SINK_BATCH = "__SINK_BATCH"
SINK_PART = "__SINK_PART"
SINK_SEQ = "__SINK_SEQ"

SINK_ID_LENGTH_MAX = 255
_DIGITS_MAX = 18


class SinkKey(NamedTuple):
    """The unit of deduplication: one part of a sink's work in one topic."""

    sink: str
    part: int
    topic: str


class SinkMark(NamedTuple):
    """The mark of one message of a sink."""

    key: SinkKey
    batch: int
    seq: int


def mark_of(topic: str, properties: Mapping[str, str]) -> SinkMark | None:
    """Return the mark of a message sent to `topic` or stored in it; None if it has none.

    Retry topics, dead letter topics and system topics hold copies, which may be repeated; their
    messages have no mark. For the delay topic, the target topic of the message counts.
    """
    sink = properties.get(SINK_ID, "")
    if not 0 < len(sink) <= SINK_ID_LENGTH_MAX:
        return None
    if topic == SCHEDULE_TOPIC:
        topic = properties.get(REAL_TOPIC, topic)
    if _holds_copies(topic):
        return None
    batch, part, seq = (_number(properties, name) for name in (SINK_BATCH, SINK_PART, SINK_SEQ))
    if batch < 0 or part < 0 or seq < 0:
        return None
    return SinkMark(SinkKey(sink, part, topic), batch, seq)


@lru_cache(maxsize=1024)
def _holds_copies(topic: str) -> bool:
    return is_retry_topic(topic) or is_dlq_topic(topic) or is_system_topic(topic)


def _number(properties: Mapping[str, str], name: str) -> int:
    text = properties.get(name, "")
    good = 0 < len(text) <= _DIGITS_MAX and text.isascii() and text.isdecimal()
    return int(text) if good else -1


# Escape mark ---------------------------------------------------------------------------------
# The property that a broker writes on a message for another group (RIP-32, ADR 0051).
#
# `ESCAPE_ID` is a hash of the whole message. A broker that hands the same message over again,
# because an answer was lost or because the broker died before its progress was saved, writes the
# same id. An EpochMQ master removes the property before it stores the message, so that a copy made
# by a client is not a repeat. Two messages with one id have the same UNIQ_KEY, born time and
# content.


ESCAPE_ID = "__ESCAPE_ID"
LENGTH_MAX = 255
_VOLATILE = frozenset({TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS, WAIT})
"""Properties that say how a message was forwarded, and do not belong to its content."""
PART = -1
"""The part number of escape marks; no sink has it."""


def escape_id(broker: str, topic: str, properties: Mapping[str, str], *what: object) -> str:
    """Return the id of a message of group `broker`.

    Args:
        broker: name of the broker group that hands the message over.
        topic: topic of the message.
        properties: properties of the message.
        what: all other stored fields of the message.
    """
    digest = blake2b(digest_size=16)
    kept = sorted(pair for pair in properties.items() if pair[0] not in _VOLATILE)
    for piece in (topic, len(kept), *(text for pair in kept for text in pair), *what):
        data = piece if isinstance(piece, bytes) else str(piece).encode("utf-8", "replace")
        digest.update(len(data).to_bytes(8) + data)
    return f"{broker}@{digest.hexdigest()}"


def escape_mark(text: str, topic: str) -> SinkMark | None:
    """Return the mark by which repeats are recognised; None if no broker writes such an id."""
    if not 0 < len(text) <= LENGTH_MAX:
        return None
    return SinkMark(SinkKey(text, PART, topic), 0, 0)
