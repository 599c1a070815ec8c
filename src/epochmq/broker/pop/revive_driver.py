"""POP revive: reads the revive queues and writes unacknowledged messages into retry topics.

This is the driver of `revive.Revive` (RocketMQ's PopReviveService). It works only while
`Serving.delivers` is true: at a master or at an acting master. One tick reads a limited number of
records and delivers a limited number of check points. The progress of a revive queue is stored as
the consumer offset of `CID_RMQ_SYS_REVIVE_GROUP`. As in RocketMQ, this is the offset of the last
finished record, not of the next one.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from epochmq.broker.pop.revive_counts import ACK, CHECK_POINT, ReviveCounts
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
# Callbacks that wait until the log is readable up to an offset: replicated, and synced if the
# options ask for it.
#
# The progress of POP follows the confirmed end of the log, not the appended end. Consumer offsets
# are replicated separately from the log, and an offset must never reach a replica before the
# records that it depends on.


class Confirmed:
    """Callbacks that run when the log is readable up to a log offset.

    Callers pass rising offsets, so the callbacks run in the order in which they were added.
    """

    def __init__(self, readable: Callable[[], int]) -> None:
        self._readable = readable
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def when(self, end: int, call: Callable[[], None]) -> None:
        """Run `call` once the log is readable up to `end` (log offset), at once if it already is.

        When earlier callbacks wait, `call` waits behind them.
        """
        if not self._waiting and end <= self._readable():
            call()
            return
        self._waiting.append((end, call))

    def run_due(self) -> None:
        """Run the callbacks whose offset is readable now."""
        waiting = self._waiting
        if not waiting:
            return
        readable = self._readable()
        while waiting and waiting[0][0] <= readable:
            waiting.popleft()[1]()

    def clear(self) -> None:
        """Drop all waiting callbacks without running them, because the role has changed."""
        self._waiting.clear()


# Revive driver -------------------------------------------------------------------------------


READ_COUNT = 1024
READ_BYTES = 1024 * 1024
DUE_PER_TICK = 64
DAMAGED_AGAIN_MS = 1000
"""Pause (ms) before a revive queue is read again when its next record is damaged."""
GIVEN_MAX = 10_000
"""Limit of the check points whose due time is remembered from their write until they are read."""

log = logging.getLogger(__name__)


class _Lost(Enum):
    """Why a message cannot be delivered."""

    GONE = auto()
    """The message was deleted, by retention or with its topic: nothing is left to deliver."""
    HERE = auto()
    """The message should exist but cannot be read now: the delivery is tried again."""


Came = Callable[[Mapping[int, StoredMessage | None] | None], None]
"""Callback that receives messages by queue offset.

The value None means that the message is gone. A missing key means that nothing is known about that
offset. None instead of the mapping means that no broker answered.
"""


class FetchFromGroup(Protocol):
    """Reads the messages of a check point from the broker group that stores them."""

    def __call__(self, found: CheckPoint, offsets: Sequence[int], came: Came) -> None: ...


def _nobody(found: CheckPoint, offsets: Sequence[int], came: Came) -> None:
    came(None)


class ReviveStore(Protocol):
    """The part of the store that the revive driver uses."""

    def read_queue(
        self, topic: str, queue_id: int, offset: int, max_count: int, max_bytes: int
    ) -> ReadResult: ...

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]: ...


class Offsets(Protocol):
    """The part of the consumer offsets that the revive driver uses."""

    def commit(self, group: str, topic: str, queue_id: int, offset: int, wall: int = 0) -> None: ...

    def get(self, group: str, topic: str, queue_id: int) -> int: ...


class ReviveTopics(Protocol):
    """The part of the topic table that the revive driver uses."""

    def get(self, topic: str) -> TopicConfig | None: ...

    def ensure(self, topic: str, queues: int, perm: int, wall: int) -> TopicConfig: ...


class ReviveDriver:
    """Drives all revive queues of one broker: reads them, delivers, and saves their progress."""

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
        self.counts = ReviveCounts()
        self._given: OrderedDict[Key, int] = OrderedDict()
        self._damaged: dict[int, int] = {}
        """Monotonic time (ms) of the next read of each queue whose next record is damaged."""
        self._fetch: FetchFromGroup = _nobody
        """Reads the messages of check points that belong to another broker group."""
        self.retry_v2 = False
        """Whether revived messages go to V2 retry topics (`enableRetryTopicV2`)."""

    def fetch_from(self, fetch: FetchFromGroup) -> None:
        """Use `fetch` to read the messages of check points that belong to another broker group."""
        self._fetch = fetch

    def start(self, count: int) -> None:
        """Start reading `count` revive queues, each at its committed progress."""
        for queue_id in range(count):
            low, high = self._store.queue_bounds(self.topic, queue_id)
            last = self._offsets.get(REVIVE_GROUP, self.topic, queue_id)
            self.queues[queue_id] = Revive(min(max(last + 1, low), high), high)

    def stop(self) -> None:
        """Stop and forget all open check points, because the role has changed."""
        self.queues = {}
        self._given.clear()

    def given(self, key: Key, until_ms: int) -> None:
        """Note that the check point `key`, about to be written, is due at `until_ms` (monotonic).

        The record is read back later, much later when replicas are slow, and the wall clock may
        have been set meanwhile. So the due time is remembered here. At most `GIVEN_MAX` times are
        remembered; the oldest is dropped first.
        """
        self._given[key] = until_ms
        if len(self._given) > GIVEN_MAX:
            self._given.popitem(last=False)

    def __len__(self) -> int:
        return sum(map(len, self.queues.values()))

    def tick(self, now: int, wall: int) -> None:
        """Read new records, deliver the check points that are due, and save the progress."""
        for queue_id, core in self.queues.items():
            caught_up = self.read(queue_id, now, wall)
            if caught_up or len(core) >= limits.POP_CHECK_POINTS_MAX:
                for entry in core.due(now, DUE_PER_TICK):
                    self._deliver(core, entry, now, wall)
            self._copy(core, queue_id, now, wall)
            self._keep(core, queue_id, wall)

    def read(self, queue_id: int, now: int, wall: int) -> bool:
        """Read one limited piece of a revive queue; return whether its end was reached.

        Nothing is read, and False is returned, while `POP_CHECK_POINTS_MAX` check points are open:
        the later records wait in the log. A queue whose next record is damaged counts as read.
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
                    "revive queue %(queue_id)d stood at %(position)d, it holds"
                    " %(min_offset)d..%(max_offset)d",
                    {
                        "queue_id": queue_id,
                        "position": core.position,
                        "min_offset": found.min_offset,
                        "max_offset": found.max_offset,
                    },
                )
                core.position = found.next_offset
            elif found.status is GetStatus.DAMAGED:
                self._damaged[queue_id] = now + DAMAGED_AGAIN_MS
            elif found.status is GetStatus.OFFSET_FOUND_NULL:
                core.position = max(core.position, found.next_offset)
            return True
        for chunk in found.chunks:
            self._read_chunk(core, queue_id, chunk, now, wall)
        core.position = found.next_offset
        return found.next_offset >= found.max_offset

    def next_deadline(self, now: int) -> int | None:
        """Return the monotonic time (ms) of the next tick that has work; None without work."""
        wanted = []
        for queue_id, core in self.queues.items():
            if core.position < self._store.queue_bounds(self.topic, queue_id)[1]:
                wanted.append(max(now, self._damaged.get(queue_id, now)))
            at = core.next_deadline()
            if at is not None:
                wanted.append(at)
        return min(wanted, default=None)

    def count_check_point(self, check_point: CheckPoint, outcome: WriteOutcome) -> None:
        """Count a check point that was to be written."""
        self.counts.count_written(check_point.group, check_point.topic, CHECK_POINT, outcome)

    def behind(self, queue_id: int) -> tuple[int, int]:
        """Return how many records of a revive queue are not finished, and the offset of the first.

        Finished is what no message waits for any more; after a crash reading begins there.
        """
        offset = max(0, self._offsets.get(REVIVE_GROUP, self.topic, queue_id) + 1)
        return max(0, self._store.queue_bounds(self.topic, queue_id)[1] - offset), offset

    def open_check_points(self) -> Iterator[OpenCheckPoint]:
        """Yield the open check points of all revive queues, which may change meanwhile."""
        for core in list(self.queues.values()):
            yield from core.open_check_points()

    def statistics(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for core in self.queues.values():
            for name, value in core.statistics().items():
                total[name] = total.get(name, 0) + value
        return total

    # Reading ---------------------------------------------------------------------------------

    def _read_chunk(
        self, core: Revive, queue_id: int, chunk: memoryview, now: int, wall: int
    ) -> None:
        at = 0
        count, queue = self.counts.read.add, str(queue_id)
        while at < len(chunk):
            size = record.size_at(chunk, at)
            raw = chunk[at : at + size]
            found = records.read(raw, self._broker_name)
            core.position = record.queue_offset_at(raw, 0)
            if isinstance(found, CheckPoint):
                count((found.group, found.topic, CHECK_POINT, queue))
                until_ms = self._given.pop(found.key, None)
                core.add_check_point(found, core.position, now, wall, until_ms)
            elif found is not None:
                count((found.key.group, found.key.topic, ACK, queue))
                core.add_acks(found.key, found.offsets)
            else:
                log.error(
                    "revive queue: record %(position)d cannot be decoded",
                    {"position": core.position},
                )
            at += size

    # Delivering ------------------------------------------------------------------------------

    def _deliver(self, core: Revive, entry: OpenCheckPoint, now: int, wall: int) -> None:
        """Write the unacknowledged messages of a check point into the retry topic.

        The messages may be stored in another broker group: an acting master of that group handed
        the check point over to this broker (RIP-32).
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
            point = entry.check_point
            for bit, outcome in zip(bits, outcomes, strict=True):
                self.counts.count_retried(point.group, point.topic, outcome)
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
        """Return the retry topic of a check point, created if missing; None if it is refused."""
        mark = RETRY_V2 if self.retry_v2 else RETRY_V1
        topic = retry_name(check_point.group, check_point.topic, mark)
        try:
            self._topics.ensure(topic, 1, PERM_READ_WRITE, wall)
        except Refused as error:
            log.error(
                "cannot revive into %(topic)s: %(remark)s", {"topic": topic, "remark": error.remark}
            )
            return None
        return topic

    def _log_offset(self, core: Revive, entry: OpenCheckPoint) -> int:
        """Return the log offset of the check point's last record; `UNLIMITED` if unknown."""
        for queue_id, mine in self.queues.items():
            if mine is core:
                found = self._store.read_queue(self.topic, queue_id, entry.last_place, 1, 1)
                if found.count:
                    return record.offset_at(found.chunks[0], 0)
        return UNLIMITED

    def _find(self, check_point: CheckPoint, offset: int, before: int) -> StoredMessage | _Lost:
        """Return the message at queue offset `offset`, or why it cannot be delivered.

        A popped message lies before its check point, so its log offset must be below `before`. A
        topic that was deleted and created again may have no message, or another one, at this queue
        offset (rocketmq#8479).
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
            log.warning(
                "%(topic)s queue %(queue_id)d: message %(offset)d is gone",
                {"topic": topic, "queue_id": check_point.queue_id, "offset": offset},
            )
            return _Lost.GONE
        log.error(
            "%(topic)s queue %(queue_id)d: message %(offset)d cannot be read",
            {"topic": topic, "queue_id": check_point.queue_id, "offset": offset},
        )
        return _Lost.HERE

    # Progress --------------------------------------------------------------------------------

    def _copy(self, core: Revive, queue_id: int, now: int, wall: int) -> None:
        check_point = core.copy(now)
        if check_point is None:
            return
        draft = records.check_point_draft(check_point, self.topic, queue_id, wall)

        def done(outcomes: Sequence[WriteOutcome]) -> None:
            self.count_check_point(check_point, outcomes[0])
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
                log.error(
                    "the progress of revive queue %(queue_id)d is not stored: %(remark)s",
                    {"queue_id": queue_id, "remark": error.remark},
                )


def _again(message: StoredMessage, check_point: CheckPoint, topic: str) -> Draft:
    """Make the draft for the retry topic; the body stays as it is stored (rocketmq#5402)."""
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
