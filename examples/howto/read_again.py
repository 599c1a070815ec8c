"""Reads a topic again from a moment on, without a consumer group."""

import asyncio
import os
import time

from epochmq import Message, Producer, PullConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    async with Producer(NAMESRV, "clock") as producer:
        await producer.send(Message("ticks", b"before"))
        await asyncio.sleep(0.05)
        moment_ms = int(time.time() * 1000)
        await asyncio.sleep(0.05)
        await producer.send(Message("ticks", b"after"))

    async with PullConsumer(NAMESRV, "auditor") as consumer:
        for queue in await consumer.queues("ticks"):
            offset = await consumer.offset_at(queue, moment_ms)
            end = await consumer.max_offset(queue)
            while offset < end:
                pulled = await consumer.pull(queue, offset)
                for message in pulled.messages:
                    print("sent since then:", message.plain_body().decode())
                offset = pulled.next_offset


asyncio.run(main())
