"""The producer against a real broker."""

import asyncio
import threading
from typing import Literal

import pytest
from tests.compat.peers.epochmq import EpochCluster

from epochmq.base.errors import EpochError, NotFound, NotReachable, Refused, UsageError
from epochmq.base.ports import Buffer
from epochmq.client.aio import Admin, Producer, PullConsumer
from epochmq.client.aio import producer as producer_module
from epochmq.client.aio.producer import COMPRESS_IN_THREAD_BYTES
from epochmq.client.core.send_policy import SendStatus
from epochmq.model.compression import Compressor, compressor
from epochmq.model.message import Message
from epochmq.model.topic import MessageQueue, TopicConfig


async def bodies(namesrv: str, topic: str) -> dict[int, list[bytes]]:
    found = {}
    async with PullConsumer(namesrv, "check") as consumer:
        for queue in await consumer.queues(topic):
            result = await consumer.pull(queue, 0)
            found[queue.queue_id] = [message.plain_body() for message in result.messages]
    return found


async def test_a_send_says_where_the_message_is(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "p") as producer:
        queue = MessageQueue(topic, "broker-a", 0)
        await producer.queues(topic)
        first = await producer.send(Message(topic, b"one", tags="A", keys=("k",)), queue=queue)
        second = await producer.send(Message(topic, b"two"), queue=queue)
    assert first.status is second.status is SendStatus.SEND_OK
    assert (first.queue, first.queue_offset, second.queue_offset) == (queue, 0, 1)
    assert len(first.msg_id) == len(first.offset_msg_id) == 32
    assert (await bodies(namesrv, topic))[0] == [b"one", b"two"]


async def test_queues_are_taken_in_turn(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "p") as producer:
        results = [await producer.send(Message(topic, b"x")) for _ in range(8)]
    assert sorted(result.queue.queue_id for result in results) == [0, 0, 1, 1, 2, 2, 3, 3]


async def test_a_key_keeps_its_order(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "p") as producer:
        for number in range(5):
            await producer.send_ordered(Message(topic, b"%d" % number), "key")
    found = [queue for queue in (await bodies(namesrv, topic)).values() if queue]
    assert found == [[b"0", b"1", b"2", b"3", b"4"]]


async def test_a_batch_lies_together(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "p") as producer:
        messages = [Message(topic, b"%d" % number) for number in range(3)]
        result = await producer.send_batch(messages)
    assert result.msg_id.count(",") == result.offset_msg_id.count(",") == 2
    assert (await bodies(namesrv, topic))[result.queue.queue_id] == [b"0", b"1", b"2"]
    async with PullConsumer(namesrv, "check") as consumer:
        await consumer.queues(topic)
        found = (await consumer.pull(result.queue, 0)).messages
    assert ",".join(str(message.uniq_key) for message in found) == result.msg_id


async def test_one_way_and_large_bodies_arrive(namesrv: str, topic: str) -> None:
    large = b"large" * 10_000
    async with Producer(namesrv, "p") as producer:
        await producer.send_oneway(Message(topic, b"one way"))
        await producer.send(Message(topic, large))
    found = [body for queue in (await bodies(namesrv, topic)).values() for body in queue]
    assert sorted(found) == sorted([b"one way", large])


@pytest.mark.parametrize(
    "messages",
    [[], [Message("A", b""), Message("B", b"")], [Message("A", b"", delay_level=1)]],
)
async def test_a_wrong_batch_is_refused(namesrv: str, messages: list[Message]) -> None:
    async with Producer(namesrv, "p") as producer:
        with pytest.raises(UsageError):
            await producer.send_batch(messages)


async def test_what_the_broker_refuses_for_good_is_not_tried_again(namesrv: str) -> None:
    async with Producer(namesrv, "p") as producer:
        with pytest.raises(EpochError, match=r"system|SCHEDULE|forbidden"):
            await producer.send(Message("SCHEDULE_TOPIC_XXXX", b"x"))


async def test_an_unknown_queue_is_refused(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "p", retries=0) as producer:
        await producer.send(Message(topic, b"x"))
        with pytest.raises(Refused, match="queue"):
            await producer.send(Message(topic, b"x"), queue=MessageQueue(topic, "broker-a", 99))


async def test_no_name_server_is_one_clear_error() -> None:
    async with Producer("127.0.0.1:1", "p", retries=0) as producer:
        with pytest.raises(NotReachable, match="no name server answers"):
            await producer.send(Message("T", b"x"), timeout_ms=500)


async def test_a_send_waits_while_no_broker_of_a_known_topic_is_registered() -> None:
    """A rolling restart: a master that stops unregisters before the next one is registered."""
    with EpochCluster(broker_config={"autoCreateTopicEnable": False}) as cluster:
        async with Admin(cluster.namesrv_addr) as admin:
            await admin.create_topic(TopicConfig("t", 1, 1))
        async with Producer(cluster.namesrv_addr, "p", timeout_ms=30_000) as producer:
            await producer.send(Message("t", b"one"))
            await asyncio.to_thread(cluster.stop_broker)
            with pytest.raises(NotReachable, match="no broker of topic t is registered now"):
                await producer.send(Message("t", b"x"), timeout_ms=200)
            with pytest.raises(NotFound):
                await producer.send(Message("unknown", b"x"))
            sending = asyncio.create_task(producer.send(Message("t", b"two")))
            await asyncio.to_thread(cluster.start_broker)
            assert (await sending).status is SendStatus.SEND_OK


async def test_it_can_be_started_and_closed_without_a_block(namesrv: str, topic: str) -> None:
    producer = Producer(namesrv, "p")
    await producer.start()
    await producer.start()
    assert (await producer.send(Message(topic, b"x"))).status is SendStatus.SEND_OK
    await producer.close()
    with pytest.raises(UsageError, match="closed"):
        await producer.start()


@pytest.mark.parametrize("codec", ["zlib", "lz4", "zstd"])
async def test_large_bodies_are_compressed_outside_the_event_loop(
    namesrv: str, topic: str, codec: Literal["zlib", "lz4", "zstd"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several threads compress at once, and the loop compresses small bodies meanwhile."""
    seen: set[tuple[bool, bool]] = set()

    def watched(codec: str) -> Compressor:
        real = compressor(codec)

        def compress(body: Buffer) -> bytes:
            is_on_loop = threading.current_thread() is threading.main_thread()
            seen.add((len(body) >= COMPRESS_IN_THREAD_BYTES, is_on_loop))
            return real.compress(body)

        return Compressor(real.sys_flag, compress)

    monkeypatch.setattr(producer_module, "compressor", watched)
    large = [b"%d " % number * COMPRESS_IN_THREAD_BYTES for number in range(10)]
    small = [b"%d " % number * 5_000 for number in range(10)]
    async with Producer(namesrv, "p", compression=codec) as producer:
        await asyncio.gather(*(producer.send(Message(topic, body)) for body in large + small))
    assert seen == {(True, False), (False, True)}
    found = [body for queue in (await bodies(namesrv, topic)).values() for body in queue]
    assert sorted(found) == sorted(large + small)


async def test_bodies_that_are_not_compressed_need_no_thread(
    namesrv: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio, "to_thread", None)
    async with Producer(namesrv, "p", compress_over_bytes=1 << 30) as producer:
        await producer.send(Message(topic, b"x" * 2 * COMPRESS_IN_THREAD_BYTES))
