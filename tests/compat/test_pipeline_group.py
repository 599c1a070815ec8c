"""What a group of three real brokers does for data pipelines, with the master killed in between.

A sink sends the same rows again to the new master, as Spark does after a failure: none may be
stored twice, none may be lost. Then replicas are read in bulk and compared by digests.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from epochmq.base.errors import EpochError, Refused, UsageError
from epochmq.client.aio import Producer
from epochmq.client.aio.bulk_calls import BulkCalls
from epochmq.client.aio.instance import Instance
from epochmq.client.core.consumer_state import PullStatus
from epochmq.model.message import Message
from epochmq.model.record import decode_all
from epochmq.model.topic import MessageQueue
from epochmq.spark.rows import close_clusters
from epochmq.spark.source import batch_reader
from epochmq.wire.bodies.offset_bodies import LogDigests

from .peers import admin
from .peers.group import Group, Server
from .peers.process import wait_until

TOPIC, QUEUES, ROWS = "Sunk", 2, 400
BLOCK = 64 << 10


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    config = {"slaveReadEnable": True, "autoCreateTopicEnable": False}
    with Group(broker_config=config) as running:
        master = running.master()
        assert master is not None
        admin.create_topic(master.address, TOPIC, QUEUES)
        yield running


@pytest.fixture
async def instance(group: Group) -> AsyncIterator[Instance]:
    made = Instance(group.namesrv_addr)
    yield made
    await made.close()


def row(seq: int) -> Message:
    """Row `seq` of a sink's batch, always the same."""
    properties = {
        "UNIQ_KEY": f"{seq:032X}",
        "__SINK_ID": "query-1",
        "__SINK_BATCH": "0",
        "__SINK_PART": "0",
        "__SINK_SEQ": str(seq),
    }
    return Message(TOPIC, b"row %d" % seq, properties=properties)


async def deliver(producer: Producer, seqs: range, acked: Counter[int]) -> None:
    """Send rows until each is stored for good, whatever comes between; many are under way."""
    slots = asyncio.Semaphore(16)

    async def one(seq: int) -> None:
        queue = MessageQueue(TOPIC, "broker-a", seq % QUEUES)
        async with slots:
            while True:
                try:
                    result = await producer.send(row(seq), queue=queue)
                    if result.status.name == "SEND_OK":
                        acked[seq] += 1
                        return
                except EpochError:
                    pass
                await asyncio.sleep(0.05)

    async with asyncio.timeout(60):
        await asyncio.gather(*map(one, seqs))


async def kill_master(group: Group) -> Server:
    """Kill the master and wait until there is another one; the one that was killed."""
    old = group.master()
    assert old is not None
    old.process.kill9()

    def is_other() -> bool:
        return group.master() not in (None, old)

    await asyncio.to_thread(wait_until, is_other, 60, "another master")
    return old


async def test_a_sink_that_sends_everything_again_stores_it_once(group: Group) -> None:
    acked: Counter[int] = Counter()
    async with Producer(group.namesrv_addr, "sinks") as producer:
        sending = asyncio.create_task(deliver(producer, range(ROWS), acked))
        await asyncio.to_thread(wait_until, lambda: len(acked) >= ROWS // 3, 60, "some acks")
        old = await kill_master(group)
        await sending
        await deliver(producer, range(ROWS), acked)  # the task failed and runs again
        old.start()
        await asyncio.to_thread(group.wait_ready)
        again = await kill_master(group)  # which built its memory while it followed
        await deliver(producer, range(ROWS + 10), acked)
        again.start()
        await asyncio.to_thread(group.wait_ready)
        master = group.master()
        assert master is not None
        for broker in group.brokers:  # one by one, so that the set stays whole
            if broker is not master:
                broker.process.kill9()
                broker.start()
                await asyncio.to_thread(group.wait_ready)
        await kill_master(group)  # now one leads whose memory came from its own disk
        await deliver(producer, range(ROWS + 10), acked)
    assert min(acked.values()) >= 1
    for broker in group.brokers:
        if not broker.process.is_alive:
            broker.start()
    await asyncio.to_thread(group.wait_ready)
    master = group.master()
    assert master is not None
    instance = Instance(group.namesrv_addr)
    try:
        stored = Counter(await rows_at(BulkCalls(instance), master))
    finally:
        await instance.close()
    assert stored == Counter(range(ROWS + 10))


async def rows_at(calls: BulkCalls, broker: Server) -> list[int]:
    """All rows that one replica shows, read in bulk."""
    found: list[int] = []
    for queue_id in range(QUEUES):
        at, queue = 0, MessageQueue(TOPIC, "broker-a", queue_id)
        while True:
            read = await calls.read(queue, at, max_bytes=10_000, address=broker.address)
            if read.status is not PullStatus.FOUND:
                break
            assert read.epoch is not None
            found += [int(m.body.split()[1]) for m in decode_all(read.records)]
            at = read.next_offset
    return found


async def digests_of(calls: BulkCalls, broker: Server, end: int) -> LogDigests:
    return await calls.digests(broker.address, 0, end, block_bytes=BLOCK)


async def test_replicas_show_the_same_records_and_digests(group: Group, instance: Instance) -> None:
    calls = BulkCalls(instance)
    expected = list(range(ROWS + 10))
    for broker in group.brokers:
        for _ in range(300):
            found = sorted(await rows_at(calls, broker))
            if found == expected:
                break
            await asyncio.sleep(0.1)  # a follower learns of what is confirmed a little later
        assert found == expected
    await instance.ensure_route(TOPIC)
    heads = [await digests_of(calls, broker, 0) for broker in group.brokers]
    end = min(head.confirmed for head in heads)
    first, *others = [await digests_of(calls, broker, end) for broker in group.brokers]
    assert sum(size for _, size, _ in first.blocks) == end > 0
    assert all(other.blocks == first.blocks for other in others)
    epochs = [entry.epoch for entry in first.epochs]
    assert len(epochs) >= 4
    assert await calls.epoch_offsets(TOPIC, "broker-a", epochs[0]) == {0: 0, 1: 0}
    second = await calls.epoch_offsets(TOPIC, "broker-a", epochs[1])
    third = await calls.epoch_offsets(TOPIC, "broker-a", epochs[2])
    assert all(0 < second[q] <= third[q] <= ROWS for q in range(QUEUES))
    with pytest.raises(Refused, match="has not begun"):
        await calls.epoch_offsets(TOPIC, "broker-a", epochs[-1] + 100)


def rows_from(namesrv: str, epoch: int) -> list[int]:
    """What a batch of Spark has with `startingEpoch`."""
    given = {"nameServer": namesrv, "subscribe": TOPIC, "startingEpoch": str(epoch)}
    reader = batch_reader(given, StructType([StructField("body", BinaryType())]))
    return [
        int(body.as_py().split()[1])
        for part in reader.partitions()
        for batch in reader.read(part)
        for body in batch.column("body")
    ]


def test_a_read_begins_where_a_master_began(group: Group) -> None:
    """Three masters died before: each epoch has what was stored behind the one before it."""
    state = group.sync_state()
    assert state is not None
    found = [rows_from(group.namesrv_addr, epoch) for epoch in range(1, state.master_epoch + 1)]
    assert sorted(found[0]) == list(range(ROWS + 10))
    for longer, shorter in pairwise(found):
        assert set(shorter) <= set(longer)
    assert 0 < len(found[1]) < len(found[0])
    # After the second death only these were new; sent again was everything.
    assert sorted(range(ROWS, ROWS + 10)) in [sorted(rows) for rows in found]
    with pytest.raises(UsageError, match=r"cannot tell where epoch \d+ of Sunk begins"):
        rows_from(group.namesrv_addr, state.master_epoch + 100)
    close_clusters()
