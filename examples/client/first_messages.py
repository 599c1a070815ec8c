"""Sends two messages and consumes them, with asyncio."""

import asyncio
import os

from epochmq import ConsumeResult, Message, Producer, PushConsumer, StoredMessage

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    async with Producer(NAMESRV, "order-service") as producer:
        result = await producer.send(Message("orders", b"one", tags="paid", keys=("1001",)))
        print(result.status.name, result.queue.queue_id, result.queue_offset)
        await producer.send_ordered(Message("orders", b"two"), key="customer-7")

    done = asyncio.Event()
    async with PushConsumer(NAMESRV, "billing", start="first") as consumer:

        @consumer.on_message
        async def handle(messages: list[StoredMessage]) -> ConsumeResult:
            for message in messages:
                print(message.keys, message.tags, message.plain_body())
            done.set()
            return ConsumeResult.SUCCESS  # or LATER: the broker sends it again

        await consumer.subscribe("orders")
        await consumer.start()
        await done.wait()


asyncio.run(main())
