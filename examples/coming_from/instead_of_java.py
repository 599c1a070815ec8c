"""EpochMQ's client in place of RocketMQ's Java client: a producer and a push consumer."""

import asyncio
import os

from epochmq import ConsumeResult, Message, Producer, PushConsumer, StoredMessage

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    async with Producer(NAMESRV, "shop") as producer:
        result = await producer.send(Message("orders", b"order 1", tags="new", keys=("1",)))
        print(result.status.name)

    done = asyncio.Event()
    async with PushConsumer(NAMESRV, "billing", start="first") as consumer:

        @consumer.on_message
        async def handle(messages: list[StoredMessage]) -> ConsumeResult:
            for message in messages:
                print("billed", message.plain_body().decode())
            done.set()
            return ConsumeResult.SUCCESS

        await consumer.subscribe("orders", "new")
        await consumer.start()
        await done.wait()


asyncio.run(main())
