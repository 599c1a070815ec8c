"""Keeps the messages of one customer in order: one queue for each key, one handler at a time."""

import asyncio
import os

from epochmq import Message, Producer, PushConsumer, StoredMessage

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    async with Producer(NAMESRV, "shop") as producer:
        for step in ("created", "paid", "shipped"):
            for customer in ("anna", "ben"):
                message = Message("steps", f"{customer} {step}".encode())
                await producer.send_ordered(message, key=customer)

    seen: list[str] = []
    done = asyncio.Event()

    async def handle(messages: list[StoredMessage]) -> None:
        for message in messages:
            seen.append(message.plain_body().decode())
            print(seen[-1])
        if len(seen) == 6:
            done.set()

    async with PushConsumer(NAMESRV, "tracking", ordered=True, start="first") as consumer:
        consumer.on_message(handle)
        await consumer.subscribe("steps")
        await consumer.start()
        await done.wait()


asyncio.run(main())
