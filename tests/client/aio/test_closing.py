"""Closing from anywhere, twice, in the middle of things; and what is used afterwards."""

import asyncio
import gc
import subprocess
import sys
import warnings

import pytest

from epochmq.base.errors import EpochError, NotReachable, UsageError
from epochmq.client.aio import (
    Admin,
    PopConsumer,
    Producer,
    PullConsumer,
    PushConsumer,
    TransactionProducer,
    TransactionState,
)
from epochmq.model.message import Message, StoredMessage


def consumer_of(kind: str, namesrv: str, group: str) -> PushConsumer | PopConsumer:
    if kind == "pop":
        return PopConsumer(namesrv, group, start="first")
    return PushConsumer(namesrv, group, start="first", ordered=kind == "ordered")


@pytest.mark.parametrize("kind", ["push", "ordered", "pop"])
@pytest.mark.parametrize("how", ["itself", "by a task"])
async def test_a_listener_closes_its_consumer(
    namesrv: str, topic: str, kind: str, how: str
) -> None:
    async with Producer(namesrv, "p") as producer:
        await producer.send(Message(topic, b"last"))
    consumer = consumer_of(kind, namesrv, f"g_{topic}")
    returned = asyncio.Event()

    async def listen(messages: list[StoredMessage]) -> None:
        if how == "itself":
            await consumer.close()
        else:
            await asyncio.create_task(consumer.close())
        returned.set()

    consumer.on_message(listen)
    await consumer.subscribe(topic)
    async with asyncio.timeout(30):
        async with consumer:
            await consumer.start()
            await returned.wait()
    with pytest.raises(UsageError, match="closed"):
        await consumer.subscribe(f"{topic}_2")


async def test_a_transaction_listener_closes_its_producer(namesrv: str, topic: str) -> None:
    class Closes:
        async def execute_local(self, message: Message, arg: object) -> TransactionState:
            await producer.close()
            return TransactionState.COMMIT

        def check(self, message: StoredMessage) -> TransactionState:
            return TransactionState.UNKNOWN

    producer = TransactionProducer(namesrv, f"g_{topic}", Closes())
    async with asyncio.timeout(30):
        async with producer:
            with pytest.raises(UsageError, match="closed"):
                await producer.send_in_transaction(Message(topic, b"x"))


async def test_what_was_closed_says_so_and_opens_nothing(namesrv: str, topic: str) -> None:
    producer, puller = Producer(namesrv, "p"), PullConsumer(namesrv, "g")
    admin = Admin(namesrv)
    async with producer, puller, admin:
        result = await producer.send(Message(topic, b"x"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        for use in (
            lambda: producer.send(Message(topic, b"x")),
            lambda: producer.send_ordered(Message(topic, b"x"), "k"),
            lambda: producer.send_oneway(Message(topic, b"x")),
            lambda: producer.send_batch([Message(topic, b"x")]),
            lambda: producer.queues(topic),
            lambda: puller.queues(topic),
            lambda: puller.pull(result.queue, 0),
            lambda: puller.commit(result.queue, 1),
            lambda: producer.__aenter__(),
        ):
            with pytest.raises(UsageError, match="closed"):
                await use()
        with pytest.raises(EpochError, match="closed"):
            await admin.route(topic)
        await producer.close()
        gc.collect()


async def test_sends_in_flight_end_with_an_error(topic: str) -> None:
    """A server that accepts and says nothing: the sends are waiting for a route, or for it."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        producer = Producer(f"127.0.0.1:{port}", "p", timeout_ms=60_000, max_in_flight=2)
        async with asyncio.timeout(20):
            async with producer:
                sends = [asyncio.create_task(producer.send(Message(topic, b"x"))) for _ in range(5)]
                await asyncio.sleep(0.1)
            results = await asyncio.gather(*sends, return_exceptions=True)
    assert {type(result) for result in results} <= {NotReachable, UsageError}
    assert all("closed" in str(result) for result in results)
    assert not producer.instance.peers.find(f"127.0.0.1:{port}")


FORKS = """
import multiprocessing, sys
from epochmq.client.sync import Producer, PushConsumer
from epochmq.model.message import Message

def child(results):
    try:
        producer.send(Message(topic, b"child"))
    except Exception as error:
        results.put(f"{type(error).__name__}: {error}")
    try:
        consumer.is_settled
    except Exception as error:
        results.put(f"{type(error).__name__}: {error}")
    producer.close()
    with Producer(namesrv, "p") as fresh:
        results.put(fresh.send(Message(topic, b"fresh")).status.value)

namesrv, topic = sys.argv[1:]
context = multiprocessing.get_context("fork")
results = context.Queue()
consumer = PushConsumer(namesrv, "g")
with Producer(namesrv, "p") as producer:
    producer.send(Message(topic, b"parent"))
    process = context.Process(target=child, args=(results,))
    process.start()
    for _ in range(3):
        print(results.get(timeout=30))
    process.join(30)
    print(producer.send(Message(topic, b"parent")).status.value)
"""


def test_a_client_from_before_a_fork_says_what_to_do(namesrv: str, topic: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS, namesrv, topic],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    first, second, fresh, parent = ran.stdout.splitlines()
    assert first.startswith("UsageError")
    assert second.startswith("UsageError")
    assert "create a client in each process" in first
    assert (fresh, parent) == ("SEND_OK", "SEND_OK")


def test_a_client_of_another_loop_says_what_to_do(namesrv: str, topic: str) -> None:
    producer = Producer(namesrv, "p")

    async def use_and_disconnect() -> None:
        await producer.queues(topic)
        await producer.instance.peers.close()

    asyncio.run(use_and_disconnect())
    with pytest.raises(UsageError, match="event loop"):
        asyncio.run(producer.queues(topic))
