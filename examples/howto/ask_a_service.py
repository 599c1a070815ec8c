"""Asks a service through the broker and waits for its reply."""

import asyncio
import os

from epochmq import Message, Producer, PushConsumer, StoredMessage, reply_to

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    async with (
        Producer(NAMESRV, "calculator-replies") as replies,
        PushConsumer(NAMESRV, "calculator", start="first") as service,
        Producer(NAMESRV, "client") as producer,
    ):

        async def square(messages: list[StoredMessage]) -> None:
            for message in messages:
                number = int(message.plain_body())
                await replies.send(reply_to(message, str(number * number).encode()))

        service.on_message(square)
        await service.subscribe("squares")
        await service.start()

        reply = await producer.request(Message("squares", b"12"), timeout_ms=10_000)
        print("12 times 12 is", reply.plain_body().decode())


asyncio.run(main())
