"""Reads a topic as a member of a consumer group: shared queues, committed offsets."""

import asyncio
from collections.abc import Callable
from typing import Literal

from epochmq.admin.messages.following import GROUP, OnMessages, spans_of
from epochmq.admin.messages.position import LAST, PositionKind, StartPosition
from epochmq.base.errors import UsageError
from epochmq.client.aio import ConsumeResult, PopConsumer, PullConsumer, PushConsumer, Sql
from epochmq.model.message import StoredMessage
from epochmq.model.topic import MessageQueue

_LOOK_S = 0.05


def start_of(position: StartPosition) -> Literal["first", "last"] | int:
    """Return where a group without offsets begins; raises `UsageError` for other positions."""
    if position.kind is PositionKind.FIRST:
        return "first"
    if position.kind is PositionKind.LAST:
        return "last"
    if position.kind is PositionKind.TIME:
        return position.value
    raise UsageError("with --group, --from is first, last or a time; offsets are the group's own")


def pop_start_of(position: StartPosition) -> Literal["first", "last"]:
    """Return where a group that never popped begins; raises `UsageError` for other positions."""
    if position.kind is PositionKind.FIRST:
        return "first"
    if position.kind is PositionKind.LAST:
        return "last"
    raise UsageError("with --pop, --from is first or last; offsets are the group's own")


async def consume(
    consumer: PushConsumer | PopConsumer,
    topic: str,
    expression: str | Sql,
    on_messages: OnMessages,
    at_end: Callable[[], bool] | None,
) -> None:
    """Pass the group's next messages to `on_messages`, until it wants no more or `at_end` is true.

    Messages are committed after `on_messages` returns; when it raises, they stay for the next run.
    """
    enough = asyncio.Event()
    failed: list[Exception] = []

    def listener(messages: list[StoredMessage]) -> ConsumeResult:
        try:
            if not on_messages(messages):
                consumer.finish()
                enough.set()
        except OSError as error:
            failed.append(error)
            consumer.finish()
            enough.set()
            return ConsumeResult.LATER
        return ConsumeResult.SUCCESS

    consumer.on_message(listener)
    await consumer.subscribe(topic, expression)
    await consumer.start()
    while not enough.is_set() and not (at_end is not None and at_end()):
        try:
            async with asyncio.timeout(_LOOK_S if at_end is not None else None):
                await enough.wait()
        except TimeoutError:
            continue
    if failed:
        raise failed[0]


class QueueEnds:
    """The ends of the queues at the start, for `--exit`."""

    def __init__(self, ends: dict[MessageQueue, int]) -> None:
        self._ends = ends

    @classmethod
    async def of(cls, namesrv: str, topic: str) -> "QueueEnds":
        async with PullConsumer(namesrv, GROUP) as looker:
            return cls({span.queue: span.end for span in await spans_of(looker, topic, LAST)})

    def reached(self, consumer: PushConsumer) -> bool:
        """Return whether all assigned queues were consumed up to those ends."""
        return consumer.is_settled and all(
            progress >= self._ends.get(queue, 0) for queue, progress in consumer.progress().items()
        )
