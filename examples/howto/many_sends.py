"""Sends many messages at once; each has a result of its own."""

import asyncio
import os

from epochmq import Message, Producer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    # Messages that are sent within a millisecond travel in one batch.
    async with Producer(NAMESRV, "sensors", linger_ms=1) as producer:
        messages = (Message("readings", b"reading %d" % number) for number in range(10_000))
        results = await asyncio.gather(*map(producer.send, messages))
    print(len({(r.queue, r.queue_offset) for r in results}), "messages are stored")


asyncio.run(main())
