"""Messages for an exact time on real brokers: none early, none lost, across crashes and failovers.

A message may come twice where a crash fell between its delivery and the note of it, and then only.
"""

import asyncio
import random
import time
from collections import Counter

from epochmq.base.errors import EpochError
from epochmq.client.aio import Producer, PullConsumer
from epochmq.model.message import Message, StoredMessage

from .peers import admin
from .peers.epochmq import EpochCluster
from .peers.group import Group
from .peers.process import wait_until

TOPIC = "Timed"
COUNT = 300
SPREAD_MS = 12_000
LATE_MS = 30_000
"""A crash, a restart and a busy machine; lateness is measured elsewhere."""


async def send_all(namesrv: str, seed: int) -> dict[bytes, int]:
    """Due time by body, as the sender's clock has it: it is the broker's, too."""
    chance = random.Random(seed)
    due: dict[bytes, int] = {}
    async with Producer(namesrv, "timers") as producer:
        for n in range(COUNT):
            body = b"%d" % n
            delay = 1_000 + chance.randrange(SPREAD_MS)
            at = time.time_ns() // 1_000_000 + delay
            message = Message(TOPIC, body, deliver_at_ms=at)
            if n % 2:
                message = Message(TOPIC, body, delay_ms=delay)
            result = await producer.send(message, timeout_ms=10_000)
            assert result.queue.topic == TOPIC
            due[body] = at
    return due


async def read_all(namesrv: str) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    async with PullConsumer(namesrv, "timers-check") as consumer:
        for queue in await consumer.queues(TOPIC):
            offset, end = 0, await consumer.max_offset(queue)
            while offset < end:
                result = await consumer.pull(queue, offset)
                found += result.messages
                offset = result.next_offset
    return found


def arrived(namesrv: str) -> list[StoredMessage]:
    try:
        return asyncio.run(read_all(namesrv))
    except EpochError:
        return []  # no master at this moment


def wait_for_all(namesrv: str, due: dict[bytes, int]) -> list[StoredMessage]:
    last_s = max(due.values()) / 1_000 - time.time()
    wait_until(
        lambda: len({message.body for message in arrived(namesrv)}) == len(due),
        max(0.0, last_s) + LATE_MS / 1_000,
        "all timed messages",
    )
    return arrived(namesrv)


def check(due: dict[bytes, int], found: list[StoredMessage]) -> None:
    early = [m.body for m in found if m.store_wall_ms < due[m.body]]
    assert not early, f"{len(early)} came early"
    counts = Counter(message.body for message in found)
    assert set(counts) == set(due)
    lateness = sorted(m.store_wall_ms - due[m.body] for m in found)
    twice = sum(count > 1 for count in counts.values())
    print(f"late: p50 {lateness[len(lateness) // 2]} ms, max {lateness[-1]} ms; twice: {twice}")


def test_none_is_early_and_none_lost_across_kill_9() -> None:
    with EpochCluster() as cluster:
        admin.create_topic(cluster.broker_addr, TOPIC)
        due = asyncio.run(send_all(cluster.namesrv_addr, 1))
        half = sorted(due.values())[COUNT // 2]
        for at in (half - 2_000, half):
            time.sleep(max(0.0, at / 1_000 - time.time()))
            cluster.kill9_broker()
            cluster.start_broker()
        found = wait_for_all(cluster.namesrv_addr, due)
        check(due, found)
        cluster.restart_broker()
        assert len(arrived(cluster.namesrv_addr)) == len(found)  # and none comes again


def test_none_is_early_and_none_lost_across_a_failover() -> None:
    config = {"minInSyncReplicas": 2, "defaultTopicQueueNums": 4}
    with Group(broker_config=config) as group:
        master = group.master()
        assert master is not None
        admin.create_topic(master.address, TOPIC)
        due = asyncio.run(send_all(group.namesrv_addr, 2))
        half = sorted(due.values())[COUNT // 2]
        time.sleep(max(0.0, half / 1_000 - time.time()))
        master.process.kill9()
        check(due, wait_for_all(group.namesrv_addr, due))
