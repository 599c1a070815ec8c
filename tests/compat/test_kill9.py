"""`kill -9` under load with sync flush: what was acknowledged stays, nothing else appears.

INV-17, INV-20 to INV-22.

The load runs through every kill. A send without an answer is UNKNOWN: it may be there or not.
Replay a run with `EPOCHMQ_KILLS=100 EPOCHMQ_SEED=<seed> pytest tests/compat/test_kill9.py`.
"""

import asyncio
import os
import random
from dataclasses import dataclass, field

from tests.tiers import choose

from epochmq.base.errors import EpochError
from epochmq.client.aio import Producer, PullConsumer
from epochmq.model.message import Message, StoredMessage
from epochmq.model.topic import MessageQueue

from .peers.epochmq import EpochCluster

KILLS = int(os.environ.get("EPOCHMQ_KILLS", choose(sample=15, soak=100)))
SEED = int(os.environ.get("EPOCHMQ_SEED", "20221"))
SENDERS = 8
QUEUES = 4
TOPIC = "KillTopic"


@dataclass
class History:
    """What the senders know."""

    acked: dict[str, tuple[int, int]] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)
    stop: bool = False
    progress: asyncio.Event = field(default_factory=asyncio.Event)


async def send_for_ever(producer: Producer, history: History, sender: int) -> None:
    """One message after the other, each to a fixed queue."""
    queue = MessageQueue(TOPIC, "broker-a", sender % QUEUES)
    number = 0
    while not history.stop:
        identity = f"{sender}-{number}"
        number += 1
        history.tried.add(identity)
        try:
            message = Message(TOPIC, identity.encode() + b"." * random.randrange(2_000))
            result = await producer.send(message, queue=queue, timeout_ms=1_500)
        except EpochError:
            await asyncio.sleep(0.01)
            continue
        history.acked[identity] = (result.queue.queue_id, result.queue_offset)
        history.progress.set()


async def kill_again_and_again(
    cluster: EpochCluster, history: History, chance: random.Random
) -> None:
    """Kill the broker `KILLS` times, each time once some messages were acknowledged."""
    loop = asyncio.get_running_loop()
    for _ in range(KILLS):
        for _ in range(20):
            history.progress.clear()
            await history.progress.wait()
        await asyncio.sleep(chance.random() * 0.2)
        await loop.run_in_executor(None, cluster.kill9_broker)
        await loop.run_in_executor(None, cluster.start_broker)


async def read_all(cluster: EpochCluster) -> dict[int, list[StoredMessage]]:
    """Every message of every queue, from the first offset to the last."""
    found: dict[int, list[StoredMessage]] = {}
    async with PullConsumer(cluster.namesrv_addr, "kill-check") as consumer:
        for queue in await consumer.queues(TOPIC):
            offset, end = 0, await consumer.max_offset(queue)
            found[queue.queue_id] = []
            while offset < end:
                result = await consumer.pull(queue, offset)
                found[queue.queue_id] += result.messages
                assert result.next_offset > offset, (queue, result)
                offset = result.next_offset
    return found


async def run(cluster: EpochCluster) -> tuple[History, dict[int, list[StoredMessage]]]:
    """The whole history, then everything that the broker holds."""
    history = History()
    async with Producer(cluster.namesrv_addr, "kill", retries=0, avoid_faulty=False) as producer:
        await producer.queues(TOPIC)
        senders = [asyncio.create_task(send_for_ever(producer, history, n)) for n in range(SENDERS)]
        await kill_again_and_again(cluster, history, random.Random(SEED))
        history.stop = True
        await asyncio.gather(*senders)
    return history, await read_all(cluster)


def check(history: History, found: dict[int, list[StoredMessage]]) -> None:
    """Nothing lost, nothing invented, no gap, one place for each acknowledged message."""
    for queue_id, messages in found.items():
        assert [m.queue_offset for m in messages] == list(range(len(messages))), queue_id
    place = {
        (queue_id, message.queue_offset): message.body.partition(b".")[0].decode()
        for queue_id, messages in found.items()
        for message in messages
    }
    lost = {i: where for i, where in history.acked.items() if place.get(where) != i}
    assert not lost, f"{len(lost)} of {len(history.acked)} acknowledged messages are lost: {lost}"
    phantoms = set(place.values()) - history.tried
    assert not phantoms, f"never sent: {phantoms}"


def test_nothing_acknowledged_is_lost_by_kill_9() -> None:
    config = {
        "flushDiskType": "SYNC_FLUSH",
        "mappedFileSizeCommitLog": 1 << 20,  # rolls are frequent
        "maxMessageSize": 1 << 16,
        "mappedFileSizeConsumeQueue": 20_000,
        "defaultTopicQueueNums": QUEUES,
    }
    with EpochCluster(broker_config=config) as cluster:
        history, found = asyncio.run(run(cluster))
    check(history, found)
    print(f"{KILLS} kills, {len(history.acked)} acknowledged of {len(history.tried)}, seed {SEED}")
