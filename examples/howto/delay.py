"""Delivers a message two seconds later."""

import asyncio
import os
import time

from epochmq import Message, Producer, PushConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    async with PushConsumer(NAMESRV, "reminders", start="first") as consumer:
        await consumer.subscribe("reminders")
        async with Producer(NAMESRV, "calendar") as producer:
            sent_at = time.time()
            await producer.send(Message("reminders", b"tea is ready", delay_ms=2_000))

        async for message in consumer:
            waited = time.time() - sent_at
            print(f"{message.plain_body().decode()} after {waited:.0f} seconds or more")
            break


asyncio.run(main())
