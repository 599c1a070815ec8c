"""RabbitMQ with aio-pika: a work queue whose failed task is tried again."""

import asyncio
import os

import aio_pika

URL = os.environ.get("RABBITMQ_URL", "amqp://guest:guest@127.0.0.1/")


async def main() -> None:
    connection = await aio_pika.connect_robust(URL)
    async with connection:
        channel = await connection.channel(publisher_confirms=True)
        await channel.set_qos(prefetch_count=10)
        queue = await channel.declare_queue("pictures", durable=True)
        for name in ("cat.png", "dog.png"):
            body = aio_pika.Message(name.encode(), delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(body, routing_key="pictures")

        done = 0
        async with queue.iterator() as tasks:
            async for task in tasks:
                if task.body == b"dog.png" and not task.redelivered:
                    await task.nack(requeue=True)
                    continue
                print("resized", task.body.decode())
                await task.ack()
                done += 1
                if done == 2:
                    break


asyncio.run(main())
