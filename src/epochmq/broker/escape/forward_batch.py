"""Messages on their way to another master, and how the whole of a put is answered once."""

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
from epochmq.store.draft import Draft
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, request
from epochmq.wire.header import decode_header
from epochmq.wire.headers.fast_headers import AnyEnd
from epochmq.wire.headers.send_headers import EndTransactionHeader, SendHeaderV2, SendResponseHeader


class Where(Enum):
    """Which masters may take a message."""

    TOPIC = auto()
    """Those that have its topic; if none has, those that make topics on first send (TBW102)."""
    ANY = auto()
    """Every one: a group's retry topic is made by whoever is sent to."""
    ONE = auto()
    """Of those that have its topic always the same, as long as it is there."""
    PINNED = auto()
    """The one that `place` names."""


@dataclass(frozen=True, slots=True)
class ForwardedMessage:
    """One message to hand over; `size` in bytes bounds what is under way.

    `name` is its ESCAPE_ID, empty where it needs none: repeats go to the same master by it.
    """

    draft: Draft
    topic: str
    size: int
    where: Where = Where.TOPIC
    place: int = 0
    name: str = ""


class ForwardBatch:
    """What came in one put; `done` hears once, when each of its messages has an outcome."""

    __slots__ = ("_done", "_open", "flying", "forward_items", "outcomes", "since_ms", "touched")

    def __init__(self, items: Sequence[ForwardedMessage], first: int, done: Done, now: int) -> None:
        self.since_ms = now
        self.touched = False
        """Whether a peer holds, or may hold, anything of it."""
        self.flying = 0
        """How many of it are under way."""
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
        """The outcome of one; the first counts."""
        if self.outcomes[number] is not None:
            return
        self.outcomes[number] = outcome
        self._open -= 1
        if not self._open:
            self._done([outcome for outcome in self.outcomes if outcome is not None])


class ForwardItem:
    """One message until a peer holds it. `id` is its number among all of this process."""

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
        """Rounds in which no master took it."""
        self.held_by = ""
        """The master that has it, or may have it: a repeat is dropped there."""
        self.lost_at_ms = 0
        """When an answer of that one was lost."""
        self.refused_by: set[str] = set()
        """Masters that refused it in this round."""

    @property
    def over(self) -> bool:
        return self.batch.outcomes[self.number] is not None

    def set_outcome(self, outcome: WriteOutcome) -> None:
        self.batch.set_outcome(self.number, outcome)


# Forward request -----------------------------------------------------------------------------
# A draft as SEND_MESSAGE_V2 carries it to another master, which does with it what we would have.
#
# What the draft's way through the own internal writer skips, a send must not bring back: a level
# or a time that was kept already (DELAY, TIMER_...) is taken off, as upstream does for the
# level; one that goes on waiting, or a consumer sent back just now, keeps it. `ESCAPE_ID` marks
# the message: a master of ours drops a repeat by it and does not store it; any other keeps it as
# it keeps every property.


DEFAULT_QUEUES = 8
"""Queues that a topic gets which is made by our send, as upstream asks for."""
ANY_QUEUE = -1
"""The master chooses: it knows its queues best."""
_KEPT_TIMES = (prop.DELAY, prop.TIMER_DELAY_SEC, prop.TIMER_DELAY_MS, prop.TIMER_DELIVER_MS)
_MARK_ROOM = 256


def item_of(draft: Draft, broker: str) -> ForwardedMessage | None:
    """Where a draft of group `broker` may go; None when it belongs in the own log only."""
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
        where = Where.ONE  # where it meets those that take it back (TIMER_DEL_UNIQKEY)
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
    """The request that hands `item` over; `group` sends what has no producer group of its own."""
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
        # A retry was counted where it was consumed; nobody else gives it up.
        maxReconsumeTimes=RETRIES_UNLIMITED,
        batch=False,
    )
    return request(RequestCode.SEND_MESSAGE_V2, header, draft.body)


def level_to_wait(draft: Draft) -> int:
    """The level that a message still has to wait that a consumer sent back; 0 for any other.

    What has waited names the place it waited for (REAL_TOPIC).
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
    return 0 if item.where is Where.ONE else ANY_QUEUE


def here(draft: Draft) -> Draft:
    """It for a store of this process: a pinned queue by its own number."""
    if not is_pinned(draft.queue_id):
        return draft
    return msgspec.structs.replace(draft, queue_id=unpinned(draft.queue_id)[1])


# Handed over halves --------------------------------------------------------------------------
# Where half messages went that were handed over, so that an end that comes later follows them.
#
# In memory: what is forgotten is asked for by the master that has it.


class _Place(NamedTuple):
    address: str
    queue_offset: int
    offset: int
    topic: str


class HandedOverHalves:
    """By producer group and UNIQ_KEY, the newest so many."""

    def __init__(self) -> None:
        self._places: OrderedDict[tuple[str, str], _Place] = OrderedDict()

    def note(self, item: ForwardedMessage, address: str, answer: Command) -> None:
        """A master holds `item`, which may be a half message; its answer says where."""
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
        """The address, and the end as it is to be asked for there; None for one that is unknown."""
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
