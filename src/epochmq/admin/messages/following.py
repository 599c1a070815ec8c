"""Reading a topic without a group: from a position to its end, and then on as messages come."""

import asyncio
import logging
from collections.abc import Callable

from epochmq.admin.messages.merging import PulledSpan, merged
from epochmq.admin.messages.position import PositionKind, StartPosition
from epochmq.base.errors import NotReachable
from epochmq.client.aio import PullConsumer, Sql
from epochmq.model.message import StoredMessage
from epochmq.model.queue import MessageQueue

GROUP = "TOOLS_CONSUMER"
"""A group that every broker has for tools, so that a look around leaves no new group behind."""

HOLD_MS = 10_000
RETRY_S = 1.0
ROUTE_S = 10.0
log = logging.getLogger(__name__)

Take = Callable[[list[StoredMessage]], bool]
"""Given messages; False when no more are wanted."""


async def spans_of(consumer: PullConsumer, topic: str, position: StartPosition) -> list[PulledSpan]:
    """Each queue of `topic` from `position` to where it ends now; `NotFound` without a topic."""
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
    consumer: PullConsumer, spans: list[PulledSpan], expression: str | Sql, take: Take
) -> bool:
    """Everything that is there, in the order stored; False when `take` had enough."""
    async for message in merged(consumer, spans, expression):
        if not take([message]):
            return False
    return True


async def follow(
    consumer: PullConsumer, spans: list[PulledSpan], expression: str | Sql, take: Take
) -> None:
    """Whatever comes after `spans`, for ever or until `take` has enough; new queues as well."""
    enough = asyncio.Event()
    tasks: dict[MessageQueue, asyncio.Task[None]] = {}

    def begin(queue: MessageQueue, offset: int) -> None:
        work = _follow_queue(consumer, queue, offset, expression, take, enough)
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
    take: Take,
    enough: asyncio.Event,
) -> None:
    while not enough.is_set():
        try:
            found = await consumer.pull(queue, offset, expression=expression, hold_ms=HOLD_MS)
        except NotReachable as error:
            # A broker that restarts comes back; whoever follows wants to go on then.
            log.warning("%s; trying again", error)
            await asyncio.sleep(RETRY_S)
            consumer.instance.routes.expire(queue.topic)
            continue
        offset = found.next_offset
        if found.messages and not take(found.messages):
            enough.set()
