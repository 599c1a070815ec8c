"""Receipt handles of popped messages: what a client keeps to acknowledge one (POP_CK).

Eight words: check point's offset, pop time, invisible time, revive queue, mark, broker, queue,
message's offset. The broker's answer to a pop has the parts of many
handles in three texts; times are wall ms of the broker.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from epochmq.base.errors import PeerError, UsageError
from epochmq.model import names
from epochmq.model import property_names as properties
from epochmq.model.message import StoredMessage
from epochmq.wire.headers.pop_headers import PopResponseHeader

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
