"""Topics with batch queues: single messages among batches, read by whichever broker."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from epochmq.client.aio import Admin, Producer, PullConsumer
from epochmq.model.message import Message
from epochmq.model.topic import TopicConfig

from .conftest import had
from .peers.cluster import Cluster
from .peers.epochmq import EpochCluster
from .peers.java import JavaCluster

TOPIC = "Batched"
BODIES = [b"first", b"0", b"1", b"2", b"last"]


async def fill(cluster: Cluster) -> None:
    """A single message, a batch of three in one record, a single message."""
    async with Admin(cluster.namesrv_addr) as admin:
        attributes = {"+queue.type": "BatchCQ"}
        await admin.create_topic(TopicConfig(TOPIC, 1, 1), attributes=attributes)
    async with Producer(cluster.namesrv_addr, "p") as producer:
        await producer.send(Message(TOPIC, b"first"))
        await producer.send_batch([Message(TOPIC, b"%d" % n) for n in range(3)])
        await producer.send(Message(TOPIC, b"last"))


async def messages(cluster: Cluster) -> list[tuple[int, bytes]]:
    async with PullConsumer(cluster.namesrv_addr, "g") as consumer:
        (queue,) = await consumer.queues(TOPIC)
        found = await consumer.pull(queue, 0, hold_ms=5_000)
        return [(message.queue_offset, message.body) for message in found.messages]


@pytest.mark.parametrize(
    ("writer", "rebuilt"), [("ours", False), ("java", True)], ids=["ours", "java, rebuilt"]
)
async def test_single_messages_among_batches(tmp_path: Path, writer: str, rebuilt: bool) -> None:
    had(lambda: JavaCluster(tmp_path / "probe"))
    first, second = (EpochCluster, JavaCluster) if writer == "ours" else (JavaCluster, EpochCluster)
    root = tmp_path / "cluster"
    with first(root) as cluster:
        await fill(cluster)
        assert await messages(cluster) == list(enumerate(BODIES))
    if rebuilt:
        shutil.rmtree(root / "store" / "batchconsumequeue")
    with second(root) as cluster:
        assert await messages(cluster) == list(enumerate(BODIES))
