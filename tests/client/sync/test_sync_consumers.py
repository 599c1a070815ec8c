"""Consumers without asyncio, against a real broker."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent import futures

import pytest
from tests.compat.peers.epochmq import EpochCluster

from epochmq.base.errors import UsageError
from epochmq.client.sync import ConsumeResult, PopConsumer, Producer, PullConsumer, PushConsumer
from epochmq.model.message import Message, StoredMessage

pytestmark = pytest.mark.process
TOPIC = "sync"


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    with EpochCluster() as cluster:
        with Producer(cluster.namesrv_addr, "p") as producer:
            for number in range(20):
                producer.send(Message(TOPIC, b"%d" % number))
        yield cluster.namesrv_addr


def test_it_pulls_and_commits(namesrv: str) -> None:
    with PullConsumer(namesrv, "puller") as consumer:
        found = []
        for queue in consumer.queues(TOPIC):
            result = consumer.pull(queue, consumer.min_offset(queue))
            found += [message.body for message in result.messages]
            consumer.commit(queue, result.next_offset)
            assert consumer.committed(queue) == consumer.max_offset(queue)
    assert sorted(found, key=int) == [b"%d" % number for number in range(20)]


def test_its_listener_may_wait(namesrv: str) -> None:
    """Two at a time meet at a barrier: were they run on the loop, nobody would come."""
    got: list[bytes] = []
    both, done = threading.Barrier(2, timeout=20), threading.Event()
    with PushConsumer(namesrv, "pusher", start="first") as consumer:

        @consumer.on_message
        def take(messages: list[StoredMessage]) -> ConsumeResult:
            both.wait()
            got.extend(message.body for message in messages)
            if len(got) == 20:
                done.set()
            return ConsumeResult.SUCCESS

        consumer.subscribe(TOPIC)
        consumer.start()
        assert done.wait(30)
        assert consumer.is_settled
    assert sorted(got, key=int) == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("coroutine", [False, True])
def test_no_failure_of_a_listener_stops_the_clients(namesrv: str, coroutine: bool) -> None:
    failures: list[BaseException] = [
        SystemExit(1),
        KeyboardInterrupt(),
        StopIteration(),
        asyncio.CancelledError(),
        futures.CancelledError(),
    ]
    if coroutine:
        failures.remove(failures[2])  # raised in a coroutine it is a RuntimeError
    got: set[bytes] = set()
    done = threading.Event()

    def take(messages: list[StoredMessage]) -> None:
        if failures:
            raise failures.pop()
        got.update(message.body for message in messages)
        if len(got) >= 15:
            done.set()

    async def take_on_the_loop(messages: list[StoredMessage]) -> None:
        take(messages)

    with PushConsumer(namesrv, f"fails_{coroutine}", start="first", concurrency=2) as consumer:
        consumer.on_message(take_on_the_loop if coroutine else take)
        consumer.subscribe(TOPIC)
        consumer.start()
        assert done.wait(30)


def test_a_listener_closes_its_consumer(namesrv: str) -> None:
    returned = threading.Event()
    with PushConsumer(namesrv, "closes", start="first") as consumer:

        @consumer.on_message
        def take(messages: list[StoredMessage]) -> None:
            consumer.close()
            returned.set()

        consumer.subscribe(TOPIC)
        consumer.start()
        assert returned.wait(30)
    with pytest.raises(UsageError, match="closed"):
        consumer.subscribe("another")


def test_a_pop_consumer_is_iterated(namesrv: str) -> None:
    topic = "Iterated"
    with Producer(namesrv, "p") as producer:
        for number in range(3):
            producer.send(Message(topic, b"%d" % number))
    seen: set[bytes] = set()
    with PopConsumer(namesrv, f"g_{topic}", start="first") as consumer:
        consumer.subscribe(topic)
        consumer.pause()
        consumer.resume()
        for message in consumer:
            seen.add(message.plain_body())
            if len(seen) == 3:
                break
        consumer.ready(10)
    assert seen == {b"0", b"1", b"2"}
