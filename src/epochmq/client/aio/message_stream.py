"""Messages of a consumer, one at a time, for `async for`."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Self

from epochmq.base.errors import UsageError
from epochmq.client.aio.listening import ConsumeResult, UserListener
from epochmq.model.message import StoredMessage


@dataclass(eq=False, slots=True)
class _Offer:
    """The messages of one listener call, and its result."""

    messages: deque[StoredMessage]
    result: asyncio.Future[ConsumeResult]
    unfinished: int


class MessageSource:
    """The listener of a consumer that is iterated; a call waits until its messages are handled."""

    def __init__(self) -> None:
        self._batches: asyncio.Queue[_Offer | None] = asyncio.Queue()
        self._open: set[_Offer] = set()
        self.is_ended: bool = False

    async def listen(self, messages: list[StoredMessage]) -> ConsumeResult:
        """Hand messages to the iterators; return when all of them are handled."""
        future: asyncio.Future[ConsumeResult] = asyncio.get_running_loop().create_future()
        batch = _Offer(deque(messages), future, len(messages))
        self._open.add(batch)
        self._batches.put_nowait(batch)
        try:
            return await future
        finally:
            self._open.discard(batch)

    async def next_batch(self) -> _Offer | None:
        """Return the next batch with a message to hand out; None when the consumer is closed."""
        while not self.is_ended:
            batch = await self._batches.get()
            if batch is not None and not batch.result.done():
                return batch
        self._batches.put_nowait(None)  # for the other iterators
        return None

    def give_back(self, batch: _Offer) -> None:
        """Let other iterators have the rest of a batch."""
        self._batches.put_nowait(batch)

    def end(self) -> None:
        """End all iterators: what they did not finish is delivered again."""
        self.is_ended = True
        for batch in list(self._open):
            if not batch.result.done():
                batch.result.set_result(ConsumeResult.LATER)
        self._batches.put_nowait(None)


class MessageStream:
    """An iterator over the messages of a consumer.

    A message is handled when the next one is asked for. The one that was handed out last before
    `close`, or before the consumer is closed, is delivered again.
    """

    def __init__(self, source: MessageSource) -> None:
        self._source = source
        self._batch: _Offer | None = None
        """The batch of the message that was handed out last."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StoredMessage:
        self._finish()
        batch = await self._source.next_batch()
        if batch is None:
            raise StopAsyncIteration
        message = batch.messages.popleft()
        if batch.messages:
            self._source.give_back(batch)
        self._batch = batch
        return message

    def close(self) -> None:
        """Let the message that was handed out last be delivered again."""
        batch, self._batch = self._batch, None
        if batch is not None and not batch.result.done():
            batch.result.set_result(ConsumeResult.LATER)

    def _finish(self) -> None:
        """Note that the message handed out last is handled."""
        batch, self._batch = self._batch, None
        if batch is None:
            return
        batch.unfinished -= 1
        if not batch.unfinished and not batch.result.done():
            batch.result.set_result(ConsumeResult.SUCCESS)


class IteratedListener:
    """Lets an application iterate over messages, in place of a listener."""

    def __init__(self, listener: UserListener) -> None:
        self._listener = listener
        self._source: MessageSource | None = None
        """Where iterators get messages from; None without iterators."""

    def messages(self, start: Callable[[], Awaitable[None]]) -> AsyncGenerator[StoredMessage, None]:
        """Return an iterator, which starts the consumer by `start`; several share the messages.

        Raises:
            UsageError: a listener is set.
        """
        if self._source is None:
            if self._listener.function is not None:
                raise UsageError("this consumer has a listener, so it cannot be iterated as well")
            self._source = MessageSource()
            self._listener.function = self._source.listen
        return _messages(self._source, start)

    def end(self) -> bool:
        """End all iterators, as the consumer is closed; return whether there were any."""
        if self._source is None:
            return False
        self._source.end()
        return True


async def _messages(
    source: MessageSource, start: Callable[[], Awaitable[None]]
) -> AsyncGenerator[StoredMessage, None]:
    await start()
    stream = MessageStream(source)
    try:
        async for message in stream:
            yield message
    finally:
        stream.close()


async def next_message(messages: AsyncGenerator[StoredMessage, None]) -> StoredMessage | None:
    """Return the next message; None at the end. For callers on other threads."""
    return await anext(messages, None)


async def close_messages(messages: AsyncGenerator[StoredMessage, None]) -> None:
    """End an iterator before its end. For callers on other threads."""
    await messages.aclose()
