"""The calls of POP on RocketMQ's broker, and where a broker knows less."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.client.aio.test_pop_consumer import fill
from tests.compat.peers.cluster import Cluster

from epochmq.base.errors import NotReachable, Refused
from epochmq.client.aio import Admin
from epochmq.client.aio.instance import Instance
from epochmq.client.aio.pop_calls import PopCalls, Popped
from epochmq.client.core.consumer_state import StartPoint
from epochmq.client.core.pop_state import PopHandle, PopStatus, handle_of
from epochmq.model.group import build
from epochmq.model.message import StoredMessage
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies.group_bodies import ConsumerData, HeartbeatData
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command

pytestmark = [pytest.mark.compat, pytest.mark.slow]


@pytest.fixture
def namesrv(pop_cluster: Cluster) -> str:
    return pop_cluster.namesrv_addr


class Caller:
    """A client of a group of its own."""

    def __init__(self, instance: Instance, topic: str) -> None:
        self.instance = instance
        self.topic = topic
        self.group = f"g_{topic}"
        self.calls = PopCalls(instance, self.group)
        self.data = build(topic, "*")
        self.queue = MessageQueue(topic, "broker-a", -1)

    async def pop(self, count: int = 32, *, poll_ms: int = 0) -> Popped:
        """What comes is away for longer than a test takes, unless the test changes that."""
        return await self.calls.pop(
            self.queue,
            count,
            self.data,
            invisible_ms=300_000,
            start=StartPoint.FIRST,
            poll_ms=poll_ms,
        )

    async def ack(self, message: StoredMessage) -> None:
        await self.calls.ack(self.topic, handle_of(message))

    async def hide(self, message: StoredMessage, ms: int) -> PopHandle:
        return await self.calls.change_invisible(self.topic, handle_of(message), ms)

    async def next(self, within_s: float = 90) -> list[StoredMessage]:
        """What comes next, however long a broker takes to revive it."""
        async with asyncio.timeout(within_s):
            while True:
                found = await self.pop(poll_ms=1_000)
                if found.messages:
                    return found.messages


@pytest.fixture
async def caller(namesrv: str, topic: str) -> AsyncIterator[Caller]:
    await fill(namesrv, topic, 6, queues=1)
    instance = Instance(namesrv)
    made = Caller(instance, topic)
    consumer = ConsumerData(
        made.group, "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET", [made.data]
    )
    instance.beat_with(
        lambda: HeartbeatData(client_id=instance.client_id, consumer_data_set=[consumer])
    )
    await instance.ensure_route(topic)
    await instance.greet_all()
    yield made
    await instance.close(consumer=made.group)


async def test_a_share_by_pull_and_by_pop(caller: Caller, namesrv: str) -> None:
    (row,) = await caller.calls.assignment(caller.topic, "AVG") or []
    assert (row.mode, row.message_queue.queue_id) == ("PULL", 0)
    async with Admin(namesrv) as admin:
        address = (await admin.brokers_of(caller.topic))["broker-a"]
        await admin.set_request_mode(address, caller.topic, caller.group, "POP")
    (row,) = await caller.calls.assignment(caller.topic, "AVG") or []
    assert (row.mode, row.message_queue.queue_id) == ("POP", -1)
    assert await caller.calls.assignment(caller.topic, "NONE") is None


async def test_no_broker_no_share(instance: Instance) -> None:
    with pytest.raises(NotReachable, match="no broker of topic"):
        await PopCalls(instance, "g").assignment("nowhere", "AVG")


async def test_acked_singly_or_together_it_stays_away(caller: Caller) -> None:
    popped = await caller.pop()
    assert popped.status is PopStatus.FOUND
    assert [message.body for message in popped.messages] == [b"%d" % n for n in range(6)]
    handles = [handle_of(message) for message in popped.messages]
    await caller.ack(popped.messages[0])
    await caller.calls.ack_all(caller.topic, "broker-a", handles[1:5])
    assert (await caller.pop()).status is PopStatus.POLLING_NOT_FOUND
    await caller.hide(popped.messages[5], 1_000)
    (again,) = await caller.next()
    assert (again.body, again.reconsume_times, again.topic) == (b"5", 1, caller.topic)
    assert handle_of(again).mark == "1"
    await caller.ack(again)


async def test_an_invisible_time_is_changed(caller: Caller) -> None:
    popped = await caller.pop(1)
    handle = handle_of(popped.messages[0])
    renewed = await caller.hide(popped.messages[0], 1_000)
    assert (renewed.offset, renewed.invisible_ms) == (handle.offset, 1_000)
    found = await caller.next()
    while b"0" not in [message.body for message in found]:
        found += await caller.next()


async def test_an_ack_of_what_is_not_there(caller: Caller) -> None:
    (message,) = (await caller.pop(1)).messages
    handle = handle_of(message)
    far = type(handle)(999, *(getattr(handle, name) for name in handle.__slots__[1:-1]), 999)
    with pytest.raises(Refused) as error:
        await caller.calls.ack(caller.topic, far)
    assert error.value.code == 208
    # Together with others it is no reason to give up on them.
    await caller.calls.ack_all(caller.topic, "broker-a", [far])


async def test_a_broker_that_knows_no_batches_is_asked_once(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As 5.0 to 5.1.2 answer."""
    asked: list[int] = []
    call = caller.instance.call

    async def old(address: str, command: Command, timeout_ms: int = 3_000) -> Command:
        asked.append(command.code)
        if command.code == RequestCode.BATCH_ACK_MESSAGE:
            return Command(3, remark="not supported")
        return await call(address, command, timeout_ms)

    monkeypatch.setattr(caller.instance, "call", old)
    for _ in range(2):
        handles = [handle_of(message) for message in (await caller.pop(2)).messages]
        await caller.calls.ack_all(caller.topic, "broker-a", handles)
    assert asked.count(RequestCode.BATCH_ACK_MESSAGE) == 1
    assert asked.count(RequestCode.ACK_MESSAGE) == 4


async def test_a_refusal_is_told(caller: Caller) -> None:
    with pytest.raises(Refused):
        await caller.pop(33)
    with pytest.raises(NotReachable, match="no address"):
        await caller.calls.ack_all(caller.topic, "nobody", [])
