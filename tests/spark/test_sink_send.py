"""Sending requests: one at a time in a lane, and what an answer to a repeat tells."""

import asyncio
import zlib
from collections.abc import Iterator

import pytest
from tests.compat.peers.epochmq import EpochCluster
from tests.spark.sinking import held, options

from epochmq.base.errors import NotReachable, UsageError
from epochmq.model.queue import MessageQueue
from epochmq.model.route import QueueData, TopicRouteData
from epochmq.model.topic import PERM_READ, PERM_READ_WRITE
from epochmq.spark.encode import Row
from epochmq.spark.sink_lanes import Identity, Lane, Layout, Request, TopicLanes
from epochmq.spark.sink_send import Line, Sender, writable_queues


@pytest.fixture(scope="module")
def cluster() -> Iterator[EpochCluster]:
    with EpochCluster(broker_config={"defaultTopicQueueNums": 4}) as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of the test's own; the first send creates it."""
    return f"Sink_{zlib.crc32(request.node.nodeid.encode())}"


def requests(layout: Layout, count: int, size: int = 2) -> list[tuple[Lane, Request]]:
    """The requests with rows "000", "001", ... without keys."""
    lanes = TopicLanes(layout, Identity("s", 1, 0), rows_max=size, bytes_max=1 << 20, marked=True)
    topic = layout.queues[0].topic
    rows = [Row(topic, b"%03d" % n, "", None, None, None, 0, False, n) for n in range(count)]
    return [*(pair for row in rows for pair in lanes.put(row)), *lanes.rest()]


def test_queues_of_groups_without_a_master_are_counted() -> None:
    datas = [QueueData("b", 2, 2, PERM_READ_WRITE), QueueData("a", 1, 1, PERM_READ)]
    route = TopicRouteData(queue_datas=datas)
    assert writable_queues("T", route) == (MessageQueue("T", "b", 0), MessageQueue("T", "b", 1))
    route.order_topic_conf = "c:1"
    assert writable_queues("T", route) == (MessageQueue("T", "c", 0),)


async def test_lanes_send_side_by_side_and_each_in_order(cluster: EpochCluster, topic: str) -> None:
    sender = Sender(options(cluster.namesrv_addr, topic, bufferBytes=50), 0)
    await sender.start()
    layout = await sender.layout(topic)
    assert [queue.queue_id for queue in layout.queues] == [0, 1, 2, 3]
    await sender.offer(requests(layout, 100))
    await sender.drain()
    assert sender.requests == 50
    await sender.close()
    found = await held(cluster.namesrv_addr, topic)
    assert sorted(m.body for queue in found.values() for m in queue) == [
        b"%03d" % n for n in range(100)
    ]
    for queue in found.values():
        numbers = [int(m.properties["__SINK_SEQ"]) for m in queue]
        assert numbers == list(range(1, len(queue) + 1))


async def test_the_first_error_ends_all(topic: str) -> None:
    sender = Sender(options("127.0.0.1:1", topic, failoverTimeoutMs=1, sendTimeoutMs=1), 3)
    await sender.start()
    await sender.offer(requests(Layout((MessageQueue(topic, "a", 0),)), 3))
    with pytest.raises(NotReachable, match=rf"rows 0 to 1 of partition 3 for topic {topic}: "):
        await sender.drain()
    with pytest.raises(NotReachable):
        await sender.offer(requests(Layout((MessageQueue(topic, "a", 0),)), 3))
    await sender.close()


async def test_closing_waits_for_nothing(cluster: EpochCluster, topic: str) -> None:
    sender = Sender(options(cluster.namesrv_addr, topic), 0)
    await sender.start()
    await sender.offer(requests(await sender.layout(topic), 50))
    async with asyncio.timeout(5):
        await sender.close()


def line() -> tuple[Line, Request, Request]:
    """A lane with two requests of two rows each."""
    (lane, first), (_, second) = requests(Layout((MessageQueue("T", "a", 0),)), 4)
    return Line(lane), first, second


def test_the_same_rows_again_are_fine() -> None:
    again, first, second = line()
    again.take_mark(second.ids[0])
    again.check(first)
    again.check(second)
    again.check_end()


def test_other_rows_in_a_repeat_are_an_error() -> None:
    again, first, second = line()
    again.take_mark(second.ids[0][:-4] + "0000")
    again.check(first)
    with pytest.raises(UsageError, match=r"other rows .*T@a:0.*orderBy.*at-least-once"):
        again.check(second)


def test_fewer_rows_in_a_repeat_are_an_error() -> None:
    again, first, _ = line()
    again.take_mark(first.ids[0][:12] + "00000005" + first.ids[0][20:])
    again.check(first)
    with pytest.raises(UsageError, match="other rows"):
        again.check_end()


def test_a_later_batch_that_is_held_is_an_error() -> None:
    again, first, _ = line()
    with pytest.raises(UsageError, match=r"T@a:0 holds a later batch.*batchId must rise"):
        again.take_mark("ABCDEF012345" + first.ids[0][12:])


@pytest.mark.parametrize("uniq_id", [None, "", "F" * 32, "nonsense"])
def test_other_ids_in_an_answer_mean_nothing(uniq_id: str | None) -> None:
    again, first, _ = line()
    again.take_mark(uniq_id)
    again.check(first)
    again.check_end()
