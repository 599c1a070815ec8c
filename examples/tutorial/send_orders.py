"""Sends ten orders, each with its number as key."""

import asyncio
import os

from epochmq import Message, Producer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    async with Producer(NAMESRV, "shop") as producer:
        for number in range(1, 11):
            message = Message("orders", f"order {number}".encode(), keys=(str(number),))
            result = await producer.send(message)
            print(f"order {number}: {result.status.name} in queue {result.queue.queue_id}")


asyncio.run(main())
