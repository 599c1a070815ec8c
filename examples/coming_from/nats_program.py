"""NATS JetStream with nats-py: a stream, a durable consumer, and a request with its reply."""

import asyncio
import os

import nats

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")


async def main() -> None:
    client = await nats.connect(URL)
    stream = client.jetstream()
    await stream.add_stream(name="orders", subjects=["orders"])
    await stream.publish("orders", b"order 1")
    subscription = await stream.pull_subscribe("orders", durable="billing")
    for message in await subscription.fetch(1):
        print("billed", message.data.decode())
        await message.ack()

    async def price(request: nats.aio.msg.Msg) -> None:
        await request.respond(b"42")

    await client.subscribe("prices", cb=price)
    reply = await client.request("prices", b"tea", timeout=5)
    print("tea costs", reply.data.decode())
    await client.close()


asyncio.run(main())
