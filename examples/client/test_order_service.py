"""Tests of the service with real servers: `pytest` finds the fixtures by itself."""

import asyncio

from epochmq import Producer
from epochmq.testing import MiniCluster
from examples.client.order_service import OrderService


def placed(cluster: MiniCluster, *orders: str) -> list[bool]:
    async def place() -> list[bool]:
        async with Producer(cluster.namesrv, "orders", timeout_ms=5_000) as producer:
            service = OrderService(producer)
            return [await service.place(order) for order in orders]

    return asyncio.run(place())


def test_an_order_is_stored(epochmq_cluster: MiniCluster) -> None:
    assert placed(epochmq_cluster, "1001") == [True]
    assert [m.keys for m in epochmq_cluster.messages("orders")] == [("1001",)]


def test_a_failover_loses_no_order(epochmq_replicas: MiniCluster) -> None:
    assert placed(epochmq_replicas, "1001") == [True]
    epochmq_replicas.kill("master")
    assert placed(epochmq_replicas, "1002") == [True]
    bodies = [m.plain_body() for m in epochmq_replicas.messages("orders")]
    assert sorted(bodies) == [b"1001", b"1002"]


def test_what_cannot_be_sent_is_no_order(epochmq_cluster: MiniCluster) -> None:
    async def place_without_broker() -> list[str]:
        async with Producer(epochmq_cluster.namesrv, "orders", timeout_ms=300) as producer:
            service = OrderService(producer)
            assert await service.place("1001")
            epochmq_cluster.pause()
            assert not await service.place("1002")
            return service.unsure

    assert asyncio.run(place_without_broker()) == ["1002"]
