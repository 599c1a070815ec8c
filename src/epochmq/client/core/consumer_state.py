"""The state of a consumer: pulled messages, offsets, pull positions, assignment of queues."""

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


PULL_COUNT = 64
"""Messages in one pull by default. With bodies of 1 KiB, answers to pulls of 256 no longer fit in
the processor's cache, and cost more CPU a message."""
COUNT_MAX = 1_000
BYTES_MAX = 100 * 1024 * 1024
SPAN_MAX = 2_000
LOCK_LIFE_MS = 30_000


class ProcessQueue:
    """The pulled messages of one queue; `dropped` is True after the member gave the queue up."""

    def __init__(self, bytes_max: int = BYTES_MAX, count_max: int = COUNT_MAX) -> None:
        self.dropped = False
        self._bytes_max = bytes_max
        self._count_max = count_max
        self.locked_at_ms: int | None = None
        self._waiting: deque[StoredMessage] = deque()
        self._undone: dict[int, StoredMessage] = {}
        self._bytes = 0
        self._next_offset: int | None = None

    def put(self, messages: Iterable[StoredMessage], next_offset: int) -> None:
        """Add pulled `messages`; `next_offset` is the offset of the next pull."""
        for message in messages:
            if message.queue_offset in self._undone:
                continue
            self._undone[message.queue_offset] = message
            self._waiting.append(message)
            self._bytes += message.size
        self._next_offset = next_offset

    def next_messages(self, count: int) -> list[StoredMessage]:
        """Remove and return up to `count` waiting messages for a listener, in the order of the
        queue.
        """
        return [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]

    def done(self, messages: Sequence[StoredMessage]) -> None:
        """Mark `messages` as handled."""
        for message in messages:
            if self._undone.pop(message.queue_offset, None) is not None:
                self._bytes -= message.size

    def put_back(self, messages: Sequence[StoredMessage]) -> None:
        """Put `messages` that failed back in front of the waiting ones, in their order."""
        alive = [m for m in messages if m.queue_offset in self._undone]
        self._waiting.extendleft(reversed(alive))

    @property
    def commit_offset(self) -> int | None:
        """The queue offset that may be committed now; None before the first answer to a pull."""
        return next(iter(self._undone), self._next_offset)

    @property
    def has_waiting(self) -> bool:
        """Whether messages wait for a listener."""
        return bool(self._waiting)

    def is_full(self) -> bool:
        """Whether pulls must pause: too many messages, too many bytes, or one old message not
        handled.
        """
        if len(self._undone) >= self._count_max or self._bytes >= self._bytes_max:
            return True
        first = next(iter(self._undone), None)
        return first is not None and (self._next_offset or first) - first > SPAN_MAX

    def is_locked(self, now: int) -> bool:
        """Whether the broker's lock was renewed less than `LOCK_LIFE_MS` ago."""
        return self.locked_at_ms is not None and now - self.locked_at_ms < LOCK_LIFE_MS

    def was_locked_since(self, wanted_ms: int) -> bool:
        """Whether the last successful lock request was sent after `wanted_ms` (monotonic)."""
        return self.locked_at_ms is not None and self.locked_at_ms > wanted_ms

    def statistics(self) -> dict[str, int]:
        """Return counts for the running info that an operator may ask for."""
        return {
            "cachedMsgCount": len(self._undone),
            "cachedMsgSizeInMiB": self._bytes >> 20,
            "cachedMsgMinOffset": next(iter(self._undone), 0),
        }


# Pull state ----------------------------------------------------------------------------------
# What a consumer does after a pull was answered.


FULL_PAUSE_MS = 50


class PullStatus(Enum):
    """The outcome of a pull, by RocketMQ's names."""

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
    """Return the status for a response code; None for an error."""
    return _STATUS.get(code)  # type: ignore[call-overload, no-any-return]


class StartPoint(Enum):
    """Where a group without committed offsets begins."""

    FIRST = "CONSUME_FROM_FIRST_OFFSET"
    LAST = "CONSUME_FROM_LAST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


@dataclass(slots=True)
class Cursor:
    """The queue offset of the next pull, and the replica to ask."""

    next_offset: int
    broker_id: int = 0

    def found(self, next_offset: int, suggested_broker_id: int) -> None:
        """Set the position of the next pull after an answer; the broker suggests the replica."""
        self.next_offset = next_offset
        self.broker_id = suggested_broker_id


# Offset table --------------------------------------------------------------------------------
# Offsets that this member wants committed, and which of them the broker does not have yet.


class OffsetTable:
    """Offsets by queue. An offset only rises, except by `reset` (INV-29)."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}
        self._unsaved: dict[MessageQueue, int] = {}

    def advance(self, queue: MessageQueue, offset: int) -> None:
        """Set the offset of `queue`; a smaller offset than the present one is ignored."""
        if offset > self._offsets.get(queue, -1):
            self.reset(queue, offset)

    def reset(self, queue: MessageQueue, offset: int) -> None:
        """Set the offset of `queue` to any value, after an operator's reset."""
        self._offsets[queue] = offset
        self._unsaved[queue] = offset

    def loaded(self, queue: MessageQueue, offset: int) -> None:
        """Set the offset that the broker holds for `queue`; it needs no commit."""
        self._offsets[queue] = offset

    def get(self, queue: MessageQueue) -> int | None:
        """Return the newest offset of `queue`, or None."""
        return self._offsets.get(queue)

    def pop_unsaved(self, queue: MessageQueue | None = None) -> dict[MessageQueue, int]:
        """Remove and return the offsets that must be committed now, of one queue or of all."""
        if queue is None:
            taken, self._unsaved = self._unsaved, {}
            return taken
        offset = self._unsaved.pop(queue, None)
        return {} if offset is None else {queue: offset}

    def not_saved(self, queue: MessageQueue, offset: int) -> None:
        """Note that a commit failed; it is repeated in the next round, unless a newer
        offset waits.
        """
        self._unsaved.setdefault(queue, offset)

    def drop(self, queue: MessageQueue) -> None:
        """Forget `queue`, which another member owns now."""
        self._offsets.pop(queue, None)
        self._unsaved.pop(queue, None)

    def snapshot(self) -> dict[MessageQueue, int]:
        """Return a copy of all offsets."""
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
    """Return the queues that the strategy allocates to `own_id`; none if it is not in `members`.

    Every member sorts queues and members in the same way, so shares do not overlap.
    """
    if own_id not in members:
        return ()
    return tuple(strategy(own_id, sorted(queues), sorted(members)))


def difference(owned: Sequence[MessageQueue], share: Sequence[MessageQueue]) -> Change:
    """Return the queues to take and to give back, to get from `owned` to `share`."""
    before, after = set(owned), set(share)
    return Change(tuple(sorted(after - before)), tuple(sorted(before - after)))


# Body check ----------------------------------------------------------------------------------
# Compares what brokers hand out with the checksum that was stored with it.


class CorruptMessage(PeerError):
    """A message whose body does not match its checksum; it is not delivered.

    Attributes:
        message: the damaged message.
        broker_id: the replica that sent it.
    """

    def __init__(self, message: StoredMessage, broker_name: str, broker_id: int) -> None:
        super().__init__(
            f"message {message.queue_offset} of {message.topic}, queue {message.queue_id} of"
            f" {broker_name} (replica {broker_id}), is damaged: its body does not have its checksum"
            f" {message.body_crc}; see whether another replica has it (epochmq cluster show)"
        )
        self.message = message
        self.broker_id = broker_id


def is_sound(stored: StoredMessage) -> bool:
    """Whether the body, as it is stored (maybe compressed), matches its checksum."""
    return crc32(stored.body) == stored.body_crc


def sound_front(stored: Sequence[StoredMessage]) -> Sequence[StoredMessage]:
    """Return the records before the first damaged one."""
    for at, record in enumerate(stored):
        if not is_sound(record):
            return stored[:at]
    return stored
