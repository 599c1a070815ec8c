"""What a sink writes on each message so that a repeat of it can be told (ADR 0036).

Four properties: whose it is (`__SINK_ID`), in which batch, of which part of it, and its number
there. They are ordinary user properties to any other broker.
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
    """What has one memory: a part of a sink's work, in one topic."""

    sink: str
    part: int
    topic: str


class SinkMark(NamedTuple):
    """One message of a sink."""

    key: SinkKey
    batch: int
    seq: int


def mark_of(topic: str, properties: Mapping[str, str]) -> SinkMark | None:
    """The mark of a message sent to `topic`, or stored in it; None for one that has none.

    Retries, dead letters and the broker's own topics hold copies, which may well come twice; of
    the delay topic's messages the topic counts that they are on their way to.
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
# What a broker writes on a message that it hands over to another group (RIP-32, ADR 0051).
#
# `ESCAPE_ID` names the message by all it says: who hands the same one over again, because an answer
# was lost or because it died before its progress was saved, gives the same name. A master of ours
# takes the property off before it stores the message, so that no copy a client makes of it is taken
# for a repeat. Two messages of one name have one UNIQ_KEY, one born time and one content.


ESCAPE_ID = "__ESCAPE_ID"
LENGTH_MAX = 255
_VOLATILE = frozenset({TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS, WAIT})
"""Properties that say how a message was moved on and not what it is."""
PART = -1
"""No sink has such a part."""


def escape_id(broker: str, topic: str, properties: Mapping[str, str], *what: object) -> str:
    """The name of a message of group `broker`; `what` is all else of it that is stored."""
    digest = blake2b(digest_size=16)
    kept = sorted(pair for pair in properties.items() if pair[0] not in _VOLATILE)
    for piece in (topic, len(kept), *(text for pair in kept for text in pair), *what):
        data = piece if isinstance(piece, bytes) else str(piece).encode("utf-8", "replace")
        digest.update(len(data).to_bytes(8) + data)
    return f"{broker}@{digest.hexdigest()}"


def escape_mark(text: str, topic: str) -> SinkMark | None:
    """The mark that repeats are told by; None for what no broker writes."""
    if not 0 < len(text) <= LENGTH_MAX:
        return None
    return SinkMark(SinkKey(text, PART, topic), 0, 0)
