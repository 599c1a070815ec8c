"""The end of a run: everything that the group holds, and whether its replicas are the same."""

import asyncio
import time
from pathlib import Path

from sim.kernel.oracle import Delivery
from tests.compat.peers.group import Group

from chaos.load import Book, now_us
from epochmq.base.errors import Refused
from epochmq.client.aio import PullConsumer
from epochmq.client.aio.pull_consumer import PullResult
from epochmq.model.topic import MessageQueue
from epochmq.wire.codes import ResponseCode

BUSY_S = 15.0
"""A broker that has just changed its role, or waits for its lease, serves nobody for a moment."""


async def pull(consumer: PullConsumer, queue: MessageQueue, offset: int) -> PullResult:
    """What the queue holds from `offset` on, as soon as its broker serves."""
    until = time.monotonic() + BUSY_S
    while True:
        try:
            return await consumer.pull(queue, offset)
        except Refused as error:
            if error.code != ResponseCode.SYSTEM_BUSY or time.monotonic() > until:
                raise
        await asyncio.sleep(0.2)


async def read_all(group: Group, topic: str, book: Book) -> int:
    """Read every queue to its end through the master; raises `Violation`. How many messages."""
    total = 0
    async with PullConsumer(group.namesrv_addr, "drain") as consumer:
        for queue in await consumer.queues(topic):
            offset, end = 0, await consumer.max_offset(queue)
            numbers: list[int] = []
            while offset < end:
                result = await pull(consumer, queue, offset)
                for message in result.messages:
                    number = int(bytes(message.body).partition(b".")[0])
                    place = (topic, queue.queue_id)
                    at = message.queue_offset
                    book.oracle.delivered(
                        Delivery(number, "drain", place, at, now_us(), "", message.offset)
                    )
                    numbers.append(number)
                assert result.next_offset > offset, (queue, offset, result.status)
                offset = result.next_offset
            book.oracle.judge_drain((topic, queue.queue_id), numbers, group.broker_name)
            total += len(numbers)
    return total


def compare_logs(group: Group, end: int) -> int:
    """Compare all replicas' log files up to `end`, byte for byte; the bytes compared of each."""
    logs = [server.root / "store" / "commitlog" for server in group.brokers]
    first, *others = logs
    compared = 0
    for file in sorted(first.iterdir()):
        start = int(file.name)
        size = min(file.stat().st_size, end - start)
        if size <= 0:
            continue
        content = _head(file, size)
        for other in others:
            same = _head(other / file.name, size) == content
            assert same, f"{other / file.name} differs from {file} below {end}"
        compared += size
    return compared


def _head(file: Path, size: int) -> bytes:
    with file.open("rb") as opened:
        return opened.read(size)
