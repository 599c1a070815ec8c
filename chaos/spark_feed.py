"""Messages that keep coming while everything else dies."""

import asyncio
import random
import threading
from types import TracebackType
from typing import Self

from epochmq.base.errors import EpochError
from epochmq.client.aio import Producer, PullConsumer
from epochmq.client.core.send_policy import SendStatus
from epochmq.model.message import Message

BATCH = 20
EVERY_S = 0.1
AGAIN_S = 0.05
TIMEOUT_MS = 3_000
BODY = b"x" * 200
PULL_COUNT = 1_000
BROKER = {
    "minInSyncReplicas": 2,
    # `held` pulls everything.
    "maxTransferCountOnMessageInMemory": 1_000,
    "maxTransferBytesOnMessageInMemory": 1 << 20,
}
"""Options of the brokers of a drill."""

Place = tuple[int, int]
"""Queue id and queue offset."""


class Feed:
    """Sends in a thread of its own, each message once: a second try may be a second message."""

    def __init__(self, namesrv: str, topic: str, seed: int) -> None:
        self.acked: set[str] = set()
        """Ids of messages that a broker acknowledged."""
        self.refused = 0
        """Batches of which nobody knows whether they are held."""
        self._namesrv = namesrv
        self._topic = topic
        self._chance = random.Random(f"{seed}:feed")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    async def _run(self) -> None:
        async with Producer(self._namesrv, "feed", retries=0, avoid_faulty=False) as producer:
            while not self._stop.is_set():
                is_held = await self._send(producer)
                await asyncio.sleep(EVERY_S if is_held else AGAIN_S)

    async def _send(self, producer: Producer) -> bool:
        batch = [Message(self._topic, BODY) for _ in range(BATCH)]
        try:
            queue = self._chance.choice(await producer.queues(self._topic))
            sent = await producer.send_batch(batch, queue=queue, timeout_ms=TIMEOUT_MS)
        except EpochError:
            self.refused += 1
            return False
        if sent.status is not SendStatus.SEND_OK:
            self.refused += 1
            return False
        self.acked.update(sent.msg_id.split(","))
        return True


async def held(namesrv: str, topic: str) -> dict[Place, str]:
    """The id at each place of the topic, pulled as any consumer does."""
    found: dict[Place, str] = {}
    async with PullConsumer(namesrv, "spark-kill") as consumer:
        for queue in await consumer.queues(topic):
            at, end = 0, await consumer.max_offset(queue)
            while at < end:
                result = await consumer.pull(queue, at, count=PULL_COUNT)
                for message in result.messages:
                    found[queue.queue_id, message.queue_offset] = message.msg_id
                assert result.next_offset > at, (queue, at, result.status)
                at = result.next_offset
    return found
