"""Messages that the escape bridge forwards to another master: batches, requests, half messages."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

import msgspec

from epochmq.base import limits
from epochmq.base.errors import HeaderError
from epochmq.base.limits import PROPERTIES_BYTES_MAX
from epochmq.broker.internal_writes.internal_writer import Done, WriteOutcome
from epochmq.model import names
from epochmq.model import property_names as prop
from epochmq.model.group import RETRIES_UNLIMITED
from epochmq.model.message_id import BadMessageId, parse_offset_id
from epochmq.model.properties import decode_bytes, encode_loosely
from epochmq.model.revive_routing import is_pinned, unpinned
from epochmq.model.sink_mark import ESCAPE_ID, escape_id
from epochmq.model.sys_flag import HOSTS_V6_MASK, INNER_BATCH, TX_PREPARED
from epochmq.model.topic import ANY_QUEUE
from epochmq.store.draft import Draft
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, request
from epochmq.wire.header import decode_header
from epochmq.wire.headers.fast_headers import AnyEnd
from epochmq.wire.headers.send_headers import EndTransactionHeader, SendHeaderV2, SendResponseHeader


class Where(Enum):
    """The masters that may take a message."""

    TOPIC = auto()
    """Masters that have its topic; if none has, those that create topics on first send (TBW102)."""
    ANY = auto()
    """Every master: a master creates a group's retry topic on the first send to it."""
    ONE = auto()
    """Always the same one of the masters that have its topic, while that master is there."""
    PINNED = auto()
    """The master that `place` names."""


@dataclass(frozen=True, slots=True)
class ForwardedMessage:
    """One message to forward; its `size` in bytes counts against the limit in flight.

    `name` is its ESCAPE_ID, by which repeats go to the same master; empty where none is needed.
    """

    draft: Draft
    topic: str
    size: int
    where: Where = Where.TOPIC
    place: int = 0
    name: str = ""


class ForwardBatch:
    """The messages of one put; `done` is called once, when each message has an outcome."""

    __slots__ = ("_done", "_open", "flying", "forward_items", "outcomes", "since_ms", "touched")

    def __init__(self, items: Sequence[ForwardedMessage], first: int, done: Done, now: int) -> None:
        self.since_ms = now
        self.touched = False
        """Whether a master holds, or may hold, any message of the batch."""
        self.flying = 0
        """The number of its messages in flight."""
        self.outcomes: list[WriteOutcome | None] = [None] * len(items)
        self.forward_items = [
            ForwardItem(self, number, first + number, item) for number, item in enumerate(items)
        ]
        self._open = len(items)
        self._done = done

    @property
    def over(self) -> bool:
        return not self._open

    def set_outcome(self, number: int, outcome: WriteOutcome) -> None:
        """Set the outcome of one message; only the first outcome counts."""
        if self.outcomes[number] is not None:
            return
        self.outcomes[number] = outcome
        self._open -= 1
        if not self._open:
            self._done([outcome for outcome in self.outcomes if outcome is not None])


class ForwardItem:
    """One message until a master holds it; `id` numbers the messages of this process."""

    __slots__ = ("batch", "failures", "held_by", "id", "item", "lost_at_ms", "number", "refused_by",
                 "tries")  # fmt: skip

    def __init__(
        self, batch: ForwardBatch, number: int, ident: int, item: ForwardedMessage
    ) -> None:
        self.batch = batch
        self.number = number
        self.id = ident
        self.item = item
        self.tries = 0
        self.failures = 0
        """The number of rounds in which no master took it."""
        self.held_by = ""
        """The master that has it, or may have it; that master drops a repeat."""
        self.lost_at_ms = 0
        """When that master's answer was lost (ms)."""
        self.refused_by: set[str] = set()
        """The masters that refused it in this round."""

    @property
    def over(self) -> bool:
        return self.batch.outcomes[self.number] is not None

    def set_outcome(self, outcome: WriteOutcome) -> None:
        self.batch.set_outcome(self.number, outcome)


# Forward request -----------------------------------------------------------------------------
# A message as a SEND_MESSAGE_V2 request to another master, which treats it as this group's
# master would.
#
# The request must not repeat a step that the internal writer skips: a delay level or a delivery
# time whose wait is over (DELAY, TIMER_...) is removed, as RocketMQ does for the level. A message
# that still waits, or that a consumer has just sent back, keeps it. `ESCAPE_ID` marks the message:
# an EpochMQ master uses it to drop a repeat and does not store it; any other broker stores it like
# every property.


DEFAULT_QUEUES = 8
"""The number of queues of a topic that our send creates, as in RocketMQ's request."""
_KEPT_TIMES = (prop.DELAY, prop.TIMER_DELAY_SEC, prop.TIMER_DELAY_MS, prop.TIMER_DELIVER_MS)
_MARK_ROOM = 256


def item_of(draft: Draft, broker: str) -> ForwardedMessage | None:
    """Return where a message of group `broker` may go; None when it belongs in the own log only."""
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
        where = Where.ONE  # at the master of the messages that cancel it (TIMER_DEL_UNIQKEY)
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
    """Return the request for `item`; `group` is the producer group of messages without one."""
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
        # The retry was counted where it was consumed; the other master must not give it up.
        maxReconsumeTimes=RETRIES_UNLIMITED,
        batch=False,
    )
    return request(RequestCode.SEND_MESSAGE_V2, header, draft.body)


def level_to_wait(draft: Draft) -> int:
    """Return the delay level that a message sent back by a consumer still waits for; otherwise 0.

    A message that has waited has the property REAL_TOPIC.
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
    # The receiving master knows its queues best, so it chooses.
    return 0 if item.where is Where.ONE else ANY_QUEUE


def here(draft: Draft) -> Draft:
    """Return the message for a store in this process: a pinned queue gets its own number."""
    if not is_pinned(draft.queue_id):
        return draft
    return msgspec.structs.replace(draft, queue_id=unpinned(draft.queue_id)[1])


# Handed over halves --------------------------------------------------------------------------
# Remembers to which masters half messages were forwarded, so that a later commit or rollback
# follows them.
#
# It is kept in memory: for a forgotten one, the master that has it asks the producer.


class _Place(NamedTuple):
    address: str
    queue_offset: int
    offset: int
    topic: str


class HandedOverHalves:
    """Places of half messages by producer group and UNIQ_KEY; only the newest are kept."""

    def __init__(self) -> None:
        self._places: OrderedDict[tuple[str, str], _Place] = OrderedDict()

    def note(self, item: ForwardedMessage, address: str, answer: Command) -> None:
        """Remember the place of `item` from the master's answer, if it is a half message."""
        if not item.draft.sys_flag & TX_PREPARED:
            return
        properties = decode_bytes(item.draft.properties)
        try:
            said = decode_header(SendResponseHeader, answer.ext)
            at = parse_offset_id(said.msgId)[2]
        except (HeaderError, BadMessageId):
            return
        key = properties.get(prop.PGROUP, ""), properties.get(prop.UNIQ_KEY, "")
        self._places[key] = _Place(address, said.queueOffset, at, item.topic)
        if len(self._places) > limits.TRANSACTIONS_OPEN_MAX:
            self._places.popitem(last=False)

    def follow(self, header: AnyEnd, key: str) -> tuple[str, EndTransactionHeader] | None:
        """Return the master's address and the end request for it; None when the half message is
        unknown."""
        place = self._places.get((header.producerGroup, key))
        if place is None:
            return None
        return place.address, EndTransactionHeader(
            producerGroup=header.producerGroup,
            tranStateTableOffset=place.queue_offset,
            commitLogOffset=place.offset,
            commitOrRollback=header.commitOrRollback,
            msgId=key,
            fromTransactionCheck=header.fromTransactionCheck,
            transactionId=header.transactionId,
            topic=place.topic,
        )
