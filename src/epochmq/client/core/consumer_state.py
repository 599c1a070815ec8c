"""What a consumer keeps of its queues: pulled messages, positions, offsets, assignment."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from epochmq.base.errors import PeerError
from epochmq.model.allocate import Strategy
from epochmq.model.crc import crc32
from epochmq.model.message import StoredMessage
from epochmq.model.topic import MessageQueue
from epochmq.wire.codes import ResponseCode

# Process queue -------------------------------------------------------------------------------
# Messages of one queue that were pulled and are not done yet.
#
# The committed offset is the smallest one not done, or the one behind the last, so a crash repeats
# messages but never skips one. `taken` messages are in a listener's hands.


COUNT_MAX = 1_000
BYTES_MAX = 100 * 1024 * 1024
SPAN_MAX = 2_000
LOCK_LIFE_MS = 30_000


class ProcessQueue:
    """The window of one assigned queue; `dropped` once the queue went to another member."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.dropped = False
        self._bytes_max = bytes_max
        self.locked_at_ms: int | None = None
        self._waiting: deque[StoredMessage] = deque()
        self._undone: dict[int, StoredMessage] = {}
        self._bytes = 0
        self._next_offset: int | None = None

    def put(self, messages: Iterable[StoredMessage], next_offset: int) -> None:
        """Take in pulled `messages`; `next_offset` is where the next pull begins."""
        for message in messages:
            if message.queue_offset in self._undone:
                continue
            self._undone[message.queue_offset] = message
            self._waiting.append(message)
            self._bytes += message.size
        self._next_offset = next_offset

    def next_messages(self, count: int) -> list[StoredMessage]:
        """Up to `count` messages in the order of the log, for a listener."""
        return [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]

    def done(self, messages: Sequence[StoredMessage]) -> None:
        """`messages` need not be seen again."""
        for message in messages:
            if self._undone.pop(message.queue_offset, None) is not None:
                self._bytes -= message.size

    def put_back(self, messages: Sequence[StoredMessage]) -> None:
        """`messages` were taken and failed: they come first again, in their order."""
        alive = [m for m in messages if m.queue_offset in self._undone]
        self._waiting.extendleft(reversed(alive))

    @property
    def commit_offset(self) -> int | None:
        """What may be committed now; None before the first pull was answered."""
        return next(iter(self._undone), self._next_offset)

    @property
    def has_waiting(self) -> bool:
        """Whether `next_messages` would give something."""
        return bool(self._waiting)

    def is_full(self) -> bool:
        """Flow control: too many messages, too many bytes, or one slow message far behind."""
        if len(self._undone) > COUNT_MAX or self._bytes >= self._bytes_max:
            return True
        first = next(iter(self._undone), None)
        return first is not None and (self._next_offset or first) - first > SPAN_MAX

    def is_locked(self, now: int) -> bool:
        """Ordered consumption: whether the broker's lock is held and fresh."""
        return self.locked_at_ms is not None and now - self.locked_at_ms < LOCK_LIFE_MS

    def was_locked_since(self, wanted_ms: int) -> bool:
        """Whether the last lock was asked for after that: then nobody else had it meanwhile."""
        return self.locked_at_ms is not None and self.locked_at_ms > wanted_ms

    def statistics(self) -> dict[str, int]:
        """Counts for the running info that an operator may ask for."""
        return {
            "cachedMsgCount": len(self._undone),
            "cachedMsgSizeInMiB": self._bytes >> 20,
            "cachedMsgMinOffset": next(iter(self._undone), 0),
        }


# Pull state ----------------------------------------------------------------------------------
# What a consumer does after a pull was answered.


RETRY_AFTER_ERROR_MS = 200
"""The first pause; it doubles up to Java's 3 s. Who lost a broker finds the one that stands in for
it, or the next master, within a second."""
FULL_PAUSE_MS = 50


class PullStatus(Enum):
    """The outcome of a pull; the names are RocketMQ's."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


_STATUS = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MSG,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MSG,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


def status_of(code: int) -> PullStatus | None:
    """The status behind a response code; None for an error."""
    return _STATUS.get(code)  # type: ignore[call-overload, no-any-return]


class StartPoint(Enum):
    """Where a group without a committed offset begins."""

    FIRST = "CONSUME_FROM_FIRST_OFFSET"
    LAST = "CONSUME_FROM_LAST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


@dataclass(slots=True)
class Cursor:
    """Where the next pull of one queue begins and which replica it goes to."""

    next_offset: int
    broker_id: int = 0

    def found(self, next_offset: int, suggested_broker_id: int) -> None:
        """The pull was answered; go on behind it, at the replica that the broker suggests."""
        self.next_offset = next_offset
        self.broker_id = suggested_broker_id


# Offset table --------------------------------------------------------------------------------
# Offsets that this member wants committed, and which of them the broker does not have yet.


class OffsetTable:
    """Only rises for a queue unless it is set on purpose (INV-29)."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}
        self._unsaved: dict[MessageQueue, int] = {}

    def advance(self, queue: MessageQueue, offset: int) -> None:
        """Consumption reached `offset`; one that is behind is ignored."""
        if offset > self._offsets.get(queue, -1):
            self.reset(queue, offset)

    def reset(self, queue: MessageQueue, offset: int) -> None:
        """An operator or the start rule put the queue at `offset`."""
        self._offsets[queue] = offset
        self._unsaved[queue] = offset

    def loaded(self, queue: MessageQueue, offset: int) -> None:
        """The broker holds `offset` for the queue."""
        self._offsets[queue] = offset

    def get(self, queue: MessageQueue) -> int | None:
        """The newest offset known of `queue`."""
        return self._offsets.get(queue)

    def pop_unsaved(self, queue: MessageQueue | None = None) -> dict[MessageQueue, int]:
        """What must be sent to the brokers now; of one queue, or of all."""
        if queue is None:
            taken, self._unsaved = self._unsaved, {}
            return taken
        offset = self._unsaved.pop(queue, None)
        return {} if offset is None else {queue: offset}

    def not_saved(self, queue: MessageQueue, offset: int) -> None:
        """Sending failed: try again with the next round, unless it moved on meanwhile."""
        self._unsaved.setdefault(queue, offset)

    def drop(self, queue: MessageQueue) -> None:
        """The queue went to another member."""
        self._offsets.pop(queue, None)
        self._unsaved.pop(queue, None)

    def snapshot(self) -> dict[MessageQueue, int]:
        """All offsets, for status requests."""
        return dict(self._offsets)


# Assignment ----------------------------------------------------------------------------------
# Which queues this member owns: the difference between what it has and what it should have.


@dataclass(frozen=True, slots=True)
class Change:
    """Queues to take and queues to give back, both sorted."""

    take: tuple[MessageQueue, ...]
    give: tuple[MessageQueue, ...]


def wanted(
    strategy: Strategy, queues: Sequence[MessageQueue], members: Sequence[str], own_id: str
) -> tuple[MessageQueue, ...]:
    """The share of `own_id`; every member sorts the same way, so shares never overlap.

    A member that the broker does not list yet owns nothing.
    """
    if own_id not in members:
        return ()
    return tuple(strategy(own_id, sorted(queues), sorted(members)))


def difference(owned: Sequence[MessageQueue], share: Sequence[MessageQueue]) -> Change:
    """What changes when `owned` becomes `share`."""
    before, after = set(owned), set(share)
    return Change(tuple(sorted(after - before)), tuple(sorted(before - after)))


# Body check ----------------------------------------------------------------------------------
# Compares what brokers hand out with the checksum that was stored with it.


class CorruptMessage(PeerError):
    """A broker handed out a message whose body does not have its checksum; it is not delivered."""

    def __init__(self, message: StoredMessage, broker_name: str, broker_id: int) -> None:
        super().__init__(
            f"message {message.queue_offset} of {message.topic}, queue {message.queue_id} of"
            f" {broker_name} (replica {broker_id}), is damaged: its body does not have its checksum"
            f" {message.body_crc}; see whether another replica has it (epochmq cluster show)"
        )
        self.message = message
        self.broker_id = broker_id


def is_sound(stored: StoredMessage) -> bool:
    """Whether the body, as it is stored (compressed perhaps), has its checksum."""
    return crc32(stored.body) == stored.body_crc


def sound_front(stored: Sequence[StoredMessage]) -> Sequence[StoredMessage]:
    """The records before the first damaged one; all of them, mostly."""
    for at, record in enumerate(stored):
        if not is_sound(record):
            return stored[:at]
    return stored
