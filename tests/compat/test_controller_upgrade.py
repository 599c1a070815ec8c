"""RIP-44's migration: a master-slave pair of ours with data becomes a group in place."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from epochmq.client.aio import Admin, Producer, PullConsumer
from epochmq.model.message import Message
from epochmq.model.topic import TopicConfig

from .peers import wire
from .peers.group import Group, Server
from .peers.process import wait_until

TOPIC = "Upgraded"
QUEUES = 4
COUNT = 400
ALIGNED_S = 30.0
FAILOVER_S = 20.0
_MAX_OFFSET = 30
PLAIN = {"enableControllerMode": False, "allAckInSyncStateSet": False}


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    made = Group(replicas=2, broker_config={"mappedFileSizeCommitLog": 8 << 20})
    try:
        yield made
    finally:
        made.stop()


async def send(namesrv: str, prefix: str) -> set[bytes]:
    """What was acknowledged."""
    bodies = {f"{prefix}-{n}".encode() for n in range(COUNT)}
    async with Producer(namesrv, "upgrade", timeout_ms=15_000) as producer:
        results = await asyncio.gather(*(producer.send(Message(TOPIC, body)) for body in bodies))
    assert {result.status.name for result in results} == {"SEND_OK"}
    return bodies


async def read_all(namesrv: str) -> list[bytes]:
    """Every message of every queue."""
    found: list[bytes] = []
    async with PullConsumer(namesrv, "upgrade-check") as consumer:
        for queue in await consumer.queues(TOPIC):
            offset, end = 0, await consumer.max_offset(queue)
            while offset < end:
                result = await consumer.pull(queue, offset)
                found += [message.plain_body() for message in result.messages]
                offset = result.next_offset
    return found


def ends(server: Server) -> list[int]:
    """The ends of the topic's queues at one broker."""
    asked = (
        wire.call(server.address, _MAX_OFFSET, {"topic": TOPIC, "queueId": queue})
        for queue in range(QUEUES)
    )
    return [int(answer.ext.get("offset", 0)) for answer in asked]


def log_bytes(server: Server, size: int) -> bytes:
    """The beginning of the log's first file."""
    (file,) = sorted((server.root / "store" / "commitlog").iterdir())[:1]
    with file.open("rb") as opened:
        return opened.read(size)


def start_plain(group: Group) -> None:
    """The pair as it ran before: a master and a slave, no controllers."""
    group.namesrv.start()
    group.wait_listening(group.namesrv)
    roles = ({"brokerId": 0, "brokerRole": "ASYNC_MASTER"}, {"brokerId": 1, "brokerRole": "SLAVE"})
    for broker, role in zip(group.brokers, roles, strict=True):
        broker.config |= {**role, **PLAIN}
        broker.start()
        group.wait_listening(broker)
    wait_until(
        lambda: all(wire.is_registered(group.namesrv_addr, b.address) for b in group.brokers),
        group.ready_timeout_s,
        "both registered",
    )


async def make_topic(namesrv: str) -> None:
    async with Admin(namesrv) as admin:
        await admin.create_topic(TopicConfig(TOPIC, QUEUES, QUEUES))


def test_a_pair_with_data_is_upgraded_in_place_and_fails_over(group: Group) -> None:
    start_plain(group)
    asyncio.run(make_topic(group.namesrv_addr))
    before = asyncio.run(send(group.namesrv_addr, "before"))
    master, slave = group.brokers
    assert sum(ends(master)) == COUNT
    wait_until(lambda: ends(slave) == ends(master), ALIGNED_S, "the slave has all of it")
    slave.process.stop()
    master.process.stop()

    # The same files, the same keys; controller mode and its promises added.
    for broker in group.brokers:
        broker.config |= {"enableControllerMode": True, "allAckInSyncStateSet": True}
    for server in (*group.controllers, *group.brokers):
        server.start()
    group.wait_ready()
    assert sorted(asyncio.run(read_all(group.namesrv_addr))) == sorted(before)
    after = asyncio.run(send(group.namesrv_addr, "after"))

    old = group.master()
    assert old is not None
    old.process.kill9()
    last = asyncio.run(send(group.namesrv_addr, "last"))
    assert group.master() not in (None, old)
    old.start()
    group.wait_ready()
    found = asyncio.run(read_all(group.namesrv_addr))
    assert set(found) == before | after | last
    wait_until(lambda: ends(master) == ends(slave), ALIGNED_S, "the old master has all of it")
    size = 400 * 3 * 100
    assert log_bytes(master, size) == log_bytes(slave, size)
