"""Topics for the tests of Spark's source: created, filled, deleted."""

import asyncio
from collections.abc import Mapping, Sequence

from epochmq.client.aio import Admin, Producer
from epochmq.model.message import Message
from epochmq.model.topic import MessageQueue, TopicConfig


def create(
    namesrv: str, topic: str, queues: int = 2, attributes: Mapping[str, str] | None = None
) -> list[MessageQueue]:
    """Create `topic`, or change how many queues it has; its queues."""

    async def work() -> list[MessageQueue]:
        config = TopicConfig(topic, read_queue_nums=queues, write_queue_nums=queues)
        async with Admin(namesrv) as admin:
            await admin.create_topic(config, attributes=attributes)
        async with Producer(namesrv, "spark-tests") as producer:
            return sorted(await producer.queues(topic))

    return asyncio.run(work())


def delete(namesrv: str, topic: str) -> None:
    """Delete `topic` with its messages."""

    async def work() -> None:
        async with Admin(namesrv) as admin:
            await admin.delete_topic(topic)

    asyncio.run(work())


def send(
    namesrv: str, messages: Sequence[tuple[MessageQueue, Message]], timeout_ms: int = 30_000
) -> None:
    """Send each to its queue, one after the other."""

    async def work() -> None:
        async with Producer(namesrv, "spark-tests") as producer:
            for queue, message in messages:
                await producer.send(message, queue=queue, timeout_ms=timeout_ms)

    asyncio.run(work())


def send_batches(namesrv: str, queue: MessageQueue, batches: Sequence[Sequence[bytes]]) -> None:
    """Send the bodies of each batch in one request."""

    async def work() -> None:
        async with Producer(namesrv, "spark-tests") as producer:
            for bodies in batches:
                await producer.send_batch([Message(queue.topic, b) for b in bodies], queue=queue)

    asyncio.run(work())


def fill(namesrv: str, topic: str, count: int, queues: int = 2) -> list[MessageQueue]:
    """`count` messages with bodies b"0", b"1" ..., turn by turn; see `numbered`."""
    found = create(namesrv, topic, queues)
    send(namesrv, [(found[n % len(found)], numbered(topic, n)) for n in range(count)])
    return found


def numbered(topic: str, number: int) -> Message:
    """One message whose body, key and tag tell its number."""
    tag = "odd" if number // 2 % 2 else "even"
    return Message(topic, b"%d" % number, tag, (f"k{number}",))
