"""A topic that is created later."""

import asyncio

from epochmq import Message, Producer
from epochmq.admin.messages.topic_wait import wait_for_topic
from epochmq.testing import MiniCluster


async def test_it_returns_when_the_topic_exists() -> None:
    with MiniCluster() as cluster:
        waiting = asyncio.create_task(wait_for_topic(cluster.namesrv, "orders"))
        done, _ = await asyncio.wait([waiting], timeout=1.2)
        assert not done
        async with Producer(cluster.namesrv, "P") as producer:
            await producer.send(Message("orders", b"x"), timeout_ms=10_000)
        assert await asyncio.wait_for(waiting, 10)
        assert not await wait_for_topic(cluster.namesrv, "orders")
