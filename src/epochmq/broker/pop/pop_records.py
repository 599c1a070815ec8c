"""POP records: check points and acknowledgements as messages of the revive topic.

A check point (tag `ck`) names up to 32 messages of one queue that one pop took; bit i of `bm` says
that message i is finished. An acknowledgement (tag `ack`, or `bAck` for several messages) names its
check point by the merge key, the fields that both have in common. The bodies are RocketMQ's JSON.
Acknowledgements of 5.0 have long field names, which are read and never written.

EpochMQ writes both to the revive topic at once, in the order in which they were made, and not
through the timer wheel (ADR 0047). So an acknowledgement always lies behind its check point.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from epochmq.model import names, record
from epochmq.model.properties import find
from epochmq.model.property_names import TIMER_DELIVER_MS
from epochmq.model.revive_routing import is_pinned
from epochmq.model.tags import tags_code
from epochmq.store.draft import Draft

CK_TAG, ACK_TAG, BATCH_ACK_TAG = "ck", "ack", "bAck"
MESSAGES_MAX = 32
"""Limit of the messages in one check point: `bm` is a Java int."""

_SIGN = 1 << 31
_TIMED_BEFORE_MS = 1_000


class Key(NamedTuple):
    """The merge key: the fields that a check point and its acknowledgements have in common.

    The broker name is part of the key (rocketmq#8460).
    """

    topic: str
    group: str
    queue_id: int
    start: int
    pop_time: int
    broker_name: str


class CheckPoint(msgspec.Struct, rename={
    "start": "so", "pop_time": "pt", "invisible_time": "it", "bits": "bm", "count": "n",
    "queue_id": "q", "topic": "t", "group": "c", "revive_offset": "ro", "deltas": "d",
    "broker_name": "bn", "re_puts": "rp", "first_pop_time": "fpt",
}):  # fmt: skip
    """A check point. `start` is a queue offset, `deltas` are distances from it; times are wall ms.

    `invisible_time` is a duration in ms.
    """

    topic: str = ""
    group: str = ""
    queue_id: int = 0
    start: int = 0
    pop_time: int = 0
    """Time of the pop, or of the last change of the invisible time."""
    invisible_time: int = 0
    deltas: list[int] | None = None
    count: int = 0
    bits: int = 0
    """The bit map of finished messages as stored: a signed 32-bit number; see `done`."""
    revive_offset: int = 0
    broker_name: str | None = None
    re_puts: str | int | UnsetType | None = UNSET
    first_pop_time: int | UnsetType | None = UNSET
    """Time of the original pop, if the invisible time was changed since. EpochMQ only; RocketMQ
    ignores it."""

    @property
    def first_popped_ms(self) -> int:
        """When the messages were popped (wall ms), before any change of the invisible time."""
        return self.first_pop_time or self.pop_time

    @property
    def key(self) -> Key:
        return Key(
            self.topic, self.group, self.queue_id, self.start, self.pop_time, self.broker_name or ""
        )

    @property
    def done(self) -> int:
        """The bit map of finished messages as an unsigned number."""
        return self.bits & 0xFFFF_FFFF

    @property
    def due_wall_ms(self) -> int:
        return self.pop_time + self.invisible_time

    def offsets(self) -> list[int]:
        """Return the queue offsets of the messages; without `deltas` they are consecutive."""
        deltas = self.deltas if self.deltas else range(self.count)
        return [self.start + delta for delta in deltas]


class PopAckRecord(NamedTuple):
    """One acknowledgement record: the merge key and the acknowledged queue offsets."""

    key: Key
    offsets: list[int]


class _AckBody(msgspec.Struct):
    so: int = 0
    c: str = ""
    t: str = ""
    q: int = 0
    pt: int = 0
    bn: str | None = None
    ao: int | None = None
    aol: list[int] | None = None
    ackOffset: int | None = None
    startOffset: int | None = None
    consumerGroup: str | None = None
    topic: str | None = None
    queueId: int | None = None
    popTime: int | None = None
    brokerName: str | None = None


_read_check_point = msgspec.json.Decoder(CheckPoint, strict=False).decode
_read_ack = msgspec.json.Decoder(_AckBody, strict=False).decode
_write = msgspec.json.Encoder().encode


def with_done(check_point: CheckPoint, done: int) -> CheckPoint:
    """Return a copy of the check point with the bits `done` added."""
    bits = check_point.done | done
    return msgspec.structs.replace(check_point, bits=bits - 2 * _SIGN if bits & _SIGN else bits)


def check_point_draft(check_point: CheckPoint, topic: str, queue_id: int, wall: int) -> Draft:
    """Make the message of a check point.

    A check point for another master (pinned queue) gets a delivery time for RocketMQ's timer.
    """
    key = check_point.key
    uniq = _uniq(key, key.start, CK_TAG)
    draft = _draft(topic, queue_id, wall, CK_TAG, _write(check_point), uniq)
    return _timed(draft, check_point.due_wall_ms - _TIMED_BEFORE_MS)


def ack_draft(
    key: Key,
    offsets: list[int],
    topic: str,
    queue_id: int,
    wall: int,
    host: bytes,
    due_wall_ms: int = 0,
) -> Draft:
    """Make the message that acknowledges one or several messages of a check point.

    `offsets` are queue offsets. `due_wall_ms` is used only for pinned queues.
    """
    body: dict[str, object] = {
        "so": key.start, "c": key.group, "t": key.topic, "q": key.queue_id, "pt": key.pop_time,
        "bn": key.broker_name,
    }  # fmt: skip
    if len(offsets) == 1:
        body["ao"] = offsets[0]
        tag, place = ACK_TAG, str(offsets[0])
    else:
        body["aol"] = offsets
        tag, place = BATCH_ACK_TAG, str(offsets)
    draft = _draft(topic, queue_id, wall, tag, _write(body), _uniq(key, place, tag))
    draft.born_host = host
    return _timed(draft, due_wall_ms)


def _timed(draft: Draft, deliver_wall_ms: int) -> Draft:
    """Add a timer delivery time to a message for a pinned queue.

    RocketMQ writes the revive topic through its timer, check points one second before their
    acknowledgements.
    """
    if is_pinned(draft.queue_id) and deliver_wall_ms > 0:
        draft.properties += f"\x02{TIMER_DELIVER_MS}\x01{deliver_wall_ms}".encode()
    return draft


def _uniq(key: Key, offset: int | str, tag: str) -> str:
    return f"{key.topic}@{key.queue_id}@{offset}@{key.group}@{key.pop_time}@{key.broker_name}@{tag}"


def _draft(topic: str, queue_id: int, wall: int, tag: str, body: bytes, uniq: str) -> Draft:
    """Make a revive topic message that is indexed by its UNIQ_KEY.

    Every record with a UNIQ_KEY is indexed: replicas, and a rebuild of the index, see only the
    record (INV-17).
    """
    return Draft(
        topic=topic,
        queue_id=queue_id,
        body=body,
        properties=f"TAGS\x01{tag}\x02UNIQ_KEY\x01{uniq}".encode(),
        tags_code=tags_code(tag),
        keys=(uniq,),
        born_wall_ms=wall,
    )


def read(raw: memoryview, own_name: str) -> CheckPoint | PopAckRecord | None:
    """Decode a record of the revive topic; None if it is neither check point nor acknowledgement.

    A record without a broker name, as 5.0 wrote, belongs to the broker `own_name`.
    """
    tag = find(record.properties_at(raw, 0), b"TAGS")
    start, end = record.body_span(raw, 0)
    body = bytes(raw[start:end])
    try:
        if tag == b"ck":
            return _usable(_read_check_point(body), own_name)
        if tag in (b"ack", b"bAck"):
            return _acks(_read_ack(body), own_name)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return None


def _usable(found: CheckPoint, own_name: str) -> CheckPoint | None:
    count = len(found.deltas) if found.deltas else found.count
    if not found.topic or not found.group or not 0 < count <= MESSAGES_MAX:
        return None
    found.broker_name = found.broker_name or own_name
    return found


def _acks(found: _AckBody, own_name: str) -> PopAckRecord | None:
    offset = found.ao if found.ackOffset is None else found.ackOffset
    offsets: Iterable[int] = found.aol or (() if offset is None else (offset,))
    key = Key(
        found.topic or found.t,
        found.consumerGroup or found.c,
        found.queueId if found.queueId is not None else found.q,
        found.startOffset if found.startOffset is not None else found.so,
        found.popTime if found.popTime is not None else found.pt,
        found.brokerName or found.bn or own_name,
    )
    return PopAckRecord(key, list(offsets))


# Pop names -----------------------------------------------------------------------------------
# Names that POP uses: the revive topic, its consumer group, and V1 and V2 retry topics.


REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
ORDER_QUEUE = 999
"""Revive queue number in the receipt handles of ordered pops, which have no check point."""

NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"
"""Marks in receipt handles: whether a message came from the topic itself or a retry topic."""


def revive_topic(cluster: str) -> str:
    return names.REVIVE_TOPIC_PREFIX + cluster


def retry_name(group: str, topic: str, mark: str) -> str:
    """Return the topic for a mark: `topic` itself, or its V1 or V2 retry topic.

    A V2 name can be split into group and topic, because no client name contains `+`; a V1 name
    cannot.
    """
    if mark == NORMAL or names.is_retry_topic(topic):
        return topic
    return names.retry_topic(f"{group}{'_' if mark == RETRY_V1 else '+'}{topic}")


def mark_of(topic: str) -> str:
    """Return the mark of a topic, derived from its name only, as clients do."""
    if not names.is_retry_topic(topic):
        return NORMAL
    return RETRY_V2 if "+" in topic else RETRY_V1


def topic_of_retries(group: str, topic: str) -> str | None:
    """Return the topic whose retries of `group` are in `topic`; None if `topic` is no such topic.

    The inverse of `retry_name` for a group that is known, for V1 names too.
    """
    for separator in ("+", "_"):
        prefix = names.retry_topic(group + separator)
        if topic.startswith(prefix) and topic != prefix:
            return topic.removeprefix(prefix)
    return None


def sources(group: str, topic: str) -> tuple[str, ...]:
    """Return every topic that a pop of `topic` reads: the topic and its retry topics."""
    if names.is_retry_topic(topic):
        return (topic,)
    return (topic, retry_name(group, topic, RETRY_V1), retry_name(group, topic, RETRY_V2))
