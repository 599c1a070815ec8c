"""Ordered consumption by locks, with two members: who comes, who leaves, who dies, who loses.

The broker runs in this process, so that a lock's life can be made short.
"""

import asyncio
import signal
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.broker.server.test_broker_server import options
from tests.client.aio.collecting import Collector
from tests.client.aio.test_push_consumer import owned

from epochmq.base.errors import PeerError
from epochmq.broker.server.broker_server import Broker
from epochmq.client.aio import Admin, ConsumeResult, Producer, PushConsumer, group_member
from epochmq.model.message import Message, StoredMessage
from epochmq.model.topic import MessageQueue, TopicConfig
from epochmq.nameserver.name_server import NameServer
from epochmq.nameserver.options import NamesrvOptions

pytestmark = pytest.mark.slow

QUEUES = 4
MEMBER = """
import asyncio, sys
from epochmq.client.aio import PushConsumer
async def main(namesrv, group, topic):
    async with PushConsumer(namesrv, group, start="first", ordered=True) as consumer:
        @consumer.on_message
        async def show(messages):
            print(messages[0].queue_id, messages[0].body.decode(), flush=True)
            await asyncio.sleep(0.05)
        await consumer.subscribe(topic)
        await consumer.start()
        await asyncio.sleep(60)
asyncio.run(main(*sys.argv[1:]))
"""


@dataclass
class Place:
    broker: Broker
    namesrv: str


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    names = NameServer(NamesrvOptions(listen_port=0, kv_config_path=str(tmp_path / "kv.json")))
    await names.start()
    namesrv = f"127.0.0.1:{names.port}"
    broker = Broker(options(tmp_path, namesrvAddr=namesrv))
    await broker.start()
    yield Place(broker, namesrv)
    await broker.stop(grace_ms=500)
    await names.stop()


async def fill(place: Place, topic: str, each: int) -> None:
    """`each` numbered messages in each of the queues."""
    async with Admin(place.namesrv) as admin:
        await admin.create_topic(TopicConfig(topic, QUEUES, QUEUES))
    async with Producer(place.namesrv, "p") as producer:
        queues = await producer.queues(topic)
        for number in range(each):
            for queue in queues:
                await producer.send(Message(topic, b"%d" % number), queue=queue)


def member(place: Place, topic: str) -> PushConsumer:
    return PushConsumer(place.namesrv, f"g_{topic}", start="first", ordered=True)


async def until(true: Callable[[], bool], within_s: float = 40) -> None:
    async with asyncio.timeout(within_s):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def reached(messages: list[StoredMessage], last: int) -> bool:
    """Whether the last message of each queue was seen."""
    rows = by_queue(messages)
    return len(rows) == QUEUES and all(row[-1] == last for row in rows.values())


def by_queue(messages: list[StoredMessage]) -> dict[int, list[int]]:
    rows: dict[int, list[int]] = defaultdict(list)
    for message in messages:
        rows[message.queue_id].append(int(message.body))
    return rows


async def test_a_killed_members_queues_come_when_its_locks_run_out(
    place: Place, topic: str
) -> None:
    place.broker.node.locks.life_ms = 2_000
    await fill(place, topic, 40)
    victim = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        MEMBER,
        place.namesrv,
        f"g_{topic}",
        topic,
        stdout=asyncio.subprocess.PIPE,
    )
    assert victim.stdout is not None
    seen: dict[int, list[int]] = defaultdict(list)

    async def watch() -> None:
        assert victim.stdout is not None
        async for line in victim.stdout:
            queue, number = map(int, line.split())
            seen[queue].append(number)

    watching = asyncio.create_task(watch())
    await until(lambda: len(seen) == QUEUES)
    collector = Collector(1 << 30)
    consumer = member(place, topic)
    consumer.on_message(collector)
    await consumer.subscribe(topic)
    await consumer.start()
    await owned(consumer, topic, QUEUES // 2)
    victim.send_signal(signal.SIGKILL)
    await watching
    await victim.wait()
    await until(lambda: reached(collector.seen, 39))
    await consumer.close()
    for queue, rows in by_queue(collector.seen).items():
        # In order and without a gap; what the dead one had not committed comes again.
        assert rows == list(range(rows[0], 40))
        assert rows[0] <= seen[queue][-1] + 1


async def test_a_leaving_member_releases_its_queues_at_once_and_in_order(
    place: Place, topic: str
) -> None:
    await fill(place, topic, 30)
    log: list[tuple[str, StoredMessage]] = []

    def noting(name: str) -> Collector:
        def note(message: StoredMessage) -> ConsumeResult:
            log.append((name, message))
            return ConsumeResult.SUCCESS

        return Collector(1 << 30, note)

    first, second = member(place, topic), member(place, topic)
    for name, consumer in (("first", first), ("second", second)):
        consumer.on_message(noting(name))
        await consumer.subscribe(topic)
        await consumer.start()
    await owned(first, topic, 2)
    await owned(second, topic, 2)
    await first.close()
    # A lock lives for 60 s: nobody waited for that.
    await until(lambda: reached([m for _, m in log], 29), 10)
    await second.close()
    assert by_queue([m for _, m in log]) == {queue: list(range(30)) for queue in range(QUEUES)}


async def test_locks_are_renewed_for_as_long_as_a_listener_needs(
    place: Place, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_member, "LOCK_MS", 100)
    locks = place.broker.node.locks
    await fill(place, topic, 1)
    go_on = asyncio.Event()

    async def slow(messages: list[StoredMessage]) -> None:
        await go_on.wait()

    def owners(queues: list[MessageQueue], at_ms: int) -> set[str | None]:
        return {locks.owner(f"g_{topic}", queue, at_ms) for queue in queues}

    consumer = member(place, topic)
    consumer.on_message(slow)
    await consumer.subscribe(topic)
    await consumer.start()
    await owned(consumer, topic, QUEUES)
    queues = list(consumer.member.owned)
    first_ends_ms = place.broker.node.clock.now_ms() + locks.life_ms
    for renewals in range(1, 4):
        at_ms = first_ends_ms + renewals * 300
        await until(lambda at=at_ms: owners(queues, at) == {consumer.instance.client_id})
    go_on.set()
    await consumer.close()
    assert len(locks) == 0


async def test_a_queue_that_moves_waits_for_the_listener_that_has_a_message(
    place: Place, topic: str
) -> None:
    """Else two members would handle the same message, one of them without being told to stop."""
    await fill(place, topic, 2)
    go_on, log = asyncio.Event(), list[tuple[str, int, bytes]]()

    async def slow(messages: list[StoredMessage]) -> None:
        await go_on.wait()
        log.append(("first", messages[0].queue_id, messages[0].body))

    def quick(messages: list[StoredMessage]) -> None:
        log.append(("second", messages[0].queue_id, messages[0].body))

    first, second = member(place, topic), member(place, topic)
    first.on_message(slow)
    await first.subscribe(topic)
    await first.start()
    await owned(first, topic, QUEUES)
    second.on_message(quick)
    await second.subscribe(topic)
    await second.start()
    await owned(first, topic, 2)  # it knows that two are not its own any more
    await asyncio.sleep(0.5)
    assert log == []
    go_on.set()
    await until(lambda: len(log) == 2 * QUEUES)
    for queue in range(QUEUES):
        assert [body for _, q, body in log if q == queue] == [b"0", b"1"]
    await second.close()
    await first.close()


async def test_a_lost_lock_loses_what_waits_and_commits_nothing(place: Place, topic: str) -> None:
    await fill(place, topic, 3)
    held = asyncio.Event()

    async def stuck(messages: list[StoredMessage]) -> None:
        if not held.is_set():
            await held.wait()

    consumer = member(place, topic)
    consumer.on_message(stuck)
    await consumer.subscribe(topic)
    await consumer.start()
    await owned(consumer, topic, QUEUES)
    queue = MessageQueue(topic, "b", 0)
    node = place.broker.node
    node.locks.unlock(f"g_{topic}", [queue], consumer.instance.client_id)
    node.locks.lock(f"g_{topic}", [queue], "another", node.clock.now_ms())
    node.offsets.commit(f"g_{topic}", topic, 0, 2)  # the other one is further
    await consumer.member._renew("b", [queue, MessageQueue(topic, "b", 1)])
    assert queue not in consumer.member.owned
    assert MessageQueue(topic, "b", 1) in consumer.member.owned
    assert node.offsets.get(f"g_{topic}", topic, 0) == 2
    node.locks.unlock(f"g_{topic}", [queue], "another")
    async with asyncio.timeout(20):
        await owned(consumer, topic, QUEUES)
    assert consumer.member.owned[queue].cursor.next_offset >= 2
    held.set()
    await consumer.close()
    assert node.offsets.get(f"g_{topic}", topic, 0) == 3


async def test_a_lock_that_was_not_renewed_for_its_life_is_lost_too(
    place: Place, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was to be had by others meanwhile, whoever has it now."""
    await fill(place, topic, 1)
    consumer = member(place, topic)
    consumer.on_message(Collector(1))
    await consumer.subscribe(topic)
    await consumer.start()
    await owned(consumer, topic, QUEUES)
    queue = MessageQueue(topic, "b", 0)
    before = consumer.member.owned[queue]
    await consumer.member._renew("b", [queue])
    assert consumer.member.owned[queue] is before
    monkeypatch.setattr(group_member, "BROKER_LOCK_MS", 0)
    await consumer.member._renew("b", [queue])
    monkeypatch.undo()
    async with asyncio.timeout(20):
        await owned(consumer, topic, QUEUES)
    assert consumer.member.owned[queue] is not before
    await consumer.close()


async def test_an_answer_that_cannot_be_read_ends_neither_locks_nor_sharing_nor_commits(
    place: Place, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each goes on by itself for as long as the consumer lives: the next answer may be good."""
    await fill(place, topic, 1)
    consumer = member(place, topic)
    consumer.on_message(Collector(1))
    await consumer.subscribe(topic)
    await consumer.start()
    await owned(consumer, topic, QUEUES)
    queue = MessageQueue(topic, "b", 0)

    async def unreadable(*_: object) -> None:
        raise PeerError("no JSON")

    for name in ("lock", "members", "commit"):
        monkeypatch.setattr(consumer.member.calls, name, unreadable)
    assert not await consumer.member._renew("b", [queue])
    assert not await consumer.member.rebalance()
    await consumer.member._persist({queue: 1})
    assert queue in consumer.member.offsets.pop_unsaved(queue)
    monkeypatch.undo()
    assert await consumer.member._renew("b", [queue])
    assert await consumer.member.rebalance()
    await consumer.close()
