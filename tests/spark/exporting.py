"""Masters over loopback for the tests of exports, which block and so run beside the loop."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.replication.brokers import LiveBroker

from epochmq.spark.log_export import LogExport, LogRange
from epochmq.spark.log_learner import EpochStart, Home

BROKER = "broker-a"


def home_of(broker: LiveBroker) -> Home:
    return Home(BROKER, "127.0.0.1", broker.port, broker.store.file_bytes)


def export_of(
    broker: LiveBroker,
    start: int = 0,
    to: int | None = None,
    known: list[EpochStart] | None = None,
    find: Callable[[], Home] | None = None,
) -> LogExport:
    return LogExport(find or (lambda: home_of(broker)), start, to, known, failover_s=10)


async def all_of(export: LogExport) -> list[LogRange]:
    """Everything that an export gives."""
    return await asyncio.to_thread(lambda: list(export.ranges()))


def joined(ranges: list[LogRange]) -> bytes:
    return b"".join(bytes(each.data) for each in ranges)


@asynccontextmanager
async def masters(root: Path, writes: int = 10) -> AsyncIterator[LiveBroker]:
    """A master of epoch 1 with so many times 100 messages, then of epoch 3 with 50 more."""
    broker = await LiveBroker(root, 1).start()
    try:
        await broker.lead(1)
        for _ in range(writes):
            broker.write(100)
        await broker.lead(3)
        broker.write(50)
        yield broker
    finally:
        if not broker.store.closed:
            await broker.stop()
