"""Consumes messages in a loop, without a listener."""

import asyncio
import os

from epochmq import Message, Producer, PushConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    async with Producer(NAMESRV, "clock") as producer:
        for number in range(3):
            await producer.send(Message("ticks", b"tick %d" % number))

    async with PushConsumer(NAMESRV, "printer", start="first") as consumer:
        await consumer.subscribe("ticks")
        received = 0
        async for message in consumer:  # a message is done when the next one is asked for
            print(message.plain_body().decode())
            received += 1
            if received == 3:
                break


asyncio.run(main())
