"""Clients that send all the time and keep book: what was tried, what was acknowledged, when."""

import asyncio
import random
import time
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise

from sim.kernel.oracle import Oracle

from epochmq.base.errors import EpochError, NotReachable
from epochmq.client.aio import Producer
from epochmq.client.core.send_policy import SendStatus
from epochmq.model.message import Message
from epochmq.model.message_id import parse_offset_id
from epochmq.model.topic import MessageQueue

AGAIN_S = 0.01
"""A client that was refused waits so long."""
SEND_TIMEOUT_MS = 1_000
BODY_BYTES_MAX = 2_000


def now_us() -> int:
    """Monotonic microseconds, the same clock for all of a run."""
    return time.monotonic_ns() // 1_000


@dataclass
class Book:
    """What all clients of a run know together."""

    oracle: Oracle = field(default_factory=Oracle)
    acks_us: list[int] = field(default_factory=list)
    """When each acknowledgement arrived, in order."""
    errors: dict[str, int] = field(default_factory=dict)
    next_number: int = 0
    acked: asyncio.Event = field(default_factory=asyncio.Event)

    def take_number(self) -> int:
        """Numbers are the messages' identities."""
        self.next_number += 1
        return self.next_number

    def note_error(self, error: Exception) -> None:
        """Count what clients were told, by its first words."""
        text = str(error)[:60]
        self.errors[text] = self.errors.get(text, 0) + 1

    async def wait_acks(self, count: int) -> None:
        """Until `count` more acknowledgements arrived."""
        wanted = len(self.acks_us) + count
        while len(self.acks_us) < wanted:
            self.acked.clear()
            await self.acked.wait()

    def longest_pause_ms(self, from_us: int, to_us: int) -> float:
        """The longest time without any acknowledgement in a window."""
        return self.longest_pause(from_us, to_us)[0]

    def longest_pause(self, from_us: int, to_us: int) -> tuple[float, float]:
        """The longest time without any acknowledgement in a window, and when in it that began."""
        first = bisect_left(self.acks_us, from_us)
        inside = self.acks_us[first : bisect_left(self.acks_us, to_us)]
        edges = [from_us, *inside, to_us]
        pause, start = max((after - before, before) for before, after in pairwise(edges))
        return pause / 1_000, (start - from_us) / 1_000


class Client:
    """One producer that keeps several sends in flight."""

    def __init__(self, namesrv: str, name: str, topic: str, book: Book, seed: int) -> None:
        self._name = name
        self._topic = topic
        self._book = book
        self._chance = random.Random(f"{seed}:{name}")
        self._producer = Producer(namesrv, name, retries=0, avoid_faulty=False)
        self._stop = False

    async def run(self, in_flight: int) -> None:
        """Send until `stop`."""
        async with self._producer:
            await asyncio.gather(*(self._send_in_turn() for _ in range(in_flight)))

    def stop(self) -> None:
        """End after the sends under way."""
        self._stop = True

    async def _send_in_turn(self) -> None:
        while not self._stop:
            try:
                queue = self._chance.choice(await self._producer.queues(self._topic))
            except EpochError as error:
                self._book.note_error(error)
                await asyncio.sleep(AGAIN_S)
                continue
            if not await self._send(queue):
                await asyncio.sleep(AGAIN_S)

    async def _send(self, queue: MessageQueue) -> bool:
        book = self._book
        number = book.take_number()
        body = b"%d." % number + b"." * self._chance.randrange(BODY_BYTES_MAX)
        book.oracle.call(number, self._name, (queue.topic, queue.queue_id), now_us())
        try:
            result = await self._producer.send(
                Message(self._topic, body), queue=queue, timeout_ms=SEND_TIMEOUT_MS
            )
        except (NotReachable, EpochError) as error:
            book.note_error(error)  # unknown: it may be there or not
            return False
        if result.status is not SendStatus.SEND_OK:
            book.note_error(NotReachable(f"stored as {result.status.value} only"))
            return False
        at = now_us()
        place = (result.queue_offset, parse_offset_id(result.offset_msg_id)[2])
        book.oracle.ok(number, place, 0, queue.broker_name, at)
        book.acks_us.append(at)
        book.acked.set()
        return True
