"""Sends many messages fast: in batches, each key in its order, with a bounded number waiting."""

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
    """Messages for one queue, or for any; a worker sends what waits in batches."""

    def __init__(self, queue: MessageQueue | None) -> None:
        self.queue = queue
        self.waiting: deque[Outbound] = deque()
        self.wake = asyncio.Event()

    def next_batch(self) -> list[Outbound]:
        """The next batch; delayed messages, which no batch may hold, go singly."""
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
    """Use as `async with Sender(producer, topic) as sender`; leaving waits until all are held."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        on_ack: Callable[[float, int], None] = lambda _began, _count: None,
    ) -> None:
        """`on_ack` gets, for each acknowledgement, when its send began (monotonic seconds) and how
        many messages it had."""
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
        """Queue a message; waits while many wait. Raises what an earlier send ended in."""
        while self._unsent >= WAITING_MAX and self._error is None:
            self._room.clear()
            await self._room.wait()
        self._check()
        self._unsent += 1
        queue_sender = await self._queue_sender(outbound)
        queue_sender.waiting.append(outbound)
        queue_sender.wake.set()

    async def drain(self) -> None:
        """Wait until a broker holds everything."""
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
            # One worker keeps the order of a queue; messages without a key have none to keep.
            for _ in range(FREE_WORKERS if queue is None else 1):
                self._workers.append(asyncio.create_task(self._work(queue_sender)))
        return queue_sender

    async def _queues(self) -> Sequence[MessageQueue]:
        """The topic's queues; a group without a master gets the time to find one."""
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
# Holds a stream to so many a second.


_SLICE_S = 0.005


class SendPace:
    """`await pace.next()` before each message; 0 a second means as fast as it goes."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._began = time.monotonic()
        self._count = 0

    async def next(self) -> None:
        """Wait until it is this message's turn; very short sleeps are left out."""
        if not self._per_second:
            return
        due = self._began + self._count / self._per_second
        self._count += 1
        late = time.monotonic() - due
        if late < -_SLICE_S or (late < 0 and self._count < self._per_second * _SLICE_S):
            await asyncio.sleep(-late)
