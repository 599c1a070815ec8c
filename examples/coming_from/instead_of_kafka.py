"""EpochMQ in place of Kafka: three payments of a customer in order, and a consumer group."""

import asyncio
import os

from epochmq import Message, Producer, PushConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    async with Producer(NAMESRV, "shop") as producer:
        for amount in ("10", "20", "30"):
            await producer.send_ordered(Message("payments", amount.encode()), key="anna")

    async with PushConsumer(NAMESRV, "accounting", ordered=True, start="first") as consumer:
        await consumer.subscribe("payments")
        received = 0
        async for message in consumer:  # committed when the next one is asked for
            print("anna paid", message.plain_body().decode())
            received += 1
            if received == 3:
                break


asyncio.run(main())
