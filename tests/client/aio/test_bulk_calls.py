"""Bulk calls to a real broker, and what a broker without them says."""

from hashlib import blake2b

import pytest
from tests.compat.peers.cluster import Cluster

from epochmq.base.errors import NotReachable, Refused
from epochmq.client.aio import Producer, SendResult
from epochmq.client.aio.bulk_calls import BulkCalls
from epochmq.client.aio.instance import Instance
from epochmq.client.core.consumer_state import PullStatus
from epochmq.model.message import Message
from epochmq.model.record import decode_all
from epochmq.model.topic import MessageQueue
from epochmq.native.library import library
from epochmq.wire.codes import ResponseCode

BODY = b"x" * 4_000
"""Just below what producers compress."""
COUNT = 600


@pytest.fixture
async def queue(namesrv: str, topic: str) -> MessageQueue:
    """600 messages of 4 KB and a few small ones with tags, all in queue 0."""
    async with Producer(namesrv, "p") as producer:
        await producer.send(Message(topic, b"first"))
        queue = next(q for q in await producer.queues(topic) if q.queue_id == 0)
        for n in range(COUNT):
            await producer.send(Message(topic, BODY + b"%d" % n), queue=queue)
        for tag in ("Aa", "BB", "Aa"):
            await producer.send(Message(topic, tag.encode(), tag), queue=queue)
    return queue


async def test_a_queue_is_read_in_megabytes(instance: Instance, queue: MessageQueue) -> None:
    await instance.ensure_route(queue.topic)
    calls = BulkCalls(instance)
    at, reads, found = 0, 0, []
    while True:
        read = await calls.read(queue, at, max_bytes=1 << 20)
        if read.status is not PullStatus.FOUND:
            break
        assert len(read.records) <= 1 << 20
        messages = decode_all(read.records)
        assert read.count == len(messages)
        assert [m.queue_offset for m in messages] == list(range(at, read.next_offset))
        found += [m.body for m in messages if m.body.startswith(b"x")]
        at, reads = read.next_offset, reads + 1
    assert found == [BODY + b"%d" % n for n in range(COUNT)]
    assert (read.status, read.next_offset, read.epoch) == (PullStatus.NO_NEW_MSG, at, None)
    assert reads <= 4
    whole = await calls.read(queue, 0, max_bytes=8 << 20)
    assert (whole.next_offset, whole.max_offset) == (at, at)
    bare = await calls.read(queue, 0, max_bytes=8 << 20, bodies=False)
    assert (bare.next_offset, bare.count) == (whole.next_offset, whole.count)
    if library() is not None:
        assert {m.body for m in decode_all(bare.records)} == {b""}
    tagged = await calls.read(queue, 0, tags="BB")
    assert [m.body for m in decode_all(tagged.records)] == [b"BB"]
    assert (await calls.read(queue, 5, end=7)).next_offset == 7
    moved = await calls.read(queue, 10_000)
    assert (moved.status, moved.max_offset) == (PullStatus.OFFSET_ILLEGAL, at)


async def test_places_of_a_key(namesrv: str, topic: str, instance: Instance) -> None:
    async with Producer(namesrv, "p") as producer:
        await producer.send(Message(topic, b"first"))
        queue = next(q for q in await producer.queues(topic) if q.queue_id == 0)
        for n in range(6):
            keys = ("shared", f"n{n}") if n % 2 else (f"n{n}",)
            await producer.send(Message(topic, b"x", keys=keys), queue=queue)
    await instance.ensure_route(topic)
    address = instance.routes.master(queue.broker_name)
    assert address is not None
    calls = BulkCalls(instance)
    found = (await calls.key_places(topic, "shared", address))[0]
    assert found.start == 0
    assert found.stop - 5 == found.offsets[0], "the last six messages are these"
    assert found.offsets == (found.stop - 5, found.stop - 3, found.stop - 1)
    assert (await calls.key_places(topic, "n4", address))[0].offsets == (found.stop - 2,)
    assert (await calls.key_places(topic, "none", address))[0].offsets == ()
    with pytest.raises(Refused) as refused:
        await calls.key_places("Nope", "n4", address)
    assert refused.value.code == ResponseCode.TOPIC_NOT_EXIST


async def test_errors_keep_their_code(instance: Instance, queue: MessageQueue) -> None:
    await instance.ensure_route(queue.topic)
    with pytest.raises(Refused) as refused:
        await BulkCalls(instance).read(MessageQueue("Nope", queue.broker_name, 0), 0)
    assert refused.value.code == ResponseCode.TOPIC_NOT_EXIST
    with pytest.raises(NotReachable, match="broker-x"):
        await BulkCalls(instance).read(MessageQueue(queue.topic, "broker-x", 0), 0)


async def test_a_broker_that_does_not_know_them(
    any_cluster: Cluster, topic: str, orders: list[SendResult]
) -> None:
    if any_cluster.kind == "epochmq":
        pytest.skip("ours knows them")
    instance = Instance(any_cluster.namesrv_addr)
    try:
        await instance.ensure_route(topic)
        with pytest.raises(Refused) as refused:
            await BulkCalls(instance).read(orders[0].queue, 0)
        assert refused.value.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        address = instance.routes.master(orders[0].queue.broker_name)
        assert address is not None
        with pytest.raises(Refused) as refused:
            await BulkCalls(instance).key_places(topic, "k", address)
        assert refused.value.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    finally:
        await instance.close()


async def test_the_log_and_its_digests(instance: Instance, queue: MessageQueue) -> None:
    await instance.ensure_route(queue.topic)
    calls = BulkCalls(instance)
    address = instance.routes.master(queue.broker_name)
    assert address is not None
    found = await calls.digests(address, 0, block_bytes=1 << 20)
    log, at = b"", 0
    while (part := await calls.log(address, at, 700_000)).data:
        log += part.data
        at = part.next_offset
    assert at == part.confirmed == len(log)
    assert len(found.blocks) == -(-found.confirmed // (1 << 20))
    for offset, size, text in found.blocks:
        assert text == blake2b(log[offset : offset + size], digest_size=16).hexdigest()
    with pytest.raises(Refused) as refused:
        await calls.log(address, 1 << 60)
    assert refused.value.code == ResponseCode.PULL_OFFSET_MOVED


async def test_a_broker_without_controllers_has_no_epochs(
    instance: Instance, queue: MessageQueue
) -> None:
    await instance.ensure_route(queue.topic)
    with pytest.raises(Refused, match="not in controller mode"):
        await BulkCalls(instance).epoch_offsets(queue.topic, queue.broker_name, 1)
