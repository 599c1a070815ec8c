"""Sending requests: one at a time in a sink queue, sink queues side by side."""

import asyncio

import pytest
from tests.compat.peers.epochmq import EpochCluster
from tests.spark.sinking import held, options

from epochmq.base.errors import NotReachable, UsageError
from epochmq.model.topic import (
    PERM_READ,
    PERM_READ_WRITE,
    BrokerData,
    MessageQueue,
    QueueData,
    TopicRouteData,
)
from epochmq.spark.encode import SinkRow
from epochmq.spark.sink_queues import (
    PartitionId,
    QueueLayout,
    Request,
    RequestBuilder,
    SinkQueue,
    SinkQueues,
)
from epochmq.spark.sink_send import SinkSender, check_writable, writable_queues


def requests(layout: QueueLayout, count: int, size: int = 2) -> list[tuple[SinkQueue, Request]]:
    """The requests with rows "000", "001", ... without keys."""
    sink_queues = SinkQueues(layout, PartitionId("s", 1, 0), RequestBuilder(size, 1 << 20, True))
    topic = layout.queues[0].topic
    rows = [SinkRow(topic, b"%03d" % n, "", f"k{n}", None, None, 0, False, n) for n in range(count)]
    return [*sink_queues.put(rows, 1 << 40)[1], *sink_queues.rest()]


def test_queues_of_groups_without_a_master_are_counted() -> None:
    datas = [QueueData("b", 2, 2, PERM_READ_WRITE), QueueData("a", 1, 1, PERM_READ)]
    route = TopicRouteData(queue_datas=datas)
    assert writable_queues("T", route) == (MessageQueue("T", "b", 0), MessageQueue("T", "b", 1))
    route.order_topic_conf = "c:1"
    assert writable_queues("T", route) == (MessageQueue("T", "c", 0),)


async def test_lanes_send_side_by_side_and_each_in_order(cluster: EpochCluster, topic: str) -> None:
    sender = SinkSender(options(cluster.namesrv_addr, topic, bufferBytes=50), 0)
    await sender.start()
    layout = await sender.layout(topic)
    assert [queue.queue_id for queue in layout.queues] == [0, 1, 2, 3]
    await sender.offer(requests(layout, 100))
    await sender.drain()
    assert 50 <= sender.requests <= 54
    await sender.close()
    found = await held(cluster.namesrv_addr, topic)
    assert sorted(m.body for queue in found.values() for m in queue) == [
        b"%03d" % n for n in range(100)
    ]
    for queue in found.values():
        assert [m.body for m in queue] == sorted(m.body for m in queue)


async def test_the_first_error_ends_all(topic: str) -> None:
    sender = SinkSender(options("127.0.0.1:1", topic, failoverTimeoutMs=1, sendTimeoutMs=1), 3)
    await sender.start()
    await sender.offer(requests(QueueLayout((MessageQueue(topic, "a", 0),)), 3))
    with pytest.raises(NotReachable, match=rf"rows 0 to 1 of partition 3 for topic {topic}: "):
        await sender.drain()
    with pytest.raises(NotReachable):
        await sender.offer(requests(QueueLayout((MessageQueue(topic, "a", 0),)), 3))
    await sender.close()


async def test_closing_waits_for_nothing(cluster: EpochCluster, topic: str) -> None:
    sender = SinkSender(options(cluster.namesrv_addr, topic), 0)
    await sender.start()
    await sender.offer(requests(await sender.layout(topic), 50))
    async with asyncio.timeout(5):
        await sender.close()


def test_a_topic_nobody_may_write_is_told_from_one_whose_master_is_replaced() -> None:
    read_only = [QueueData("a", 1, 1, PERM_READ), QueueData("b", 1, 1, PERM_READ)]
    with pytest.raises(UsageError, match="its permission is R--"):
        check_writable("T", TopicRouteData(queue_datas=read_only))
    acting = BrokerData("c", "a", {0: "h:1"}, enable_acting_master=True)
    check_writable("T", TopicRouteData(queue_datas=read_only, broker_datas=[acting]))
    some = [*read_only, QueueData("c", 1, 1, PERM_READ_WRITE)]
    check_writable("T", TopicRouteData(queue_datas=some))
    check_writable("T", TopicRouteData())
