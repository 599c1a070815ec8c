"""Offset resets that a client was told of and does not follow yet.

RocketMQ's clients wait 10 s after PULL_OFFSET_MOVED before they read from the new offset. Every 5 s
they commit the offset from memory, which is still the old one. Java's client then commits the new
offset. The Go client forgets it when two queues end their wait at the same moment (version 2.1.2,
`remoteBrokerOffsetStore.persist` deletes the other queues), asks the broker, and reads on from the
old offset: the reset had no effect. So commits beyond a reset do not count until a pull begins
there, or for `HOLD_MS`.
"""

HOLD_MS = 60_000
"""How long a delivered reset hides larger offsets: the wait, a rebalance, and a slow machine."""

_Queue = tuple[str, str, int]


class DeliveredResets:
    """The delivered resets by group, topic and queue id; each ends after `HOLD_MS` at the latest.

    It is false while it is empty, so that the usual pull and commit ask nothing more.
    """

    def __init__(self) -> None:
        self._resets: dict[_Queue, tuple[int, int]] = {}
        """(offset, end in ms, monotonic), the oldest first."""

    def __len__(self) -> int:
        return len(self._resets)

    def add(self, group: str, topic: str, queue_id: int, offset: int, now: int) -> None:
        """Note that a client was told to read from `offset` at `now` (ms, monotonic)."""
        queue = (group, topic, queue_id)
        self._resets.pop(queue, None)
        while self._resets and self._resets[first := next(iter(self._resets))][1] <= now:
            del self._resets[first]
        self._resets[queue] = (offset, now + HOLD_MS)

    def read_from(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """End a reset when a pull at `offset` follows it."""
        queue = (group, topic, queue_id)
        if queue in self._resets and offset <= self._resets[queue][0]:
            del self._resets[queue]

    def hides(self, group: str, topic: str, queue_id: int, offset: int, now: int) -> bool:
        """Return whether a commit of `offset` at `now` (ms) is from before a delivered reset."""
        queue = (group, topic, queue_id)
        if queue not in self._resets:
            return False
        reset, end = self._resets[queue]
        if now < end:
            return offset > reset
        del self._resets[queue]
        return False
