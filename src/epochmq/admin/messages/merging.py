"""What several queues hold up to a fixed end, as one stream in the order in which it was stored."""

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncIterator, Sequence

from epochmq.client.aio import PullConsumer, Sql
from epochmq.model.message import StoredMessage
from epochmq.model.queue import MessageQueue

AHEAD_MAX = 512
PULL_COUNT = 256


class PulledSpan:
    """The messages of one queue in [`next_offset`, `end`), pulled ahead by a task."""

    def __init__(self, queue: MessageQueue, next_offset: int, end: int) -> None:
        self.queue = queue
        self.next_offset = next_offset
        self.end = end
        self._ahead: deque[StoredMessage] = deque()
        self._changed = asyncio.Event()
        self._error: Exception | None = None

    async def fill(self, consumer: PullConsumer, expression: str | Sql) -> None:
        """Pull until the end; an error is raised by `next`."""
        try:
            while self.next_offset < self.end:
                while len(self._ahead) >= AHEAD_MAX:
                    await self._wait()
                await self._pull(consumer, expression)
                self._changed.set()
        except Exception as error:
            self._error = error
        self._changed.set()

    async def _pull(self, consumer: PullConsumer, expression: str | Sql) -> None:
        count = min(PULL_COUNT, self.end - self.next_offset)
        found = await consumer.pull(
            self.queue, self.next_offset, count=count, expression=expression
        )
        self._ahead.extend(m for m in found.messages if m.queue_offset < self.end)
        # A queue that was cut meanwhile gives nothing more: no reason to ask for ever.
        moved = found.next_offset > self.next_offset
        self.next_offset = found.next_offset if moved else self.end

    async def next(self) -> StoredMessage | None:
        """The next message, or None at the end."""
        while not self._ahead:
            if self._error is not None:
                raise self._error
            if self.next_offset >= self.end:
                return None
            await self._wait()
        self._changed.set()
        return self._ahead.popleft()

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()


async def merged(
    consumer: PullConsumer, spans: Sequence[PulledSpan], expression: str | Sql
) -> AsyncIterator[StoredMessage]:
    """All messages of `spans`, the one stored first coming first."""
    tasks = [asyncio.create_task(span.fill(consumer, expression)) for span in spans]
    try:
        heads: list[tuple[int, int, int, StoredMessage]] = []
        for index, span in enumerate(spans):
            await _push(heads, index, span)
        while heads:
            *_, index, message = heapq.heappop(heads)
            yield message
            await _push(heads, index, spans[index])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _push(
    heads: list[tuple[int, int, int, StoredMessage]], index: int, span: PulledSpan
) -> None:
    message = await span.next()
    if message is not None:
        heapq.heappush(heads, (message.store_wall_ms, message.offset, index, message))
