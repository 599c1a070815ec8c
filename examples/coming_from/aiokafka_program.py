"""Apache Kafka with aiokafka: three payments of a customer in order, and a consumer group."""

import asyncio
import os

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

SERVERS = os.environ.get("KAFKA_SERVERS", "127.0.0.1:9092")


async def main() -> None:
    async with AIOKafkaProducer(bootstrap_servers=SERVERS, acks="all") as producer:
        for amount in ("10", "20", "30"):
            await producer.send_and_wait("payments", amount.encode(), key=b"anna")

    async with AIOKafkaConsumer(
        "payments",
        bootstrap_servers=SERVERS,
        group_id="accounting",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        received = 0
        async for record in consumer:
            print("anna paid", record.value.decode())
            await consumer.commit()
            received += 1
            if received == 3:
                break


asyncio.run(main())
