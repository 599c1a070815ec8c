"""A shop: each order is written to a database and sent in one transaction, then paid and packed.

A payment that fails is tried again, and given up as a dead letter. Any packer gets any text. The
steps of one customer stay in order. A reminder is delivered a day later.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from epochmq import (
    Message,
    PopConsumer,
    PushConsumer,
    StoredMessage,
    TransactionProducer,
    TransactionState,
)

DAY_MS = 86_400_000


class OrderTable:
    """The table of orders: what it holds decides about a transaction."""

    def __init__(self, path: str = ":memory:") -> None:
        self._database = sqlite3.connect(path)
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, is_paid INTEGER)"
        )

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def execute_local(self, message: Message, order: Any) -> TransactionState:
        """Write the order, while the broker holds the message back."""
        try:
            with self._database:
                self._database.execute("INSERT INTO orders VALUES (?, 0)", (order,))
        except sqlite3.IntegrityError:
            return TransactionState.ROLLBACK  # the order was placed before
        return TransactionState.COMMIT

    def check(self, message: StoredMessage) -> TransactionState:
        """Answer the broker, which asks when it was not told the end of a transaction."""
        query = "SELECT 1 FROM orders WHERE id = ?"
        row = self._database.execute(query, message.keys).fetchone()
        return TransactionState.ROLLBACK if row is None else TransactionState.COMMIT

    def pay(self, order: str) -> bool:
        """Note that the order is paid; return False if it was already."""
        with self._database:
            query = "UPDATE orders SET is_paid = 1 WHERE id = ? AND is_paid = 0"
            return self._database.execute(query, (order,)).rowcount == 1


class Shop:
    """Takes orders, and does what follows. Use as `async with Shop(...) as shop`.

    Args:
        namesrv: address of the name server.
        orders: the table of orders.
        charge: takes money from a customer; it raises an error if that fails.
    """

    def __init__(self, namesrv: str, orders: OrderTable, charge: Callable[[str], None]) -> None:
        self.events: asyncio.Queue[str] = asyncio.Queue()
        """What happened, for the owner of the shop."""
        self._orders = orders
        self._charge = charge
        self._open = AsyncExitStack()
        self._producer = TransactionProducer(namesrv, "shop", orders)
        self._payments = PushConsumer(namesrv, "payments", start="first", max_reconsume_times=1)
        self._tracking = PushConsumer(namesrv, "tracking", start="first", ordered=True)
        self._reminders = PushConsumer(namesrv, "reminders", start="first")
        self._packers = PopConsumer(namesrv, "packers", start="first")

    async def __aenter__(self) -> Self:
        await self._open.enter_async_context(self._producer)
        self._payments.on_message(self._pay)
        await self._payments.subscribe("orders")
        self._tracking.on_message(self._track)
        await self._tracking.subscribe("steps")
        self._reminders.on_message(self._remind)
        await self._reminders.subscribe("reminders")
        for consumer in (self._payments, self._tracking, self._reminders):
            await self._open.enter_async_context(consumer)
            await consumer.start()
        self._packers.on_message(self._pack)
        await self._packers.subscribe("packing")
        await self._open.enter_async_context(self._packers)
        await self._packers.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._open.aclose()

    async def place(self, order: str, customer: str) -> bool:
        """Place an order; return False if it was placed before."""
        message = Message("orders", customer.encode(), keys=(order,))
        result = await self._producer.send_in_transaction(message, order)
        return result.state is not TransactionState.ROLLBACK

    async def _pay(self, messages: list[StoredMessage]) -> None:
        for message in messages:
            (order,), customer = message.keys, message.plain_body().decode()
            self._charge(customer)  # after an error the message is delivered again
            if self._orders.pay(order):  # a message may be delivered twice
                text = f"{order} for {customer}".encode()
                await self._producer.send(Message("reminders", text, delay_ms=DAY_MS))
                await self._producer.send(Message("packing", text))
                await self._producer.send_ordered(Message("steps", text), key=customer)

    async def _pack(self, messages: list[StoredMessage]) -> None:
        for message in messages:
            await self.events.put(f"packed {message.plain_body().decode()}")

    async def _track(self, messages: list[StoredMessage]) -> None:
        for message in messages:
            await self.events.put(f"tracked {message.plain_body().decode()}")

    async def _remind(self, messages: list[StoredMessage]) -> None:
        for message in messages:
            await self.events.put(f"reminded of {message.plain_body().decode()}")
