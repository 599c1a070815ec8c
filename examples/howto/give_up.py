"""Lets the broker deliver a message again, and gives it up after two attempts."""

import asyncio
import os

from epochmq import ConsumeResult, Message, Producer, PushConsumer, StoredMessage

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    async with Producer(NAMESRV, "shop") as producer:
        await producer.send(Message("payments", b"a card that never works"))

    done = asyncio.Event()

    async def handle(messages: list[StoredMessage]) -> ConsumeResult:
        print("attempt", messages[0].reconsume_times + 1)
        if messages[0].reconsume_times == 1:
            done.set()
        return ConsumeResult.LATER  # an exception has the same effect, and is logged

    # After the last attempt the message is in the topic %DLQ%collector: `epochmq dlq list`.
    async with PushConsumer(NAMESRV, "collector", start="first", max_reconsume_times=1) as consumer:
        consumer.on_message(handle)
        await consumer.subscribe("payments")
        await consumer.start()
        await done.wait()


asyncio.run(main())
