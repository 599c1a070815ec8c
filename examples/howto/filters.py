"""Receives some messages of a topic: by tag, and by a condition about properties."""

import asyncio
import os

from epochmq import Message, Producer, PushConsumer, Sql

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    async with Producer(NAMESRV, "weather") as producer:
        for city, degrees in (("Oslo", -3), ("Lima", 24), ("Cairo", 35)):
            message = Message(
                "temperatures", city.encode(), tags="reading", properties={"degrees": str(degrees)}
            )
            await producer.send(message)

    async with PushConsumer(NAMESRV, "heat-warnings", start="first") as consumer:
        await consumer.subscribe("temperatures", Sql("TAGS = 'reading' AND degrees > 30"))
        async for warning in consumer:
            print("it is hot in", warning.plain_body().decode())
            break


asyncio.run(main())
