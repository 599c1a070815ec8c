"""Messages of one queue that were pulled and are not done yet.

The committed offset is the smallest one not done, or the one behind the last, so a crash repeats
messages but never skips one. `taken` messages are in a listener's hands.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from epochmq.model.message import StoredMessage

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
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is in a listener's hands."""
        return not self._undone

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
