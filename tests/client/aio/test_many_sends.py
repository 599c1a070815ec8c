"""More sends at a time than anybody should make: all end well, or with the true reason."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from epochmq.base.errors import NotReachable, UsageError
from epochmq.client.aio import Producer, SendResult
from epochmq.model.message import Message
from epochmq.model.topic import BrokerData, TopicRouteData


@asynccontextmanager
async def loop_turns() -> AsyncIterator[list[float]]:
    """The CPU seconds of this thread between two looks: the longest turn is in it."""
    turns: list[float] = []

    async def look() -> None:
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            turns.append(time.thread_time() - began)

    looking = asyncio.create_task(look())
    yield turns
    looking.cancel()


async def test_20000_sends_of_a_new_producer(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "p") as producer, loop_turns() as turns:
        message = Message(topic, b"z" * 100)
        results = await asyncio.gather(
            *(producer.send(message) for _ in range(20_000)), return_exceptions=True
        )
    assert [r for r in results if not isinstance(r, SendResult)] == []
    assert max(turns) < 2  # of which asyncio needs some for 20,000 new tasks


async def test_20000_may_be_under_way_and_no_more_are_than_are_answered(topic: str) -> None:
    """Whatever is asked for: a new producer begins with what all producers can."""
    producer = Producer("127.0.0.1:1", "p", max_in_flight=20_000, linger_ms=None)
    started, go_on = 0, asyncio.Event()

    async def send(*arguments: object) -> None:
        nonlocal started
        started += 1
        await go_on.wait()

    producer._send_by = send  # type: ignore[method-assign,assignment]
    sends = [asyncio.create_task(producer.send(Message(topic, b"x"))) for _ in range(5_000)]
    await asyncio.sleep(0)
    assert started == 1_000
    go_on.set()
    await asyncio.gather(*sends)
    assert started == 5_000
    await producer.close()


async def test_many_large_ones_wait_for_their_turn(topic: str) -> None:
    """A busy broker answers 8 MiB within the timeout; of 32 MiB the last sends timed out."""
    producer = Producer("127.0.0.1:1", "p", compress_over_bytes=8 << 20)
    started, go_on = 0, asyncio.Event()

    async def send(*arguments: object) -> None:
        nonlocal started
        started += 1
        await go_on.wait()

    producer._send_by = send  # type: ignore[method-assign,assignment]
    message = Message(topic, bytes(4 << 20))
    sends = [asyncio.create_task(producer.send(message)) for _ in range(20)]
    await asyncio.sleep(0)
    assert started == 2
    go_on.set()
    await asyncio.gather(*sends)
    assert started == 20
    await producer.close()


async def test_many_one_way_sends_of_a_new_producer(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "p") as producer:
        await asyncio.gather(*(producer.send_oneway(Message(topic, b"x")) for _ in range(3_000)))


class Failover:
    """The name server shows `topic` without a master for a time, as in a failover."""

    def __init__(self, producer: Producer, answers: int) -> None:
        self._route = producer.instance.name_servers.route
        self._producer = producer
        self.answers = answers
        producer.instance.name_servers.route = self.route  # type: ignore[method-assign]

    async def route(self, topic: str) -> TopicRouteData:
        route = await self._route(topic)
        if self.answers <= 0:
            return route
        self.answers -= 1
        brokers = [BrokerData(b.cluster, b.broker_name, {}) for b in route.broker_datas]
        return TopicRouteData(broker_datas=brokers, queue_datas=route.queue_datas)

    def begin(self, topic: str, answers: int) -> None:
        """The master's connection breaks, with what waits for its answers."""
        self.answers = answers
        instance = self._producer.instance
        for address in instance.routes.masters():
            instance.peers.drop(address, "killed")
        instance.routes.expire(topic)


async def test_thousands_of_sends_survive_a_failover(namesrv: str, topic: str) -> None:
    async with (
        Producer(namesrv, "p", timeout_ms=30_000) as producer,
        loop_turns() as turns,
    ):
        failover = Failover(producer, 0)
        message = Message(topic, b"x")
        sends = [asyncio.create_task(producer.send(message)) for _ in range(5_000)]
        await sends[500]
        failover.begin(topic, 20)
        results = await asyncio.gather(*sends, return_exceptions=True)
    assert [r for r in results if not isinstance(r, SendResult)] == []
    assert failover.answers == 0
    assert max(turns) < 2


async def test_ordered_sends_and_queues_wait_for_the_next_master(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "p", timeout_ms=30_000) as producer:
        await producer.send(Message(topic, b"x"))
        failover = Failover(producer, 0)
        for use in (
            lambda: producer.send_ordered(Message(topic, b"1"), "k"),
            lambda: producer.queues(topic),
            lambda: producer.send_batch([Message(topic, b"1")]),
        ):
            failover.begin(topic, 5)
            await use()
            assert failover.answers == 0


async def test_a_failover_without_end_is_said_in_time(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "p", timeout_ms=200) as producer:
        await producer.send(Message(topic, b"x"))
        failover = Failover(producer, 0)
        failover.begin(topic, 1 << 30)
        with pytest.raises(NotReachable, match="no writable queue with a living master"):
            await producer.queues(topic)
        with pytest.raises(NotReachable, match="no writable queue with a living master"):
            await producer.send_ordered(Message(topic, b"1"), "k")


async def test_thousands_fail_with_the_true_reason_where_nobody_listens(topic: str) -> None:
    async with Producer("127.0.0.1:1", "p", timeout_ms=2_000) as producer:
        sends = (producer.send(Message(topic, b"x")) for _ in range(3_000))
        results = await asyncio.gather(*sends, return_exceptions=True)
    assert {type(r) for r in results} == {NotReachable}
    assert all("127.0.0.1:1" in str(r) for r in results)


async def test_a_silent_name_server_takes_no_longer_than_the_timeout(topic: str) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with Producer(f"127.0.0.1:{port}", "p", timeout_ms=200) as producer:
            with pytest.raises(NotReachable, match=rf"not known in time .*127.0.0.1:{port}"):
                await producer.send(Message(topic, b"x"))


async def test_the_problem_of_an_earlier_try_is_told_when_time_is_up(
    topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last try may be cut off before it can say why there is no route."""
    async with Producer("127.0.0.1:1", f"p-{topic}", timeout_ms=400) as producer:
        tries: list[str] = []

        async def refuse_once(name: str, *, create: bool) -> None:
            if not tries:
                tries.append("refused")
                raise NotReachable("no name server answers")
            tries.append("cut off")
            await asyncio.Event().wait()

        monkeypatch.setattr(producer.instance, "ensure_route", refuse_once)
        for call in (
            lambda: producer.queues(topic),
            lambda: producer.send(Message(topic, b"x")),
        ):
            tries.clear()
            with pytest.raises(NotReachable, match="no name server answers"):
                await call()
            # One try is cut off; a stall of the loop extends the deadline, and so allows more.
            assert tries[:2] == ["refused", "cut off"]


async def test_the_callers_message_stays_as_it_is(namesrv: str, topic: str) -> None:
    message = Message(topic, b"x", properties={"a": "b"})
    async with Producer(namesrv, "p") as producer:
        first = await producer.send_ordered(message, "k1")
        assert message.properties == {"a": "b"}
        assert (await producer.send_ordered(message, "k1")).queue == first.queue


@pytest.mark.parametrize("count", [0, -1, 1 << 20])
def test_a_senseless_bound_is_refused(count: int) -> None:
    with pytest.raises(UsageError, match="max_in_flight"):
        Producer("127.0.0.1:1", "p", max_in_flight=count)
