"""Our brokers in controller mode on RocketMQ 5.3.3's controllers, which know no leases."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from chaos.drain import compare_logs

from epochmq.client.aio import Admin, Producer, PullConsumer
from epochmq.model.message import Message
from epochmq.model.topic import TopicConfig
from epochmq.wire.codes import RequestCode

from .conftest import had
from .peers import wire
from .peers.group import JAVA, OURS, Group, Server
from .peers.process import wait_until

TOPIC = "OnJavaControllers"
COUNT = 300
FAILOVER_S = 60.0


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    made = had(lambda: Group(JAVA, OURS, replicas=2))
    with made as running:
        asyncio.run(make_topic(running.namesrv_addr))
        # The log alone tells a new master of the topic, but not of its one queue.
        for broker in running.brokers:
            wait_until(lambda broker=broker: knows(broker), FAILOVER_S, "the topic copied")
        yield running


async def make_topic(namesrv: str) -> None:
    async with Admin(namesrv) as admin:
        await admin.create_topic(TopicConfig(TOPIC, 1, 1))


def knows(broker: Server) -> bool:
    return TOPIC in wire.call(broker.address, RequestCode.GET_ALL_TOPIC_CONFIG, {}).body.decode()


async def send(namesrv: str, prefix: str) -> dict[bytes, int]:
    """Bodies acknowledged by the whole set, with their places in the queue."""
    bodies = [f"{prefix}-{n}".encode() for n in range(COUNT)]
    async with Producer(namesrv, "on-java", timeout_ms=30_000) as producer:
        results = await asyncio.gather(*(producer.send(Message(TOPIC, body)) for body in bodies))
    assert {result.status.name for result in results} == {"SEND_OK"}
    return {body: result.queue_offset for body, result in zip(bodies, results, strict=True)}


async def read_all(namesrv: str) -> dict[int, bytes]:
    """The queue, by offsets."""
    found: dict[int, bytes] = {}
    async with PullConsumer(namesrv, "on-java-check") as consumer:
        (queue,) = await consumer.queues(TOPIC)
        offset, end = 0, await consumer.max_offset(queue)
        while offset < end:
            result = await consumer.pull(queue, offset)
            found |= {m.queue_offset: m.plain_body() for m in result.messages}
            offset = result.next_offset
    return found


def test_a_killed_master_is_replaced_and_nothing_acknowledged_is_lost(group: Group) -> None:
    acked = asyncio.run(send(group.namesrv_addr, "before"))
    old = group.master()
    before = group.sync_state()
    assert old is not None
    assert before is not None
    old.process.kill9()
    wait_until(lambda: group.master() not in (None, old), FAILOVER_S, "another master")
    state = group.sync_state()
    assert state is not None
    assert state.master_epoch > before.master_epoch
    acked |= asyncio.run(send(group.namesrv_addr, "after"))
    old.start()
    group.wait_ready()
    found = asyncio.run(read_all(group.namesrv_addr))
    assert {place: found.get(place) for place in acked.values()} == {
        place: body for body, place in acked.items()
    }


def test_the_returned_master_has_the_same_log(group: Group) -> None:
    master = group.master()
    assert master is not None
    size = 2 * COUNT * 100
    wait_until(lambda: compare_logs(group, size) == size, FAILOVER_S, "replicas agree")


def test_a_controller_dies_and_sends_go_on(group: Group) -> None:
    leader = group.controller_leader()
    assert leader is not None
    leader.process.kill9()
    assert len(asyncio.run(send(group.namesrv_addr, "headless"))) == COUNT
    wait_until(lambda: group.controller_leader() is not None, FAILOVER_S, "another leader")
    leader.start()
    group.wait_listening(leader)
    group.wait_ready()
