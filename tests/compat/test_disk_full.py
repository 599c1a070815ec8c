"""A disk that is really full: writes are refused with RocketMQ's code, reads go on, it heals."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from epochmq.base.errors import Refused
from epochmq.client.aio import Producer, PullConsumer
from epochmq.model.message import Message
from epochmq.model.topic import MessageQueue
from epochmq.wire.codes import ResponseCode

from .peers.epochmq import EpochCluster
from .peers.small_disk import mounted

TOPIC = "FullTopic"
QUEUE = MessageQueue(TOPIC, "broker-a", 0)
BALLAST_BYTES = 12 << 20
FIRST_REFUSAL = (ResponseCode.SYSTEM_ERROR, ResponseCode.SERVICE_NOT_AVAILABLE)
"""As in RocketMQ: 1 when this message needs a next log file that cannot be made, 14 when the disk
is known to be full, because the file could not be made ahead."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    with mounted(tmp_path / "disk", 24) as mount:
        yield mount


async def send_until_refused(producer: Producer) -> tuple[int, int]:
    """How many messages of 100 KiB fit, and the code that the next one is refused with."""
    for number in range(1_000):
        try:
            await producer.send(Message(TOPIC, os.urandom(100_000)), queue=QUEUE)
        except Refused as error:
            return number, error.code
    raise AssertionError("the disk never became full")


async def send_until_taken(producer: Producer) -> None:
    """Wait until the broker takes messages again, by itself."""
    async with asyncio.timeout(60):
        while True:
            try:
                await producer.send(Message(TOPIC, b"again"), queue=QUEUE)
            except Refused:
                await asyncio.sleep(0.1)
                continue
            return


async def run(namesrv: str, ballast: Path) -> None:
    async with Producer(namesrv, "full", retries=0) as producer:
        await producer.queues(TOPIC)
        stored, code = await send_until_refused(producer)
        assert stored > 10
        assert code in FIRST_REFUSAL
        assert await send_until_refused(producer) == (0, ResponseCode.SERVICE_NOT_AVAILABLE)
        async with PullConsumer(namesrv, "full-check") as consumer:
            assert await count(consumer) == stored
            ballast.unlink()
            await send_until_taken(producer)
            assert await count(consumer) == stored + 1


async def count(consumer: PullConsumer) -> int:
    """Messages that can be read from the start, each of them whole."""
    offset = found = 0
    end = await consumer.max_offset(QUEUE)
    while offset < end:
        result = await consumer.pull(QUEUE, offset)
        found += len(result.messages)
        offset = result.next_offset
    return found


def test_a_full_disk_refuses_writes_serves_reads_and_heals(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(BALLAST_BYTES))
    config = {
        "storePathRootDir": str(small_disk / "store"),
        "storePathCommitLog": str(small_disk / "store" / "commitlog"),
        "mappedFileSizeCommitLog": 1 << 20,
        "maxMessageSize": 1 << 18,
        "mappedFileSizeConsumeQueue": 20_000,
        "messageIndexEnable": False,
        "defaultTopicQueueNums": 1,
    }
    with EpochCluster(broker_config=config) as cluster:
        asyncio.run(run(cluster.namesrv_addr, ballast))
        assert cluster.broker.is_alive
        cluster.restart_broker()
        assert cluster.broker.is_alive


def test_a_log_on_a_file_system_of_its_own(tmp_path: Path) -> None:
    """Files that are made ahead cannot be renamed into it from outside."""
    mount = tmp_path / "disk"
    config = {
        "storePathCommitLog": str(mount),
        "mappedFileSizeCommitLog": 2 << 20,
        "maxMessageSize": 1 << 20,
    }

    async def send(namesrv: str) -> None:
        async with Producer(namesrv) as producer:
            await producer.queues(TOPIC)
            for _ in range(60):  # twelve files
                await producer.send(Message(TOPIC, os.urandom(400_000)), queue=QUEUE)
        async with PullConsumer(namesrv, "g") as consumer:
            assert await count(consumer) == 60

    with mounted(mount, 80):
        with EpochCluster(broker_config=config) as cluster:
            asyncio.run(send(cluster.namesrv_addr))
        assert all(path.name.isdecimal() for path in mount.iterdir())
