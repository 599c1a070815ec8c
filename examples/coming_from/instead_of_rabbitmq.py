"""EpochMQ in place of RabbitMQ: a work queue whose failed task is tried again."""

import asyncio
import os

from epochmq import ConsumeResult, Message, PopConsumer, Producer, StoredMessage

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    async with Producer(NAMESRV, "website") as producer:
        for name in ("cat.png", "dog.png"):
            await producer.send(Message("pictures", name.encode()))

    done: list[str] = []
    finished = asyncio.Event()

    async def resize(messages: list[StoredMessage]) -> ConsumeResult:
        task = messages[0]
        name = task.plain_body().decode()
        if name == "dog.png" and not task.reconsume_times:
            return ConsumeResult.LATER
        print("resized", name)
        done.append(name)
        if len(done) == 2:
            finished.set()
        return ConsumeResult.SUCCESS

    # A POP consumer acknowledges each message by itself: any number of workers share the topic.
    async with PopConsumer(NAMESRV, "resizer") as consumer:
        consumer.on_message(resize)
        await consumer.subscribe("pictures")
        await consumer.start()
        await finished.wait()


asyncio.run(main())
