"""A client's route names a broker that is not the master any more, and the route is still fresh.

This happens at each failover. The first call fails; the next one has to find the new master, and
must not wait for the next poll of the route, up to 30 s later.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.client.aio.test_push_consumer import send

from epochmq.base.errors import NotReachable, Refused
from epochmq.client.aio import Admin, PopConsumer, Producer, PullConsumer, PushConsumer
from epochmq.client.aio.instance import Instance
from epochmq.model.message import Message
from epochmq.model.recall_handle import RecallHandle
from epochmq.model.topic import BrokerData, MessageQueue, TopicRouteData
from epochmq.wire.codes import ResponseCode

NOBODY = "127.0.0.1:1"
"""Where nothing listens, as after a `kill -9`."""

Call = Callable[[PullConsumer, MessageQueue], Awaitable[object]]


@pytest.fixture(params=["killed", "demoted"])
def old_master(request: pytest.FixtureRequest, namesrv: str) -> str:
    """An address that refuses connections, or requests: the name server serves no queue."""
    return NOBODY if request.param == "killed" else namesrv


def mislead(instance: Instance, topic: str, address: str) -> None:
    """Let the client believe that `address` is the master, as it was told just now."""
    route = instance.routes.route(topic)
    assert route is not None
    brokers = [BrokerData(b.cluster, b.broker_name, {0: address}) for b in route.broker_datas]
    old = TopicRouteData(broker_datas=brokers, queue_datas=route.queue_datas)
    instance.routes.put(topic, old, instance.clock.now_ms())


def master_of(instance: Instance, topic: str) -> str:
    """The address at which the client expects the master."""
    route = instance.routes.route(topic)
    assert route is not None
    return route.broker_datas[0].broker_addrs[0]


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda consumer, queue: consumer.pull(queue, 0), id="pull"),
        pytest.param(lambda consumer, queue: consumer.committed(queue), id="committed"),
        pytest.param(lambda consumer, queue: consumer.commit(queue, 0), id="commit"),
        pytest.param(lambda consumer, queue: consumer.min_offset(queue), id="min_offset"),
        pytest.param(lambda consumer, queue: consumer.max_offset(queue), id="max_offset"),
        pytest.param(lambda consumer, queue: consumer.offset_at(queue, 0), id="offset_at"),
    ],
)
async def test_a_pull_consumer_asks_the_new_master_next(
    namesrv: str, topic: str, old_master: str, call: Call
) -> None:
    await send(namesrv, topic, 4)
    async with PullConsumer(namesrv, f"g_{topic}") as consumer:
        queue = (await consumer.queues(topic))[0]
        mislead(consumer.instance, topic, old_master)
        with pytest.raises((NotReachable, Refused)):
            await call(consumer, queue)
        await call(consumer, queue)


async def test_a_tool_reads_from_the_new_master_next(
    namesrv: str, topic: str, old_master: str
) -> None:
    await send(namesrv, topic, 30)  # some in each queue
    async with Admin(namesrv) as admin:
        await admin.instance.ensure_route(topic)
        queue = admin.instance.routes.subscribe(topic)[0]
        mislead(admin.instance, topic, old_master)
        with pytest.raises((NotReachable, Refused)):
            await admin.message_in(queue, 0)
        assert (await admin.message_in(queue, 0)).topic == topic


async def test_a_producer_recalls_at_the_new_master_next(namesrv: str, topic: str) -> None:
    """The broker does not allow recall: its refusal says that it was asked."""
    async with Producer(namesrv, "p") as producer:
        await producer.send(Message(topic, b"1"))
        handle = str(RecallHandle(topic, "broker-a", 1 << 42, "0A"))
        mislead(producer.instance, topic, NOBODY)
        with pytest.raises(NotReachable):
            await producer.recall(topic, handle)
        with pytest.raises(Refused) as refusal:
            await producer.recall(topic, handle)
    assert refusal.value.code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_member_without_queues_finds_the_new_master_to_share_them(
    namesrv: str, topic: str, old_master: str, ordered: bool
) -> None:
    """It joined just before the failover, so no pull of its own fails and finds out."""
    await send(namesrv, topic, 4)
    async with PushConsumer(namesrv, f"g_{topic}", start="first", ordered=ordered) as consumer:
        consumer.on_message(lambda _: None)
        await consumer.subscribe(topic)
        await consumer.start()
        await consumer.ready()
        member = consumer.member
        for queue in list(member.owned):
            await member.give(queue)
        mislead(consumer.instance, topic, old_master)
        assert not await member.rebalance()
        assert await member.rebalance()
        assert len(member.assignment()) == 4


async def test_a_commit_that_fails_finds_the_new_master(
    namesrv: str, topic: str, old_master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epochmq.client.aio.group_member.PERSIST_MS", 100)
    await send(namesrv, topic, 4)
    async with (
        PushConsumer(namesrv, f"g_{topic}", start="first") as consumer,
        PullConsumer(namesrv, f"g_{topic}") as reader,
    ):
        consumer.on_message(lambda _: None)
        await consumer.subscribe(topic)
        await consumer.start()
        await consumer.ready()
        queue = next(iter(consumer.member.assignment()))
        consumer.pause()
        mislead(consumer.instance, topic, old_master)
        consumer.member.offsets.reset(queue, 7)
        async with asyncio.timeout(8):
            while await reader.committed(queue) != 7:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def test_a_message_that_cannot_be_sent_back_finds_the_new_master(
    namesrv: str, topic: str, old_master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Commits and pulls that fail would find the new master, too.
    monkeypatch.setattr("epochmq.client.aio.group_member.PERSIST_MS", 60_000)
    await send(namesrv, topic, 1)
    misled = asyncio.Event()
    async with PushConsumer(namesrv, f"g_{topic}", start="first") as consumer:

        def fail(_: object) -> None:
            if not misled.is_set():
                consumer.pause()
                mislead(consumer.instance, topic, old_master)
                misled.set()
            raise ValueError("the listener does not want it")

        consumer.on_message(fail)
        await consumer.subscribe(topic)
        await consumer.start()
        async with asyncio.timeout(8):
            await misled.wait()
            while master_of(consumer.instance, topic) == old_master:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def test_a_member_that_pops_finds_the_new_master_to_share_the_queues(
    namesrv: str, topic: str
) -> None:
    """Not with the name server as the old master: "not supported" means all queues to a member."""
    await send(namesrv, topic, 4)
    async with PopConsumer(namesrv, f"g_{topic}", start="first") as consumer:
        consumer.on_message(lambda _: None)
        await consumer.subscribe(topic)
        await consumer.start()
        await consumer.ready()
        consumer.pause()  # a pop that fails would ask for the route as well
        mislead(consumer.instance, topic, NOBODY)
        await consumer.member.round()
        assert await consumer.member.round()


async def fail_late(instance: Instance, topic: str) -> None:
    """Fail after another call has fetched the route."""
    async with instance.routed(topic):
        await asyncio.sleep(0.01)
        await instance.refresh(topic)
        raise NotReachable("gone")


async def test_a_route_that_was_fetched_after_the_error_is_kept(namesrv: str, topic: str) -> None:
    """Of many calls that fail at the same time, one asks the name server."""
    await send(namesrv, topic, 1)
    async with PullConsumer(namesrv, f"g_{topic}") as consumer:
        await consumer.queues(topic)
        instance = consumer.instance
        with pytest.raises(NotReachable):
            await fail_late(instance, topic)
        assert not instance.routes.is_stale(topic, instance.clock.now_ms())
