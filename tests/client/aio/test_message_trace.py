"""RocketMQ's message trace of our clients: what is stored, and that it never harms a message."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.client.aio.collecting import Collector
from tests.client.aio.eventually import eventually
from tests.client.aio.test_hooks import Always
from tests.compat.peers.epochmq import EpochCluster

from epochmq.admin.shared.trace_figures import TraceRow, message_trace
from epochmq.base.errors import EpochError, NotFound, UsageError
from epochmq.client.aio import (
    Admin,
    ConsumeResult,
    MessageTrace,
    Producer,
    PushConsumer,
    TransactionProducer,
    TransactionState,
)
from epochmq.client.aio import (
    message_trace as module,
)
from epochmq.client.core import trace_text
from epochmq.model.message import Message, StoredMessage
from epochmq.model.names import TRACE_TOPIC

pytestmark = [pytest.mark.compat, pytest.mark.slow]


@pytest.fixture(scope="module")
def traced() -> Iterator[EpochCluster]:
    """A broker that has the topic of traces."""
    with EpochCluster(broker_config={"traceTopicEnable": True}) as running:
        yield running


@pytest.fixture
def namesrv(traced: EpochCluster) -> str:
    return traced.namesrv_addr


async def rows_of(namesrv: str, msg_id: str, count: int) -> list[TraceRow]:
    async with Admin(namesrv) as admin:
        return await eventually(
            lambda: message_trace(admin, msg_id), lambda found: len(found) >= count
        )


async def test_sends_and_listener_calls(namesrv: str, topic: str) -> None:
    group = f"g_{topic}"
    async with Producer(namesrv, "shop", hooks=[MessageTrace()]) as producer:
        sent = await producer.send(Message(topic, b"one", "tag", ("k1", "k2")))
    tries = 0

    def decide(message: StoredMessage) -> ConsumeResult:
        nonlocal tries
        tries += 1
        return ConsumeResult.LATER if tries == 1 else ConsumeResult.SUCCESS

    collector = Collector(1, decide)
    async with PushConsumer(namesrv, group, start="first", hooks=[MessageTrace()]) as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.start()
        await collector.wait()
    rows = await rows_of(namesrv, sent.msg_id, 3)
    assert [(row.is_send, row.group, row.is_done) for row in rows] == [
        (True, "shop", True),
        (False, group, False),
        (False, group, True),
    ]
    assert all(row.cost_ms >= 0 and row.wall_ms > 0 for row in rows)
    assert {row.client_host for row in rows} == {"127.0.0.1"}


async def test_each_message_of_a_batch_is_found(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "shop", hooks=[MessageTrace()]) as producer:
        sent = await producer.send_batch([Message(topic, b"%d" % n) for n in range(150)])
    ids = sent.msg_id.split(",")
    for msg_id in (ids[0], ids[99], ids[-1]):
        (row,) = await rows_of(namesrv, msg_id, 1)
        assert row.is_send


async def test_the_end_of_a_transaction_is_stored(namesrv: str, topic: str) -> None:
    async with Producer(namesrv) as producer:
        await producer.send(Message(topic, b"makes the topic"))
    listener = Always(TransactionState.COMMIT)
    async with TransactionProducer(namesrv, "tx", listener, hooks=[MessageTrace()]) as producer:
        sent = await producer.send_in_transaction(Message(topic, b"half"))
    (row,) = await rows_of(namesrv, sent.send.msg_id, 1)
    assert (row.is_send, row.group) == (True, "tx")
    async with Admin(namesrv) as admin:
        found = await admin.messages_by_key(TRACE_TOPIC, sent.send.msg_id)
    texts = "".join(each.plain_body().decode() for each in found)
    assert f"{trace_text.END_TRANSACTION}\x01" in texts
    assert "\x01COMMIT_MESSAGE\x01false" in texts


async def test_a_send_that_fails_is_traced(namesrv: str, topic: str, traced: EpochCluster) -> None:
    hook = MessageTrace()
    message = Message(topic, b"kept")
    async with Producer(namesrv, "shop", hooks=[hook]) as producer:
        await producer.send(message)
        too_long = Message(topic, b"x", properties={"p": "x" * 40_000, "UNIQ_KEY": "F" * 32})
        with pytest.raises(EpochError):
            await producer.send(too_long)
    (row,) = await rows_of(namesrv, "F" * 32, 1)
    assert (row.is_send, row.is_done) == (True, False)


async def test_without_the_topic_traces_are_dropped_and_messages_are_not(
    topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    hook = MessageTrace()
    with EpochCluster(broker_config={"autoCreateTopicEnable": False}) as cluster:
        async with Producer(cluster.namesrv_addr, "shop", hooks=[hook]) as producer:
            from epochmq.model.topic import TopicConfig

            async with Admin(cluster.namesrv_addr) as admin:
                await admin.create_topic(TopicConfig(topic, 1, 1))
                for _ in range(3):
                    await producer.send(Message(topic, b"one"))

                async def dropped() -> int:
                    return hook.dropped

                await eventually(dropped, lambda count: count == 3)
                with pytest.raises(NotFound):
                    await message_trace(admin, "x")
    assert caplog.text.count("message traces are dropped") == 1
    assert "traceTopicEnable" in caplog.text


async def test_too_many_traces_are_dropped_and_counted(
    namesrv: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 10)
    hook = MessageTrace()
    async with Producer(namesrv, "shop", hooks=[hook]) as producer:
        await producer.send_batch([Message(topic, b"%d" % n) for n in range(50)])
    assert hook.dropped == 40


async def test_many_keys_and_long_ones_are_bounded(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "shop", hooks=[MessageTrace()]) as producer:
        keys = tuple(f"{n}-{'k' * 100}" for n in range(200))
        sent = [await producer.send(Message(topic, b"one", keys=keys)) for _ in range(3)]
    for each in sent:
        assert len(await rows_of(namesrv, each.msg_id, 1)) == 1


async def test_closing_does_not_wait_for_ever(
    namesrv: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLOSE_S", 0.2)
    hook = MessageTrace()
    async with Producer(namesrv, "shop", hooks=[hook]) as producer:
        await producer.send(Message(topic, b"one"))
        assert hook._producer is not None

        async def never(message: Message) -> None:
            await asyncio.sleep(60)

        monkeypatch.setattr(hook._producer, "send", never)
    assert hook.dropped == 1


async def test_one_object_is_for_one_client(namesrv: str) -> None:
    hook = MessageTrace()
    async with Producer(namesrv, hooks=[hook]):
        with pytest.raises(UsageError, match="another client"):
            async with Producer(namesrv, hooks=[hook]):
                pass
