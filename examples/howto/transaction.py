"""Sends a message if, and only if, a local transaction is committed."""

import asyncio
import os
from typing import Any

from epochmq import Message, PushConsumer, StoredMessage, TransactionProducer, TransactionState

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
DATABASE: dict[str, str] = {}


class OrderTransactions:
    """Runs the local transactions, and knows their results."""

    def execute_local(self, message: Message, order: Any) -> TransactionState:
        """Write the order to the database; the broker holds the message back meanwhile."""
        if order == "too large":
            return TransactionState.ROLLBACK
        DATABASE[order] = "created"
        return TransactionState.COMMIT

    def check(self, message: StoredMessage) -> TransactionState:
        """Answer the broker, which asks if it was not told the end of a transaction."""
        known = message.plain_body().decode() in DATABASE
        return TransactionState.COMMIT if known else TransactionState.ROLLBACK


async def main() -> None:
    async with TransactionProducer(NAMESRV, "shop-orders", OrderTransactions()) as producer:
        for order in ("too large", "order 1"):
            result = await producer.send_in_transaction(
                Message("created-orders", order.encode()), order
            )
            print(f"{order}: {result.state.name}")

    async with PushConsumer(NAMESRV, "warehouse", start="first") as consumer:
        await consumer.subscribe("created-orders")
        async for message in consumer:
            print("the warehouse got", message.plain_body().decode())
            break


asyncio.run(main())
