"""Batches that a producer makes of messages that are sent at the same time (`linger_ms`)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from epochmq.base.errors import copy_of
from epochmq.client.core.send_result import SendResult
from epochmq.model.message import Message
from epochmq.model.names import is_retry_topic
from epochmq.model.property_names import UNIQ_KEY

BYTES_MAX = 256 * 1024
"""Bodies of one batch."""
COUNT_MAX = 1_000
"""Messages of one batch."""

SendAll = Callable[[Sequence[Message]], Awaitable[SendResult]]
"""Sends messages of one topic in one request."""


@dataclass(eq=False, slots=True)
class _OpenBatch:
    """Messages of one topic that wait to be sent together."""

    messages: list[Message] = field(default_factory=list)
    results: list[asyncio.Future[SendResult]] = field(default_factory=list)
    size: int = 0


class Batching:
    """Collects messages for `linger_ms`, or until a batch is full.

    Args:
        send_all: sends a batch.
        spawn: runs a coroutine as a task of the producer.
        linger_ms: how long the first message of a batch waits for others; 0 means until the event
            loop has run what is ready now.
        alone_from_bytes: larger bodies are not for a batch, because batches are not compressed.
    """

    def __init__(
        self,
        send_all: SendAll,
        spawn: Callable[..., asyncio.Task[None]],
        linger_ms: float,
        alone_from_bytes: int,
    ) -> None:
        self._send_all = send_all
        self._spawn = spawn
        self._linger_s = linger_ms / 1_000
        self._alone_from_bytes = min(alone_from_bytes, BYTES_MAX)
        self._open: dict[str, _OpenBatch] = {}

    def accepts(self, message: Message) -> bool:
        """Whether the message can be in a batch: it is neither delayed nor large nor a retry."""
        return (
            len(message.body) < self._alone_from_bytes
            and not message.is_delayed
            and not is_retry_topic(message.topic)
        )

    async def send(self, message: Message) -> SendResult:
        """Send a message with others; return its own result. Raises as the send of the batch."""
        batch = self._open.get(message.topic)
        loop = asyncio.get_running_loop()
        if batch is None:
            batch = self._open[message.topic] = _OpenBatch()
            loop.call_later(self._linger_s, self._close, message.topic, batch)
        result: asyncio.Future[SendResult] = loop.create_future()
        batch.messages.append(message)
        batch.results.append(result)
        batch.size += len(message.body)
        if batch.size >= BYTES_MAX or len(batch.messages) >= COUNT_MAX:
            self._close(message.topic, batch)
        return await result

    def _close(self, topic: str, batch: _OpenBatch) -> None:
        """Send a batch, unless that was done because it was full."""
        if self._open.get(topic) is batch:
            del self._open[topic]
            self._spawn(self._send(batch), f"batch of {topic}")

    async def _send(self, batch: _OpenBatch) -> None:
        try:
            result = await self._send_all(batch.messages)
        except BaseException as error:
            for waiter in batch.results:
                if waiter.done():
                    continue
                if isinstance(error, asyncio.CancelledError):
                    waiter.cancel()
                else:
                    waiter.set_exception(copy_of(error))
            if not isinstance(error, Exception):
                raise
            return
        for waiter, own in zip(batch.results, parts(result, len(batch.messages)), strict=True):
            if not waiter.done():
                waiter.set_result(own)


def parts(result: SendResult, count: int) -> list[SendResult]:
    """Return the result of each message of a batch of `count` messages."""
    if count == 1:
        return [result]
    ids = result.msg_id.split(",")
    places = result.offset_msg_id.split(",")
    if len(places) != count:  # a topic that stores a batch as one record has one place
        places = [result.offset_msg_id] * count
    status, queue, first = result.status, result.queue, result.queue_offset
    rest = result.transaction_id, None, result.region_id, result.is_traced
    return [
        SendResult(status, msg_id, place, queue, first + n, *rest)
        for n, (msg_id, place) in enumerate(zip(ids, places, strict=True))
    ]


def identified(message: Message, next_id: Callable[[], str]) -> Message:
    """Return the message with an id; the application's object stays as it is."""
    if UNIQ_KEY in message.properties:
        return message
    return replace(message, properties={**message.properties, UNIQ_KEY: next_id()})
