"""Which queue a message goes to: round robin around trouble, or one queue for each key."""

from collections.abc import Sequence
from zlib import crc32

from epochmq.base.ports import Rng
from epochmq.client.core.fault import FaultTable
from epochmq.model.queue import MessageQueue


class RoundRobin:
    """Takes queues in turn from a random start."""

    def __init__(self, rng: Rng, fault: FaultTable | None = None) -> None:
        self._next = rng.randrange(1 << 30)
        self._fault = fault

    def select(
        self, queues: Sequence[MessageQueue], now: int, *, avoid: str | None = None
    ) -> MessageQueue:
        """The next queue, off the broker named `avoid` (the last failed try) where there is one."""
        count = len(queues)
        for step in range(count):
            queue = queues[(self._next + step) % count]
            if self._good(queue, now, avoid):
                self._next += step + 1
                return queue
        self._next += 1
        return queues[(self._next - 1) % count]

    def _good(self, queue: MessageQueue, now: int, avoid: str | None) -> bool:
        if queue.broker_name == avoid:
            return False
        return self._fault is None or self._fault.available(queue.broker_name, now)


def by_key(queues: Sequence[MessageQueue], key: str) -> MessageQueue:
    """The queue of `key`: the same for every process, as long as the queues stay the same."""
    return queues[crc32(key.encode()) % len(queues)]
