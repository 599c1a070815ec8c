"""Tests of the shop with real servers, in a few seconds."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from epochmq import Message, TransactionState
from epochmq.testing import MiniCluster
from examples.client.shop import OrderTable, Shop

TOPICS = ("orders", "packing", "steps", "reminders")


@pytest.fixture
def orders() -> Iterator[OrderTable]:
    table = OrderTable()
    yield table
    table.close()


@asynccontextmanager
async def opened(
    cluster: MiniCluster, orders: OrderTable, charge: Callable[[str], None] = lambda customer: None
) -> AsyncIterator[Shop]:
    for topic in TOPICS:
        await asyncio.to_thread(cluster.create_topic, topic)
    async with asyncio.timeout(30), Shop(cluster.namesrv, orders, charge) as shop:
        yield shop


async def next_events(shop: Shop, count: int) -> set[str]:
    return {await shop.events.get() for _ in range(count)}


async def test_an_order_is_paid_packed_and_remembered(
    epochmq_cluster: MiniCluster, orders: OrderTable
) -> None:
    async with opened(epochmq_cluster, orders) as shop:
        assert await shop.place("1", "anna")
        assert not await shop.place("1", "anna")  # the database knows it
        assert await next_events(shop, 2) == {"packed 1 for anna", "tracked 1 for anna"}
        epochmq_cluster.advance_clock(86_400)
        assert await shop.events.get() == "reminded of 1 for anna"


async def test_the_steps_of_a_customer_are_in_order(
    epochmq_cluster: MiniCluster, orders: OrderTable
) -> None:
    async with opened(epochmq_cluster, orders) as shop:
        for number in range(5):
            await shop.place(str(number), "anna")
        events = [await shop.events.get() for _ in range(10)]
    steps = epochmq_cluster.messages("steps")
    assert len({message.queue_id for message in steps}) == 1
    assert [event for event in events if event.startswith("tracked")] == [
        f"tracked {message.plain_body().decode()}" for message in steps
    ]


async def test_a_payment_that_fails_twice_is_given_up(
    epochmq_cluster: MiniCluster, orders: OrderTable
) -> None:
    tried = []

    def charge(customer: str) -> None:
        tried.append(customer)
        raise ValueError("the card is expired")

    def dead() -> list[tuple[str, ...]]:
        return [message.keys for message in epochmq_cluster.messages("%DLQ%payments")]

    async with opened(epochmq_cluster, orders, charge) as shop:
        await shop.place("1", "ben")
        while not await asyncio.to_thread(dead):
            epochmq_cluster.advance_clock(10)  # the broker waits 10 s before the second attempt
        assert tried == ["ben", "ben"]
        assert dead() == [("1",)]


class InterruptedOrderTable(OrderTable):
    """A process that ends between its database and its answer to the broker."""

    def execute_local(self, message: Message, order: Any) -> TransactionState:
        super().execute_local(message, order)
        return TransactionState.UNKNOWN


async def test_the_broker_asks_for_an_order_whose_end_it_was_not_told(
    epochmq_cluster: MiniCluster,
) -> None:
    interrupted = InterruptedOrderTable()
    async with opened(epochmq_cluster, interrupted) as shop:
        await shop.place("1", "anna")
        epochmq_cluster.advance_clock(60)  # old enough to be asked for
        assert await next_events(shop, 2) == {"packed 1 for anna", "tracked 1 for anna"}
    interrupted.close()


async def test_a_failover_loses_no_order(epochmq_replicas: MiniCluster, orders: OrderTable) -> None:
    async with opened(epochmq_replicas, orders) as shop:
        assert await shop.place("1", "anna")
        await asyncio.to_thread(epochmq_replicas.kill, "master")
        assert await shop.place("2", "ben")
        packed: set[str] = set()
        while len(packed) < 2:
            packed |= {e for e in await next_events(shop, 1) if e.startswith("packed")}
        assert packed == {"packed 1 for anna", "packed 2 for ben"}
