"""The decisions of a POP consumer: delays, receipt handles, batches of acknowledgements."""

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
"""Messages of one queue that are popped and not acknowledged; at this number pops pause."""

FULL_PAUSE_MS = 3_000
"""The pause after a broker had too many waiting pops."""

GIVE_BACK_MS = 1_000
"""The invisible time of popped messages that this member will not handle."""

DELAYS_S = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""Seconds for which a failed message is hidden, by the number of its earlier deliveries."""


class PopStatus(Enum):
    """The outcome of a pop, by RocketMQ's names."""

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
    """Return the status for a response code; None for an error."""
    return _STATUS.get(code)  # type: ignore[call-overload, no-any-return]


def retry_delay_ms(reconsume_times: int) -> int:
    """Return the milliseconds for which a failed message is hidden."""
    return DELAYS_S[min(max(reconsume_times, 0), len(DELAYS_S) - 1)] * 1_000


# Pop handle ----------------------------------------------------------------------------------
# Receipt handles: a client needs the handle of a popped message to acknowledge it (POP_CK).
#
# A handle has eight words: offset of the check point, pop time, invisible time, revive queue, mark,
# broker name, queue id, queue offset. The answer to a pop has the parts of all handles in three
# texts. The pop time is Unix milliseconds of the broker's clock.


NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"
"""Marks: where the message is stored. The topic itself, or the group's retry topic of that topic by
its older (V1) or newer (V2) name."""

ORDERED_REVIVE_QUEUE = 999
"""The revive queue number of ordered pops, for which the broker keeps no check point."""

_WORDS = 8
Place = tuple[str, str]
"""A mark and a queue id, as text."""


@dataclass(frozen=True, slots=True)
class PopHandle:
    """The receipt handle of one popped message.

    Attributes:
        ck_offset: queue offset at which the check point of its pop begins.
        pop_wall_ms: time of the pop, Unix milliseconds of the broker.
        invisible_ms: the invisible time in milliseconds.
        revive_queue_id: the queue of the check point; 999 for an ordered pop.
        mark: whether the message came from the topic or from a retry topic.
        broker_name: the broker group that holds the message.
        queue_id: the queue of the message.
        offset: the queue offset of the message.
    """

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
        """Whether the message was popped in order."""
        return self.revive_queue_id == ORDERED_REVIVE_QUEUE

    def renewed(self, pop_wall_ms: int, invisible_ms: int, revive_queue_id: int) -> "PopHandle":
        """Return the handle after a change of the invisible time: the message has its own check
        point.
        """
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
        """Return the topic that holds the message: `topic`, or the group's retry topic of it."""
        return retry_topic_of(topic, group, self.mark)


def retry_topic_of(topic: str, group: str, mark: str) -> str:
    """Return the topic for a mark; retry topics V1 are joined by an underscore, V2 by a plus."""
    if mark == NORMAL:
        return topic
    return f"{names.retry_topic(group)}{'_' if mark == RETRY_V1 else '+'}{topic}"


def mark_of(stored_topic: str, topic: str, group: str) -> str:
    """Return the mark of a message that was popped for `topic` and is stored in `stored_topic`."""
    for mark in (RETRY_V1, RETRY_V2):
        if stored_topic == retry_topic_of(topic, group, mark):
            return mark
    return NORMAL


def parse(text: str) -> PopHandle:
    """Read a receipt handle. Raises `UsageError` for any other text."""
    words = text.split(" ")
    if len(words) != _WORDS or words[4] not in (NORMAL, RETRY_V1, RETRY_V2):
        raise UsageError(f"{text[:100]!r} is not a receipt handle")
    try:
        start, pop, invisible, revive = map(int, words[:4])
        return PopHandle(
            start, pop, invisible, revive, words[4], words[5], int(words[6]), int(words[7])
        )
    except ValueError:
        raise UsageError(f"{text[:100]!r} is not a receipt handle") from None


def complete(
    messages: Iterable[StoredMessage],
    header: PopResponseHeader,
    *,
    topic: str,
    group: str,
    broker_name: str,
) -> None:
    """Set handle, time of the first pop and topic in popped `messages`.

    A handle that the broker set itself stays (5.3).

    Raises:
        PeerError: the answer cannot be read or does not fit its messages.
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
            said = (RETRY_V1, place[1])  # brokers mark by the name of the topic that was popped
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
    """Return the handle that `complete` set. Raises `UsageError` if the message was not popped."""
    return parse(message.properties.get(properties.POP_CK, ""))


def _order_counts(header: PopResponseHeader) -> dict[Place, int]:
    """Return how often messages or queues were delivered before; only for ordered pops."""
    if header.reviveQid != ORDERED_REVIVE_QUEUE:
        return {}
    return {place: _number(text) for place, text in _entries(header.orderCountInfo)}


def _entries(text: str | None) -> list[tuple[Place, str]]:
    """Read the entries `mark queue value` of one text of the answer."""
    found = []
    for entry in (text or "").split(";"):
        if not entry:
            continue
        words = entry.split(" ")
        if len(words) != 3:
            raise PeerError(f"{entry[:100]!r} is not an entry of an answer to a pop")
        found.append(((words[0], words[1]), words[2]))
    return found


def _numbers(text: str) -> list[int]:
    return [_number(word) for word in text.split(",")]


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise PeerError(f"{text[:100]!r} in an answer to a pop is not a number") from None


def _by_offset(message: StoredMessage) -> int:
    return message.queue_offset


# Batch acknowledgement -----------------------------------------------------------------------
# Many acknowledgements in one request, for brokers that know request code 200151.


SPAN_MAX = 1_024
"""The largest distance, in queue offsets, between a check point and a message in its bit set."""

_Key = tuple[int, int, int, int, str, int]


def batches(
    broker_name: str, group: str, topic: str, handles: Iterable[PopHandle]
) -> tuple[BatchAckBody, list[PopHandle]]:
    """Return one request body for `handles` of one broker and topic, and the handles left over.

    Those left over must be acknowledged one by one. Ordered pops are among them, because the answer
    shows whether the message still belonged to this member.
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
    """Return the bits in Base64, lowest bit of each byte first, without zero bytes at the end."""
    number = sum(1 << bit for bit in bits)
    return base64.b64encode(number.to_bytes((number.bit_length() + 7) // 8, "little")).decode()
