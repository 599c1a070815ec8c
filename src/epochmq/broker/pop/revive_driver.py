"""Reads the revive queues, puts what is due into retry topics, keeps the progress.

Runs only where the role's row says `secondary` (through `Serving.delivers`). A tick's work is
bounded: so many records read, so many check points delivered. The progress of a queue is the
consumer offset of `CID_RMQ_SYS_REVIVE_GROUP`, in RocketMQ's convention: the last record that is
done with, not the next one.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Protocol

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.base.unbounded import UNLIMITED
from epochmq.broker.delay.delayed import index_keys
from epochmq.broker.internal_writes.internal_writer import InternalWriter, Origin, WriteOutcome
from epochmq.broker.pop import pop_records as records
from epochmq.broker.pop.pop_records import (
    RETRY_V1,
    RETRY_V2,
    REVIVE_GROUP,
    CheckPoint,
    Key,
    retry_name,
)
from epochmq.broker.pop.revive import OpenCheckPoint, Revive
from epochmq.model import record
from epochmq.model.host import pack
from epochmq.model.message import StoredMessage
from epochmq.model.properties import encode_loosely
from epochmq.model.property_names import FIRST_POP_TIME, POP_CK, TAGS
from epochmq.model.tags import tags_code
from epochmq.model.topic import PERM_READ_WRITE, TopicConfig
from epochmq.store.draft import Draft
from epochmq.store.read import GetStatus, ReadResult

# Confirmed -----------------------------------------------------------------------------------
# Calls that wait for the log to be readable up to a place: replicated, and synced where asked.
#
# Progress of POP moves with what is confirmed, and not with what the own broker has written:
# offsets are copied to replicas by themselves, and must never arrive there before the records
# behind them.


class Confirmed:
    """Ends rise, so the calls are made in the order in which they came."""

    def __init__(self, readable: Callable[[], int]) -> None:
        self._readable = readable
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def when(self, end: int, call: Callable[[], None]) -> None:
        """Call once the log up to `end` is readable; now, when it is."""
        if not self._waiting and end <= self._readable():
            call()
            return
        self._waiting.append((end, call))

    def run_due(self) -> None:
        """Make the calls whose time has come."""
        waiting = self._waiting
        if not waiting:
            return
        readable = self._readable()
        while waiting and waiting[0][0] <= readable:
            waiting.popleft()[1]()

    def clear(self) -> None:
        """What waits never comes: another role."""
        self._waiting.clear()


# Revive driver -------------------------------------------------------------------------------


READ_COUNT = 1024
READ_BYTES = 1024 * 1024
DUE_PER_TICK = 64
DAMAGED_AGAIN_MS = 1000
"""A queue whose next record is damaged is read again so often."""
GIVEN_MAX = 10_000
"""Check points that were written and are not read yet, of which it is known when they are due."""

log = logging.getLogger(__name__)


class _Lost(Enum):
    """Why a message cannot be delivered."""

    GONE = auto()
    """Deleted, by retention or with its topic."""
    HERE = auto()
    """It should be there."""


Came = Callable[[Mapping[int, StoredMessage | None] | None], None]
"""Told messages by queue offset, None for those that are gone; what is missing cannot be said. None
in place of all: nobody answered."""


class FetchFromGroup(Protocol):
    """Reads messages of another group's queue."""

    def __call__(self, found: CheckPoint, offsets: Sequence[int], came: Came) -> None: ...


def _nobody(found: CheckPoint, offsets: Sequence[int], came: Came) -> None:
    came(None)


class ReviveStore(Protocol):
    """What is needed of the store."""

    def read_queue(
        self, topic: str, queue_id: int, offset: int, max_count: int, max_bytes: int
    ) -> ReadResult: ...

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]: ...


class Offsets(Protocol):
    """What is needed of the consumer offsets."""

    def commit(self, group: str, topic: str, queue_id: int, offset: int, wall: int = 0) -> None: ...

    def get(self, group: str, topic: str, queue_id: int) -> int: ...


class ReviveTopics(Protocol):
    """What is needed of the topics."""

    def get(self, topic: str) -> TopicConfig | None: ...

    def ensure(self, topic: str, queues: int, perm: int, wall: int) -> TopicConfig: ...


class ReviveDriver:
    """All revive queues of one broker."""

    def __init__(
        self,
        store: ReviveStore,
        internal_writer: InternalWriter,
        offsets: Offsets,
        topics: ReviveTopics,
        confirmed: Confirmed,
        *,
        topic: str,
        broker_name: str,
        end: Callable[[], int],
    ) -> None:
        self.topic = topic
        self._broker_name = broker_name
        self._store = store
        self._internal_writer = internal_writer
        self._offsets = offsets
        self._topics = topics
        self._confirmed = confirmed
        self._end = end
        self.queues: dict[int, Revive] = {}
        self._given: dict[Key, int] = {}
        self._damaged: dict[int, int] = {}
        """When a queue is read again whose next record is damaged (monotonic)."""
        self._fetch: FetchFromGroup = _nobody
        """Reads what another group's check points name."""
        self.retry_v2 = False
        """Whether new retry topics get their names of the second generation."""

    def fetch_from(self, fetch: FetchFromGroup) -> None:
        """Read by `fetch` what another group's check points name."""
        self._fetch = fetch

    def start(self, count: int) -> None:
        """Take up the work where the committed progress says."""
        for queue_id in range(count):
            low, high = self._store.queue_bounds(self.topic, queue_id)
            last = self._offsets.get(REVIVE_GROUP, self.topic, queue_id)
            self.queues[queue_id] = Revive(min(max(last + 1, low), high), high)

    def stop(self) -> None:
        """Another role: what is known here may be wrong elsewhere."""
        self.queues = {}
        self._given.clear()

    def given(self, key: Key, until_ms: int) -> None:
        """A check point is about to be written, of messages that are hidden until then (monotonic).

        It is read a moment later, or much later where replicas are slow: the wall clock may have
        been set by then. Of those that are never read only so many are remembered.
        """
        self._given[key] = until_ms
        if len(self._given) > GIVEN_MAX:
            del self._given[next(iter(self._given))]

    def __len__(self) -> int:
        return sum(map(len, self.queues.values()))

    def tick(self, now: int, wall: int) -> None:
        """Read what is new, deliver what is due, keep the progress."""
        for queue_id, core in self.queues.items():
            caught_up = self.read(queue_id, now, wall)
            if caught_up or len(core) >= limits.POP_CHECK_POINTS_MAX:
                for entry in core.due(now, DUE_PER_TICK):
                    self._deliver(core, entry, now, wall)
            self._copy(core, queue_id, now, wall)
            self._keep(core, queue_id, wall)

    def read(self, queue_id: int, now: int, wall: int) -> bool:
        """Read one piece of a queue; whether its end was reached.

        At the limit of open check points reading stops: what lies behind waits in the log.
        """
        core = self.queues[queue_id]
        if len(core) >= limits.POP_CHECK_POINTS_MAX:
            return False
        if now < self._damaged.get(queue_id, now):
            return True
        found = self._store.read_queue(self.topic, queue_id, core.position, READ_COUNT, READ_BYTES)
        if not found.count:
            if found.status in (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY):
                log.warning(
                    "revive queue %d stood at %d, it holds %d..%d",
                    queue_id, core.position, found.min_offset, found.max_offset,
                )  # fmt: skip
                core.position = found.next_offset
            elif found.status is GetStatus.DAMAGED:
                self._damaged[queue_id] = now + DAMAGED_AGAIN_MS
            elif found.status is GetStatus.OFFSET_FOUND_NULL:
                core.position = max(core.position, found.next_offset)
            return True
        for chunk in found.chunks:
            self._read_chunk(core, chunk, now, wall)
        core.position = found.next_offset
        return found.next_offset >= found.max_offset

    def next_deadline(self, now: int) -> int | None:
        """When the next tick does something (monotonic)."""
        wanted = []
        for queue_id, core in self.queues.items():
            if core.position < self._store.queue_bounds(self.topic, queue_id)[1]:
                wanted.append(max(now, self._damaged.get(queue_id, now)))
            at = core.next_deadline()
            if at is not None:
                wanted.append(at)
        return min(wanted, default=None)

    def statistics(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for core in self.queues.values():
            for name, value in core.statistics().items():
                total[name] = total.get(name, 0) + value
        return total

    # Reading ---------------------------------------------------------------------------------

    def _read_chunk(self, core: Revive, chunk: memoryview, now: int, wall: int) -> None:
        at = 0
        while at < len(chunk):
            size = record.size_at(chunk, at)
            raw = chunk[at : at + size]
            found = records.read(raw, self._broker_name)
            core.position = record.queue_offset_at(raw, 0)
            if isinstance(found, CheckPoint):
                until_ms = self._given.pop(found.key, None)
                core.add_check_point(found, core.position, now, wall, until_ms)
            elif found is not None:
                core.add_acks(found.key, found.offsets)
            else:
                log.error("revive queue: record %d says nothing", core.position)
            at += size

    # Delivering ------------------------------------------------------------------------------

    def _deliver(self, core: Revive, entry: OpenCheckPoint, now: int, wall: int) -> None:
        """Put what is open of a check point into the retry topic; its messages may be elsewhere.

        A slave that stood in for another group's master gave the check point here (RIP-32).
        """
        check_point = entry.check_point
        topic = self._retry_topic(check_point, wall)
        offsets = [at for _, at in entry.open_messages()]
        if topic is None:
            core.failed(entry, 0, now, hard=True)
        elif check_point.broker_name == self._broker_name:
            before = self._log_offset(core, entry)
            found = {at: self._find(check_point, at, before) for at in offsets}
            self._put(core, entry, topic, found, now, wall)
        else:
            self._from_remote(core, entry, topic, offsets, now, wall)

    def _from_remote(
        self,
        core: Revive,
        entry: OpenCheckPoint,
        topic: str,
        offsets: list[int],
        now: int,
        wall: int,
    ) -> None:
        check_point = entry.check_point

        def came(messages: Mapping[int, StoredMessage | None] | None) -> None:
            if core not in self.queues.values():
                return  # another role
            if messages is None:
                core.failed(entry, 0, now, hard=False)
                return
            found = {at: messages.get(at, _Lost.HERE) or _Lost.GONE for at in offsets}
            self._put(core, entry, topic, found, now, wall)

        self._fetch(check_point, offsets, came)

    def _put(
        self,
        core: Revive,
        entry: OpenCheckPoint,
        topic: str,
        messages: Mapping[int, StoredMessage | _Lost],
        now: int,
        wall: int,
    ) -> None:
        bits: list[int] = []
        drafts: list[Draft] = []
        settled, hard = 0, False
        for bit, offset in entry.open_messages():
            found = messages.get(offset, _Lost.HERE)
            if isinstance(found, StoredMessage):
                bits.append(1 << bit)
                drafts.append(_again(found, entry.check_point, topic))
            elif found is _Lost.GONE:
                settled |= 1 << bit
            else:
                hard = True
        if not drafts:
            if hard:
                core.failed(entry, settled, now, hard=True)
            else:
                core.delivered(entry, settled)
            return

        def done(outcomes: Sequence[WriteOutcome]) -> None:
            kept, refused, stuck = settled, False, hard
            for bit, outcome in zip(bits, outcomes, strict=True):
                if outcome is WriteOutcome.STORED:
                    kept |= bit
                else:
                    refused = refused or outcome is WriteOutcome.LATER
                    stuck = stuck or outcome is WriteOutcome.ILLEGAL
            self._confirmed.when(self._end(), lambda: tell(kept, refused, stuck))

        def tell(kept: int, refused: bool, stuck: bool) -> None:
            if refused or stuck:
                core.failed(entry, kept, now, hard=not refused)
            else:
                core.delivered(entry, kept)

        self._internal_writer.put(drafts, Origin.REVIVE, wall, done)

    def _retry_topic(self, check_point: CheckPoint, wall: int) -> str | None:
        """Where its messages go; None when the broker cannot deliver them now."""
        mark = RETRY_V2 if self.retry_v2 else RETRY_V1
        topic = retry_name(check_point.group, check_point.topic, mark)
        try:
            self._topics.ensure(topic, 1, PERM_READ_WRITE, wall)
        except Refused as error:
            log.error("cannot revive into %s: %s", topic, error.remark)
            return None
        return topic

    def _log_offset(self, core: Revive, entry: OpenCheckPoint) -> int:
        """Where the check point lies in the log; behind everything when it cannot be told."""
        for queue_id, mine in self.queues.items():
            if mine is core:
                found = self._store.read_queue(self.topic, queue_id, entry.last_place, 1, 1)
                if found.count:
                    return record.offset_at(found.chunks[0], 0)
        return UNLIMITED

    def _find(self, check_point: CheckPoint, offset: int, before: int) -> StoredMessage | _Lost:
        """The message at `offset`, which lies before `before` in the log, as what was popped does.

        Of a topic that was deleted and made anew there may be none, or another (rocketmq#8479).
        """
        topic = check_point.topic
        found = self._store.read_queue(topic, check_point.queue_id, offset, 1, 1)
        gone = not found.min_offset <= offset < found.max_offset or self._topics.get(topic) is None
        if found.count:
            message = record.decode(found.chunks[0])
            if message.queue_offset == offset and message.offset < before:  # rocketmq#7724
                return message
            gone = gone or message.offset > before
        if gone:
            log.warning("%s queue %d: message %d is gone", topic, check_point.queue_id, offset)
            return _Lost.GONE
        log.error("%s queue %d: message %d cannot be read", topic, check_point.queue_id, offset)
        return _Lost.HERE

    # Progress --------------------------------------------------------------------------------

    def _copy(self, core: Revive, queue_id: int, now: int, wall: int) -> None:
        check_point = core.copy(now)
        if check_point is None:
            return
        draft = records.check_point_draft(check_point, self.topic, queue_id, wall)

        def done(outcomes: Sequence[WriteOutcome]) -> None:
            if outcomes[0] is not WriteOutcome.STORED:
                self._confirmed.when(self._end(), failed)

        def failed() -> None:
            _, high = self._store.queue_bounds(self.topic, queue_id)
            core.copy_failed(check_point, high)

        self._internal_writer.put([draft], Origin.REVIVE, wall, done)

    def _keep(self, core: Revive, queue_id: int, wall: int) -> None:
        last = core.progress - 1
        if last > self._offsets.get(REVIVE_GROUP, self.topic, queue_id):
            try:
                self._offsets.commit(REVIVE_GROUP, self.topic, queue_id, last, wall)
            except Refused as error:
                log.error("the progress of revive queue %d is not kept: %s", queue_id, error.remark)


def _again(message: StoredMessage, check_point: CheckPoint, topic: str) -> Draft:
    """The message for the retry topic; its body stays as it is stored (rocketmq#5402)."""
    properties = dict(message.properties)
    properties.pop(POP_CK, None)
    properties.setdefault(FIRST_POP_TIME, str(check_point.first_popped_ms))
    return Draft(
        topic=topic,
        queue_id=0,
        body=message.body,
        properties=encode_loosely(properties).encode(),
        tags_code=tags_code(properties.get(TAGS)),
        keys=index_keys(properties),
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_wall_ms=message.born_wall_ms,
        born_host=pack(*message.born_host),
        reconsume_times=message.reconsume_times + 1,
    )
