"""EpochMQ in place of NATS JetStream: a topic, a consumer group, and a request with its reply."""

import asyncio
import os

from epochmq import Message, Producer, PushConsumer, StoredMessage, reply_to

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    async with (
        Producer(NAMESRV, "shop") as producer,
        PushConsumer(NAMESRV, "billing", start="first") as billing,
        PushConsumer(NAMESRV, "price-list", start="first") as prices,
    ):
        await producer.send(Message("orders", b"order 1"))
        await billing.subscribe("orders")
        async for message in billing:
            print("billed", message.plain_body().decode())
            break

        async def price(messages: list[StoredMessage]) -> None:
            for request in messages:
                await producer.send(reply_to(request, b"42"))

        prices.on_message(price)
        await prices.subscribe("prices")
        await prices.start()
        reply = await producer.request(Message("prices", b"tea"), timeout_ms=10_000)
        print("tea costs", reply.plain_body().decode())


asyncio.run(main())
