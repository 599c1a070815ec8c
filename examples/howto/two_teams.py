"""Two teams use the same names of topics and groups, and do not meet."""

import asyncio
import os

from epochmq import Message, Producer, PushConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    for team in ("blue", "green"):
        async with Producer(NAMESRV, "shop", namespace=team) as producer:
            await producer.send(Message("orders", f"an order of team {team}".encode()))

    async with PushConsumer(NAMESRV, "billing", start="first", namespace="green") as consumer:
        await consumer.subscribe("orders")
        async for message in consumer:
            print(f"{message.topic}: {message.plain_body().decode()}")
            break


asyncio.run(main())
