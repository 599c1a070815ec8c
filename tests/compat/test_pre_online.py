"""A killed master comes back to the slave that acted for it (S14), as real processes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from epochmq.client.aio import Admin, Producer, PushConsumer
from epochmq.model.message import Message, StoredMessage
from epochmq.model.topic import MessageQueue, TopicConfig

from .peers import admin, wire
from .peers.group import JAVA, OURS, Server
from .peers.pairs import Pairs
from .peers.process import wait_until

NAME, OTHER, TOPIC, GROUP = "broker-a", "broker-b", "Returns", "g-returns"
QUERY_OFFSET, UPDATE_OFFSET, RUNTIME_INFO, ALL_OFFSETS = 14, 15, 28, 43
ALL_TOPICS, ALL_GROUPS = 21, 201
SEND_V2, END_TRANSACTION, ROLLBACK = 310, 37, 12
FIRST, SECOND, THIRD = 40, 40, 10
DELAYED, TEN_SECONDS = 20, 3
SHORT = {"brokerNotActiveTimeoutMillis": 2000, "flushConsumerOffsetInterval": 1000}


def figures(server: Server) -> dict[str, str]:
    with suppress(OSError, ValueError, KeyError):
        table: dict[str, str] = wire.call(server.address, RUNTIME_INFO, {}).json()["table"]
        return table
    return {}


def role(server: Server) -> str:
    return figures(server).get("epochmqRole", "")


def offsets(server: Server, queues: int) -> list[int]:
    """What the group has committed, queue by queue; -1 where nothing."""
    found = []
    for queue_id in range(queues):
        header = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": queue_id}
        answer = wire.call(server.address, QUERY_OFFSET, {**header, "setZeroIfNotFound": False})
        found.append(int(answer.ext.get("offset", -1)))
    return found


def has_copied(slave: Server, master: Server) -> bool:
    """Whether the slave has everything, tables and log."""
    theirs, ours = figures(slave), figures(master)
    end = "commitLogMaxOffset"
    return theirs.get("epochmqMetadataCopied") == "true" and theirs[end] == ours[end]


def is_back(pairs: Pairs) -> bool:
    """Whether the master is listed, which it must not be before it is online (INV-33)."""
    listed = 0 in pairs.members(NAME)
    assert not (listed and role(pairs.masters[NAME]) == "PRE_ONLINE")
    return listed and pairs.is_ready()


async def send(namesrv: str, first: int, count: int) -> None:
    async with Producer(namesrv, "p-returns") as producer:
        for number in range(first, first + count):
            await producer.send(Message(TOPIC, str(number).encode()))


async def consume(namesrv: str, wanted: int, settle_s: float = 0.0) -> list[int]:
    """Numbers that a member of the group is given until there are `wanted`, and a while after."""
    seen: list[int] = []
    enough = asyncio.Event()
    if wanted == 0:
        enough.set()

    async def take(messages: list[StoredMessage]) -> None:
        seen.extend(int(message.body) for message in messages)
        if len(seen) >= wanted:
            enough.set()

    async with PushConsumer(namesrv, GROUP, start="first") as consumer:
        consumer.on_message(take)
        await consumer.subscribe(TOPIC)
        await consumer.start()
        async with asyncio.timeout(30):
            await enough.wait()
        await asyncio.sleep(settle_s)
    return seen


@asynccontextmanager
async def listening(namesrv: str, seen: list[int]) -> AsyncIterator[None]:
    """A member of the group that notes the numbers it is given."""

    async def take(messages: list[StoredMessage]) -> None:
        seen.extend(int(message.body) for message in messages)

    async with PushConsumer(namesrv, GROUP, start="first") as consumer:
        consumer.on_message(take)
        await consumer.subscribe(TOPIC)
        await consumer.start()
        yield


async def eventually(holds: Callable[[], bool], timeout_s: float) -> None:
    async with asyncio.timeout(timeout_s):
        while True:
            if await asyncio.to_thread(holds):
                return
            await asyncio.sleep(0.1)


async def test_no_offset_goes_back_and_nothing_is_consumed_twice(tmp_path: Path) -> None:
    with Pairs(names=(NAME,), root=tmp_path, broker_config=SHORT) as pairs:
        master, slave, namesrv = pairs.masters[NAME], pairs.slaves[NAME], pairs.namesrv_addr
        async with Admin(namesrv) as tool:
            await tool.put_topic(master.address, TopicConfig(TOPIC, 2, 2))
        await send(namesrv, 0, FIRST)
        assert sorted(await consume(namesrv, FIRST)) == list(range(FIRST))
        await send(namesrv, FIRST, SECOND)
        copied = offsets(master, 2)
        wait_until(lambda: offsets(slave, 2) == copied, 10, "offsets at the slave")
        master.process.kill9()
        wait_until(lambda: role(slave) == "ACTING_MASTER", 15, "the slave acts as master")
        assert sorted(await consume(namesrv, SECOND)) == list(range(FIRST, FIRST + SECOND))
        done = offsets(slave, 2)
        assert sum(done) == FIRST + SECOND
        master.start()
        wait_until(lambda: is_back(pairs), 20, "the master is back")
        assert role(master) == "MASTER"
        assert role(slave) == "SLAVE"
        assert offsets(master, 2) == done
        await send(namesrv, FIRST + SECOND, THIRD)
        last = await consume(namesrv, THIRD, settle_s=0.5)
        assert sorted(last) == list(range(FIRST + SECOND, FIRST + SECOND + THIRD))
        assert sum(offsets(master, 2)) == FIRST + SECOND + THIRD
        wait_until(lambda: offsets(slave, 2) == offsets(master, 2), 10, "offsets at the slave")


async def test_what_a_slave_delivered_late_is_not_delivered_again(tmp_path: Path) -> None:
    """The delayed messages of a killed master come once, by way of the other group."""
    with Pairs(names=(NAME, OTHER), root=tmp_path, broker_config=SHORT) as pairs:
        master, slave, namesrv = pairs.masters[NAME], pairs.slaves[NAME], pairs.namesrv_addr
        async with Admin(namesrv) as tool:
            for each in pairs.masters.values():
                await tool.put_topic(each.address, TopicConfig(TOPIC, 2, 2))
        seen: list[int] = []
        async with Producer(namesrv, "p-returns") as producer, listening(namesrv, seen):
            for number in range(DELAYED):
                message = Message(TOPIC, str(number).encode(), delay_level=TEN_SECONDS)
                await producer.send(message, queue=MessageQueue(TOPIC, NAME, 0))
            await eventually(lambda: has_copied(slave, master), 20)
            master.process.kill9()
            await eventually(lambda: len(seen) == DELAYED, 25)
            assert role(slave) == "ACTING_MASTER"
            master.start()
            await eventually(lambda: is_back(pairs), 20)
            await producer.send(Message(TOPIC, b"77"), queue=MessageQueue(TOPIC, NAME, 0))
            await eventually(lambda: 77 in seen, 20)
            await asyncio.sleep(1)
        assert sorted(seen) == [*range(DELAYED), 77]
        level = figures(master)[f"scheduleMessageOffset_{TEN_SECONDS}"]
        assert level == f"{DELAYED},{DELAYED}"


@pytest.mark.parametrize(("masters", "slaves"), [(OURS, JAVA), (JAVA, OURS)])
def test_a_member_of_rocketmqs_comes_back_or_is_come_back_to(
    tmp_path: Path, masters: str, slaves: str
) -> None:
    """The other one knows nothing of ours, and still no offset goes back. It passes over what ours
    says of transactions that ended out of order (ADR 0063).

    It takes a minute, for so seldom a slave of RocketMQ's copies its master's tables.
    """
    pairs = Pairs(masters, names=(NAME,), namesrv=OURS, root=tmp_path, broker_config=SHORT)
    pairs.slaves[NAME] = pairs.make_broker(slaves, NAME, 1)
    with pairs:
        master, slave = pairs.masters[NAME], pairs.slaves[NAME]
        admin.create_topic(master.address, TOPIC)
        admin.set_group(master.address, GROUP)
        asyncio.run(send(pairs.namesrv_addr, 0, FIRST + SECOND))  # no offset lies past the end
        silent, ended = half(master, "silent"), half(master, "ended")
        assert silent["tranStateTableOffset"] != ended["tranStateTableOffset"]
        commit(master, 5)
        wait_until(lambda: offsets(slave, 1) == [5], 90, "the offset at the slave")
        # Each table of a RocketMQ broker is copied once in 10 s (by a slave of RocketMQ's even more
        # seldom), independently of the others: a slave may have the offset and not yet the topic.
        wait_until(lambda: knows_topic_and_group(slave), 60, "the topic and the group at the slave")
        master.process.kill9()
        if slaves == OURS:
            wait_until(lambda: role(slave) == "ACTING_MASTER", 30, "the slave acts as master")
        wait_until(lambda: commits(slave, 9), 30, "the slave keeps offsets")
        if slaves == OURS:
            wait_until(lambda: ends(slave, ended), 30, "the slave ends transactions")
            assert marked(slave) == [ended["tranStateTableOffset"]]
        master.start()
        wait_until(lambda: is_back(pairs), 60, "the master is back")
        assert offsets(master, 1) == [9]
        if slaves == OURS:
            commit(master, 10)
            wait_until(lambda: offsets(slave, 1) == [10], 30, "the offset at the slave again")
            assert marked(slave) == [ended["tranStateTableOffset"]], "the master still asks for it"


def half(master: Server, key: str) -> dict[str, object]:
    """A half message that nobody asks for; what its producer says to roll it back."""
    fields = {"a": GROUP, "b": TOPIC, "c": "TBW102", "d": 4, "e": 0, "f": 4, "g": 1, "h": 0, "j": 0}
    said = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": key}
    said["CHECK_IMMUNITY_TIME_IN_SECONDS"] = "3600"
    properties = "".join(f"{name}\x01{value}\x02" for name, value in said.items())
    stored = wire.call(master.address, SEND_V2, {**fields, "i": properties}, b"half")
    assert stored.code == 0, stored
    return {
        "producerGroup": GROUP,
        "tranStateTableOffset": stored.ext["queueOffset"],
        "commitLogOffset": int(stored.ext["msgId"][-16:], 16),
        "commitOrRollback": ROLLBACK,
        "fromTransactionCheck": "false",
        "msgId": key,
        "transactionId": key,
    }


def ends(server: Server, said: dict[str, object]) -> bool:
    return wire.call(server.address, END_TRANSACTION, said).code == 0


def marked(server: Server) -> list[str]:
    """Transactions that the table of offsets says are over."""
    return [*wire.call(server.address, ALL_OFFSETS, {}).json().get("epochmqEndedHalves", {})]


def commit(server: Server, offset: int) -> wire.Answer:
    header = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "commitOffset": offset}
    return wire.call(server.address, UPDATE_OFFSET, header)


def knows_topic_and_group(server: Server) -> bool:
    topics = wire.call(server.address, ALL_TOPICS, {}).json()["topicConfigTable"]
    groups = wire.call(server.address, ALL_GROUPS, {}).json()["subscriptionGroupTable"]
    return TOPIC in topics and GROUP in groups


def commits(server: Server, offset: int) -> bool:
    """Whether the acting master keeps what consumers commit; RocketMQ's slave always does."""
    return commit(server, offset).code == 0 and offsets(server, 1) == [offset]
