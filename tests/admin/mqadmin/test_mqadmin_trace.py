"""`queryMsgTraceById` and `message trace`, on traces of a real broker."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.admin.world import World
from tests.client.aio.eventually import eventually
from tests.compat.peers.epochmq import EpochCluster

from epochmq.admin.mqadmin.mqadmin_trace import COMMANDS
from epochmq.admin.shared.trace_figures import message_trace
from epochmq.client.aio import Admin, MessageTrace, Producer
from epochmq.model.message import Message


@pytest.fixture(scope="module")
def traced() -> Iterator[World]:
    with EpochCluster(broker_config={"traceTopicEnable": True}) as running:
        yield World(running)


@pytest.fixture(scope="module")
def msg_id(traced: World) -> str:
    async def send() -> str:
        namesrv = traced.cluster.namesrv_addr
        async with Producer(namesrv, "shop", hooks=[MessageTrace()]) as producer:
            sent = await producer.send(Message("orders", b"one"))
        async with Admin(namesrv) as admin:
            await eventually(lambda: message_trace(admin, sent.msg_id))
        return sent.msg_id

    return asyncio.run(send())


def test_text_as_rocketmqs_tool_prints_it(traced: World, msg_id: str) -> None:
    assert list(COMMANDS) == ["queryMsgTraceById"]
    ran = traced.mqadmin("queryMsgTraceById", "-i", msg_id)
    assert ran.code == 0, ran
    head, row, blank = ran.lines
    names = ["#Type", "#ProducerGroup", "#ClientHost", "#SendTime", "#CostTimes", "#Status"]
    assert head.split() == names
    kind, group, host, _day, _time, cost, status = row.split()
    assert (kind, group, host, status, blank) == ("Pub", "shop", "127.0.0.1", "success", "")
    assert cost.endswith("ms")


def test_rows_as_json(traced: World, msg_id: str) -> None:
    for ran in (
        traced.mqadmin("queryMsgTraceById", "-i", msg_id, "--output", "json"),
        traced.run("message", "trace", msg_id, "-o", "json"),
    ):
        (row,) = ran.rows
        assert (row["what"], row["group"], row["ok"]) == ("sent", "shop", True)


def test_what_was_not_traced(traced: World, world: World) -> None:
    ran = traced.run("message", "trace", "0" * 32)
    assert (ran.code, "no client traced" in ran.err) == (5, True)
    ran = world.run("message", "trace", "0" * 32)
    assert (ran.code, "RMQ_SYS_TRACE_TOPIC" in ran.err) == (5, True)
