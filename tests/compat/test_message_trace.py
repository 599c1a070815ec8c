"""The message trace of two clients: RocketMQ's tool reads ours, and ours reads that of Java."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.client.aio.collecting import Collector
from tests.client.aio.eventually import eventually

from epochmq.admin.shared.trace_figures import TraceRow, message_trace
from epochmq.client.aio import Admin, MessageTrace, Producer, PushConsumer
from epochmq.model.message import Message
from epochmq.model.topic import TopicConfig

from .clients import JAVA_5
from .conftest import had
from .drivers.mqadmin import MqAdmin
from .peers.epochmq import EpochCluster

TOPIC, JAVAS = "traced", "traced-by-java"


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    with EpochCluster(broker_config={"traceTopicEnable": True}) as running:

        async def create() -> None:
            async with Admin(running.namesrv_addr) as admin:
                for topic in (TOPIC, JAVAS):
                    await admin.create_topic(TopicConfig(topic, 1, 1))

        asyncio.run(create())
        yield running.namesrv_addr


async def rows_of(namesrv: str, msg_id: str, count: int) -> list[TraceRow]:
    async with Admin(namesrv) as admin:
        return await eventually(
            lambda: message_trace(admin, msg_id), lambda found: len(found) >= count
        )


async def consume(namesrv: str, group: str, count: int) -> None:
    collector = Collector(count)
    async with PushConsumer(namesrv, group, start="first", hooks=[MessageTrace()]) as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(TOPIC)
        await consumer.start()
        await collector.wait()


def test_rocketmqs_tool_reads_our_trace(namesrv: str) -> None:
    async def work() -> str:
        async with Producer(namesrv, "our_shop", hooks=[MessageTrace()]) as producer:
            sent = await producer.send(Message(TOPIC, b"ours", "tag", ("k1", "k2")))
        await consume(namesrv, "our_billing", 1)
        await rows_of(namesrv, sent.msg_id, 2)
        return sent.msg_id

    msg_id = asyncio.run(work())
    with had(lambda: MqAdmin(namesrv)) as tool:
        output = tool.run(f"queryMsgTraceById -n {namesrv} -i {msg_id}")
    rows = [line.split() for line in output.splitlines() if line.startswith(("Pub", "Sub"))]
    assert [(row[0], row[1], row[2], row[-1]) for row in rows] == [
        ("Pub", "our_shop", "127.0.0.1", "success"),
        ("Sub", "our_billing", "127.0.0.1", "success"),
    ], output


def test_we_read_the_trace_of_javas_clients(namesrv: str) -> None:
    with had(JAVA_5.build) as driver:
        sent = driver.run("send", namesrv, JAVAS, group="java_shop", trace=True, count=1).sent
        msg_id = sent[0]["id"]
        # Java's client loses the trace of a listener call during which it is shut down.
        lasting = {"count": 1, "linger_ms": 1000}
        driver.run("push", namesrv, JAVAS, group="java_billing", trace=True, **lasting)
    rows = asyncio.run(rows_of(namesrv, msg_id, 2))
    assert [(row.is_send, row.group, row.is_done) for row in rows] == [
        (True, "java_shop", True),
        (False, "java_billing", True),
    ]
