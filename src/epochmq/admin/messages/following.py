"""Reads a topic without a consumer group: from a position to its end, then new messages."""

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence

from epochmq.admin.messages.position import PositionKind, StartPosition
from epochmq.base.errors import NotReachable
from epochmq.client.aio import PullConsumer, Sql
from epochmq.model.message import StoredMessage
from epochmq.model.topic import MessageQueue

# Merging -------------------------------------------------------------------------------------
# Merges the messages of several queues, up to a fixed end, into one stream by store time.


AHEAD_MAX = 512
PULL_COUNT = 256


class PulledSpan:
    """The messages of one queue in [`next_offset`, `end`), which a task prefetches."""

    def __init__(self, queue: MessageQueue, next_offset: int, end: int) -> None:
        self.queue = queue
        self.next_offset = next_offset
        self.end = end
        self._ahead: deque[StoredMessage] = deque()
        self._changed = asyncio.Event()
        self._error: Exception | None = None

    async def fill(self, consumer: PullConsumer, expression: str | Sql) -> None:
        """Pull messages until the end; `next` raises its errors."""
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
        # A queue that was truncated meanwhile has no more messages: stop asking.
        moved = found.next_offset > self.next_offset
        self.next_offset = found.next_offset if moved else self.end

    async def next(self) -> StoredMessage | None:
        """Return the next message, or None at the end."""
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
) -> AsyncGenerator[StoredMessage]:
    """Yield all messages of `spans` by store time."""
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


# Following -----------------------------------------------------------------------------------


GROUP = "TOOLS_CONSUMER"
"""A group for tools that every broker has, so that reading leaves no new group behind."""

HOLD_MS = 10_000
RETRY_S = 1.0
ROUTE_S = 10.0
log = logging.getLogger(__name__)

OnMessages = Callable[[list[StoredMessage]], bool]
"""Receives messages; returns False when no more are wanted."""


async def spans_of(consumer: PullConsumer, topic: str, position: StartPosition) -> list[PulledSpan]:
    """Return each queue of `topic` from `position` to its current end.

    Raises `NotFound` when the topic does not exist.
    """
    queues = await consumer.queues(topic)
    return list(await asyncio.gather(*(_span(consumer, queue, position) for queue in queues)))


async def _span(consumer: PullConsumer, queue: MessageQueue, position: StartPosition) -> PulledSpan:
    low = await consumer.min_offset(queue)
    high = await consumer.max_offset(queue)
    if position.kind is PositionKind.TIME:
        begin = await consumer.offset_at(queue, position.value)
    else:
        begin = {
            PositionKind.FIRST: low,
            PositionKind.LAST: high,
            PositionKind.OFFSET: position.value,
            PositionKind.BACK: high - position.value,
        }[position.kind]
    return PulledSpan(queue, max(begin, low), high)


async def read_to_end(
    consumer: PullConsumer, spans: list[PulledSpan], expression: str | Sql, on_messages: OnMessages
) -> bool:
    """Read up to the ends, by store time; returns False when `on_messages` wants no more."""
    async for message in merged(consumer, spans, expression):
        if not on_messages([message]):
            return False
    return True


async def follow(
    consumer: PullConsumer, spans: list[PulledSpan], expression: str | Sql, on_messages: OnMessages
) -> None:
    """Read messages after `spans`, also of new queues, until `on_messages` wants no more."""
    enough = asyncio.Event()
    tasks: dict[MessageQueue, asyncio.Task[None]] = {}

    def begin(queue: MessageQueue, offset: int) -> None:
        work = _follow_queue(consumer, queue, offset, expression, on_messages, enough)
        tasks[queue] = asyncio.create_task(work)
        tasks[queue].add_done_callback(lambda done: enough.set())

    for span in spans:
        begin(span.queue, max(span.next_offset, span.end))
    try:
        while not enough.is_set():
            try:
                async with asyncio.timeout(ROUTE_S):
                    await enough.wait()
            except TimeoutError:
                for queue in await _queues(consumer, spans[0].queue.topic if spans else ""):
                    if queue not in tasks:
                        begin(queue, 0)
    finally:
        for task in tasks.values():
            task.cancel()
        ended = await asyncio.gather(*tasks.values(), return_exceptions=True)
    for result in ended:
        if isinstance(result, Exception):
            raise result


async def _queues(consumer: PullConsumer, topic: str) -> tuple[MessageQueue, ...]:
    try:
        return await consumer.queues(topic)
    except NotReachable:
        return ()


async def _follow_queue(
    consumer: PullConsumer,
    queue: MessageQueue,
    offset: int,
    expression: str | Sql,
    on_messages: OnMessages,
    enough: asyncio.Event,
) -> None:
    while not enough.is_set():
        try:
            found = await consumer.pull(queue, offset, expression=expression, hold_ms=HOLD_MS)
        except NotReachable as error:
            # A broker that restarts will return; following continues then.
            log.warning("%(error)s; trying again", {"error": error})
            await asyncio.sleep(RETRY_S)
            consumer.instance.routes.expire(queue.topic)
            continue
        offset = found.next_offset
        if found.messages and not on_messages(found.messages):
            enough.set()
