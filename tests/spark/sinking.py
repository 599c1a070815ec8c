"""What the tests of the sink share: options, batches, and everything that a topic holds."""

import asyncio
from collections.abc import Sequence

import pyarrow as pa

from epochmq.client.aio import PullConsumer
from epochmq.client.core.consumer_state import PullStatus
from epochmq.model.message import StoredMessage
from epochmq.model.topic import MessageQueue
from epochmq.spark.sink_options import SinkOptions, parse_sink


def options(namesrv: str, topic: str = "", **more: object) -> SinkOptions:
    """The options of a write."""
    given = {key: str(value) for key, value in more.items()}
    return parse_sink({"nameServer": namesrv, **({"topic": topic} if topic else {}), **given})


def batches(columns: dict[str, object], rows: int = 7) -> list[pa.RecordBatch]:
    """The columns as a task gets them: piece by piece."""
    whole: list[pa.RecordBatch] = pa.table(columns).to_batches(max_chunksize=rows)
    return whole


async def held(namesrv: str, topic: str) -> dict[MessageQueue, list[StoredMessage]]:
    """All messages of `topic` by queue."""
    found: dict[MessageQueue, list[StoredMessage]] = {}
    async with PullConsumer(namesrv, "sink-check") as consumer:
        for queue in await consumer.queues(topic):
            found[queue] = []
            at = 0
            while True:
                result = await consumer.pull(queue, at)
                found[queue] += result.messages
                if result.status is not PullStatus.FOUND or result.next_offset <= at:
                    break
                at = result.next_offset
    return found


def bodies(namesrv: str, topic: str) -> list[bytes]:
    """All bodies of `topic`, sorted; for tests without a loop of their own."""
    return sorted(m.plain_body() for m in messages(namesrv, topic))


def messages(namesrv: str, topic: str) -> Sequence[StoredMessage]:
    """All messages of `topic`, queue by queue."""
    found = asyncio.run(held(namesrv, topic))
    return [message for queue in found.values() for message in queue]
