"""What a POP consumer does after an answer, and after a listener."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from epochmq.base.errors import PeerError, UsageError
from epochmq.model import names
from epochmq.model import property_names as properties
from epochmq.model.message import StoredMessage
from epochmq.wire.bodies.pop_bodies import BatchAck, BatchAckBody
from epochmq.wire.codes import ResponseCode
from epochmq.wire.headers.pop_headers import PopResponseHeader

POP_COUNT = 32
INVISIBLE_MS = 60_000
INVISIBLE_MS_MIN, INVISIBLE_MS_MAX = 5_000, 300_000
POLL_MS = 15_000
POP_TIMEOUT_MS = 25_000
IN_FLIGHT_MAX = 96
"""Messages of one queue that are not acknowledged yet; at that many no more are popped."""

FULL_PAUSE_MS = 3_000
"""After the broker had too many waiters, or could not be asked."""

GIVE_BACK_MS = 1_000
"""Invisible time of what was popped and will not be handled here."""

DELAYS_S = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""How long a message that failed stays away, by the times it was handed out before."""


class PopStatus(Enum):
    """The outcome of a pop; the names are RocketMQ's."""

    FOUND = "FOUND"
    POLLING_FULL = "POLLING_FULL"
    POLLING_NOT_FOUND = "POLLING_NOT_FOUND"


_STATUS = {
    ResponseCode.SUCCESS: PopStatus.FOUND,
    ResponseCode.POLLING_FULL: PopStatus.POLLING_FULL,
    ResponseCode.POLLING_TIMEOUT: PopStatus.POLLING_NOT_FOUND,
    ResponseCode.PULL_NOT_FOUND: PopStatus.POLLING_NOT_FOUND,
}


def status_of(code: int) -> PopStatus | None:
    """The status behind a response code; None for an error."""
    return _STATUS.get(code)  # type: ignore[call-overload, no-any-return]


def retry_delay_ms(reconsume_times: int) -> int:
    """How long a message that failed is to stay away."""
    return DELAYS_S[min(max(reconsume_times, 0), len(DELAYS_S) - 1)] * 1_000


# Pop handle ----------------------------------------------------------------------------------
# Receipt handles of popped messages: what a client keeps to acknowledge one (POP_CK).
#
# Eight words: check point's offset, pop time, invisible time, revive queue, mark, broker, queue,
# message's offset. The broker's answer to a pop has the parts of many
# handles in three texts; times are wall ms of the broker.


NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"
"""Marks: the topic itself, or the group's retry topic of it by its older or newer name."""

ORDERED_REVIVE_QUEUE = 999
"""In place of a revive queue: popped in order, so the broker keeps no check point."""

_WORDS = 8
Place = tuple[str, str]
"""A mark, and a queue's number as it is written there."""


@dataclass(frozen=True, slots=True)
class PopHandle:
    """One popped message; `ck_offset` is where the check point of its batch begins."""

    ck_offset: int
    pop_wall_ms: int
    invisible_ms: int
    revive_queue_id: int
    mark: str
    broker_name: str
    queue_id: int
    offset: int

    def __str__(self) -> str:
        return (
            f"{self.ck_offset} {self.pop_wall_ms} {self.invisible_ms} {self.revive_queue_id}"
            f" {self.mark} {self.broker_name} {self.queue_id} {self.offset}"
        )

    @property
    def is_ordered(self) -> bool:
        return self.revive_queue_id == ORDERED_REVIVE_QUEUE

    def renewed(self, pop_wall_ms: int, invisible_ms: int, revive_queue_id: int) -> "PopHandle":
        """The handle after the invisible time was changed: a check point of the message's own."""
        return PopHandle(
            self.offset,
            pop_wall_ms,
            invisible_ms,
            revive_queue_id,
            self.mark,
            self.broker_name,
            self.queue_id,
            self.offset,
        )

    def real_topic(self, topic: str, group: str) -> str:
        """The topic that holds the message: `topic`, or the group's retry topic of it."""
        return retry_topic_of(topic, group, self.mark)


def retry_topic_of(topic: str, group: str, mark: str) -> str:
    """By its mark; V1 joins by an underscore, V2 by a plus."""
    if mark == NORMAL:
        return topic
    return f"{names.retry_topic(group)}{'_' if mark == RETRY_V1 else '+'}{topic}"


def mark_of(stored_topic: str, topic: str, group: str) -> str:
    """The mark of a message popped for `topic` that came with the topic `stored_topic`."""
    for mark in (RETRY_V1, RETRY_V2):
        if stored_topic == retry_topic_of(topic, group, mark):
            return mark
    return NORMAL


def parse(text: str) -> PopHandle:
    """Read POP_CK; `UsageError` for what is none."""
    words = text.split(" ")
    if len(words) != _WORDS or words[4] not in (NORMAL, RETRY_V1, RETRY_V2):
        raise UsageError(f"{text[:100]!r} is no receipt handle")
    try:
        start, pop, invisible, revive = map(int, words[:4])
        return PopHandle(
            start, pop, invisible, revive, words[4], words[5], int(words[6]), int(words[7])
        )
    except ValueError:
        raise UsageError(f"{text[:100]!r} is no receipt handle") from None


def complete(
    messages: Iterable[StoredMessage],
    header: PopResponseHeader,
    *,
    topic: str,
    group: str,
    broker_name: str,
) -> None:
    """Give popped `messages` their handle, the time of their first pop and their own topic.

    A handle that the broker wrote itself stays (5.3). `PeerError` when the answer's texts cannot
    be read or do not fit its messages.
    """
    starts = {place: _number(text) for place, text in _entries(header.startOffsetInfo)}
    offsets = {place: _numbers(text) for place, text in _entries(header.msgOffsetInfo)}
    counts = _order_counts(header)
    queues: dict[Place, list[StoredMessage]] = {}
    for message in messages:
        mark = mark_of(message.topic, topic, group)
        place = (mark, str(message.queue_id))
        count = counts.get((mark, f"qo{message.queue_id}%{message.queue_offset}"))
        message.reconsume_times = count or counts.get(place, 0) or message.reconsume_times
        message.topic = topic
        message.properties.setdefault(properties.FIRST_POP_TIME, str(header.popTime))
        if properties.POP_CK not in message.properties:
            queues.setdefault(place, []).append(message)
    for place, found in queues.items():
        found.sort(key=_by_offset)
        said = place
        if names.is_retry_topic(topic) and place not in offsets:
            said = (RETRY_V1, place[1])  # brokers go by the name, and nobody popped what it is of
        told = offsets.get(said, [message.queue_offset for message in found])
        if len(told) < len(found):
            raise PeerError(f"{broker_name} popped more of queue {place[1]} than it tells of")
        start = starts.get(said, told[0])
        for message, offset in zip(found, told, strict=False):
            message.properties[properties.POP_CK] = str(
                PopHandle(
                    start,
                    header.popTime,
                    header.invisibleTime,
                    header.reviveQid,
                    place[0],
                    broker_name,
                    message.queue_id,
                    offset,
                )
            )


def handle_of(message: StoredMessage) -> PopHandle:
    """The handle that `complete` gave; `UsageError` for a message that was not popped."""
    return parse(message.properties.get(properties.POP_CK, ""))


def _order_counts(header: PopResponseHeader) -> dict[Place, int]:
    """How often a message, or all of a queue, was handed out before; ordered pops only."""
    if header.reviveQid != ORDERED_REVIVE_QUEUE:
        return {}
    return {place: _number(text) for place, text in _entries(header.orderCountInfo)}


def _entries(text: str | None) -> list[tuple[Place, str]]:
    """The entries `mark queue value` of one of the answer's texts."""
    found = []
    for entry in (text or "").split(";"):
        if not entry:
            continue
        words = entry.split(" ")
        if len(words) != 3:
            raise PeerError(f"{entry[:100]!r} is no entry of an answer to a pop")
        found.append(((words[0], words[1]), words[2]))
    return found


def _numbers(text: str) -> list[int]:
    return [_number(word) for word in text.split(",")]


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise PeerError(f"{text[:100]!r} in an answer to a pop is no number") from None


def _by_offset(message: StoredMessage) -> int:
    return message.queue_offset


# Ack batch -----------------------------------------------------------------------------------
# Many acknowledgements in one request, for a broker that knows 200151.


SPAN_MAX = 1_024
"""Offsets between the check point and a message that a bit set may cover."""

_Key = tuple[int, int, int, int, str, int]


def batches(
    broker_name: str, group: str, topic: str, handles: Iterable[PopHandle]
) -> tuple[BatchAckBody, list[PopHandle]]:
    """One body for `handles` of one broker and topic, and those that must go one by one.

    Acks in order go alone: there the answer tells whether the message was still ours.
    """
    rows: dict[_Key, set[int]] = {}
    alone = []
    for handle in handles:
        bit = handle.offset - handle.ck_offset
        if handle.revive_queue_id == ORDERED_REVIVE_QUEUE or not 0 <= bit < SPAN_MAX:
            alone.append(handle)
        else:
            rows.setdefault(_key(handle), set()).add(bit)
    acks = [_row(group, topic, key, bits) for key, bits in rows.items()]
    return BatchAckBody(broker_name=broker_name, acks=acks), alone


def _key(handle: PopHandle) -> _Key:
    return (
        handle.ck_offset,
        handle.pop_wall_ms,
        handle.invisible_ms,
        handle.revive_queue_id,
        handle.mark,
        handle.queue_id,
    )


def _row(group: str, topic: str, key: _Key, bits: set[int]) -> BatchAck:
    start, pop_time, invisible_time, revive_queue_id, mark, queue_id = key
    return BatchAck(
        consumer_group=group,
        topic=topic,
        retry=mark,
        start_offset=start,
        queue_id=queue_id,
        revive_queue_id=revive_queue_id,
        pop_time=pop_time,
        invisible_time=invisible_time,
        bit_set=_bit_set(bits),
    )


def _bit_set(bits: set[int]) -> str:
    """Base64 of the bits, the lowest of each byte first, without bytes of zeros at the end."""
    number = sum(1 << bit for bit in bits)
    return base64.b64encode(number.to_bytes((number.bit_length() + 7) // 8, "little")).decode()
