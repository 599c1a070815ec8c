"""Sends many messages in batches, ordered by key, with a bounded number in flight."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from epochmq.admin.messages.lines import Outbound
from epochmq.admin.shared.output import Latencies
from epochmq.base.errors import NotReachable
from epochmq.client.aio import Producer
from epochmq.client.core.send_policy import by_key
from epochmq.model import property_names as names
from epochmq.model.topic import MessageQueue

BATCH_COUNT = 64
BATCH_BYTES = 512 * 1024
WAITING_MAX = 4_096
FREE_WORKERS = 4
SEND_TIMEOUT_MS = 15_000
_AGAIN_S = 0.05


class _QueueSender:
    """Messages for one queue, or for any; a worker sends them in batches."""

    def __init__(self, queue: MessageQueue | None) -> None:
        self.queue = queue
        self.waiting: deque[Outbound] = deque()
        self.wake = asyncio.Event()

    def next_batch(self) -> list[Outbound]:
        """Return the next batch; delayed messages, which cannot be in a batch, are sent singly."""
        batch = [self.waiting.popleft()]
        room = BATCH_BYTES - len(batch[0].message.body)
        while self.waiting and len(batch) < BATCH_COUNT and not batch[0].message.is_delayed:
            following = self.waiting[0].message
            room -= len(following.body)
            if following.is_delayed or room < 0:
                break
            batch.append(self.waiting.popleft())
        return batch


class RateSender:
    """Sends messages: `async with RateSender(producer, topic) as sender`; exit waits for all
    acks.
    """

    def __init__(
        self,
        producer: Producer,
        topic: str,
        on_ack: Callable[[float, int], None] = lambda _began, _count: None,
    ) -> None:
        """Create a sender.

        `on_ack` is called for each acknowledgement with the start of its send (monotonic seconds)
        and its number of messages.
        """
        self.sent = 0
        self.sent_bytes = 0
        self.latencies = Latencies()
        self._on_ack = on_ack
        self._producer = producer
        self._topic = topic
        self._queue_senders: dict[MessageQueue | None, _QueueSender] = {}
        self._workers: list[asyncio.Task[None]] = []
        self._unsent = 0
        self._room = asyncio.Event()
        self._error: BaseException | None = None

    async def put(self, outbound: Outbound) -> None:
        """Queue a message; waits while too many are queued. Raises the error of an earlier send."""
        while self._unsent >= WAITING_MAX and self._error is None:
            self._room.clear()
            await self._room.wait()
        self._check()
        self._unsent += 1
        queue_sender = await self._queue_sender(outbound)
        queue_sender.waiting.append(outbound)
        queue_sender.wake.set()

    async def drain(self) -> None:
        """Wait until brokers have acknowledged all messages."""
        while self._unsent and self._error is None:
            self._room.clear()
            await self._room.wait()
        self._check()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                await self.drain()
        finally:
            for worker in self._workers:
                worker.cancel()
            await asyncio.gather(*self._workers, return_exceptions=True)

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    async def _queue_sender(self, outbound: Outbound) -> _QueueSender:
        queue = None
        if outbound.key is not None:
            outbound.message.properties.setdefault(names.SHARDING_KEY, outbound.key)
            queue = by_key(await self._queues(), outbound.key)
        queue_sender = self._queue_senders.get(queue)
        if queue_sender is None:
            queue_sender = self._queue_senders[queue] = _QueueSender(queue)
            # One worker keeps the order of a queue; messages without a key have no order.
            for _ in range(FREE_WORKERS if queue is None else 1):
                self._workers.append(asyncio.create_task(self._work(queue_sender)))
        return queue_sender

    async def _queues(self) -> Sequence[MessageQueue]:
        """Return the topic's queues; waits for groups that have no master."""
        deadline = time.monotonic() + SEND_TIMEOUT_MS / 1_000
        while True:
            try:
                return await self._producer.queues(self._topic)
            except NotReachable:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_AGAIN_S)

    async def _work(self, queue_sender: _QueueSender) -> None:
        while self._error is None:
            if not queue_sender.waiting:
                queue_sender.wake.clear()
                await queue_sender.wake.wait()
                continue
            batch = queue_sender.next_batch()
            try:
                await self._send(batch, queue_sender.queue)
            except Exception as error:
                self._error = error
            finally:
                self._unsent -= len(batch)
                self._room.set()

    async def _send(self, batch: list[Outbound], queue: MessageQueue | None) -> None:
        began = time.monotonic()
        messages = [outbound.message for outbound in batch]
        if len(messages) == 1:
            await self._producer.send(messages[0], queue=queue, timeout_ms=SEND_TIMEOUT_MS)
        else:
            await self._producer.send_batch(messages, queue=queue, timeout_ms=SEND_TIMEOUT_MS)
        self.latencies.add((time.monotonic() - began) * 1_000, len(batch))
        self._on_ack(began, len(batch))
        self.sent += len(batch)
        self.sent_bytes += sum(len(message.body) for message in messages)


# Pace ----------------------------------------------------------------------------------------
# Limits the rate of a stream.


_SLICE_S = 0.005


class SendPace:
    """Limits the rate: `await pace.next()` before each message; 0 per second means no limit."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._began = time.monotonic()
        self._count = 0

    async def next(self) -> None:
        """Wait until the next message is due; very short sleeps are skipped."""
        if not self._per_second:
            return
        due = self._began + self._count / self._per_second
        self._count += 1
        late = time.monotonic() - due
        if late < -_SLICE_S or (late < 0 and self._count < self._per_second * _SLICE_S):
            await asyncio.sleep(-late)
