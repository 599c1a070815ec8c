"""Clients with a namespace against a real broker: applications see names without it."""

import asyncio
from typing import Any

import pytest
from tests.client.aio.collecting import Collector
from tests.client.aio.eventually import eventually

from epochmq.client import sync
from epochmq.client.aio import (
    Admin,
    ClientHook,
    ConsumeCall,
    ConsumeResult,
    PopConsumer,
    Producer,
    PullConsumer,
    PushConsumer,
    SendCall,
    TransactionEnd,
    TransactionProducer,
    TransactionState,
    reply_to,
)
from epochmq.model import property_names as names
from epochmq.model.message import Message, StoredMessage
from epochmq.model.topic import MessageQueue

NS = "shop"


class Names(ClientHook):
    """Keeps the names that a hook sees."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, str]] = set()

    def begin_send(self, call: SendCall) -> None:
        self.seen.add((call.group, call.topic))

    def begin_consume(self, call: ConsumeCall) -> None:
        self.seen.add((call.group, call.messages[0].topic))

    def end_transaction(self, end: TransactionEnd) -> None:
        self.seen.add((end.group, end.topic))


async def pulled(namesrv: str, topic: str, **more: Any) -> list[StoredMessage]:
    async with PullConsumer(namesrv, "reader", **more) as consumer:
        found: list[StoredMessage] = []
        for queue in await consumer.queues(topic):
            assert queue.topic == topic
            found += (await consumer.pull(queue, 0)).messages
    return sorted(found, key=lambda message: message.body)


async def test_each_kind_of_send_stores_the_message_in_the_namespace(
    namesrv: str, topic: str
) -> None:
    hook = Names()
    async with Producer(namesrv, "p", namespace=NS, hooks=[hook]) as producer:
        assert (await producer.send(Message(topic, b"1"))).queue.topic == topic
        assert (await producer.send_ordered(Message(topic, b"2"), "k")).queue.topic == topic
        batch = [Message(topic, b"3"), Message(topic, b"4")]
        assert (await producer.send_batch(batch)).queue.topic == topic
        queues = await producer.queues(topic)
        assert {queue.topic for queue in queues} == {topic}
        assert (await producer.send(Message(topic, b"5"), queue=queues[0])).queue == queues[0]
        await producer.send_oneway(Message(topic, b"6"))
    async with Producer(namesrv, "p", namespace=NS, linger_ms=0) as producer:
        results = await asyncio.gather(
            *(producer.send(Message(topic, body)) for body in (b"7", b"8"))
        )
        assert {result.queue.topic for result in results} == {topic}

    async def there() -> bool:
        return len(await pulled(namesrv, f"{NS}%{topic}")) == 8

    await eventually(there)
    messages = await pulled(namesrv, f"{NS}%{topic}")
    assert [message.body for message in messages] == [b"%d" % n for n in range(1, 9)]
    assert {message.properties[names.INSTANCE_ID] for message in messages} == {NS}
    shown = await pulled(namesrv, topic, namespace=NS)
    assert [(message.topic, message.body) for message in shown] == [
        (topic, message.body) for message in messages
    ]
    assert hook.seen == {("p", topic)}


async def test_a_push_consumer_gets_its_namespace_and_nothing_else(
    namesrv: str, topic: str
) -> None:
    async with Producer(namesrv, "p") as plain, Producer(namesrv, "p", namespace=NS) as producer:
        await plain.send(Message(topic, b"of nobody"))
        for n in range(8):
            await producer.send_ordered(Message(topic, b"%d" % n), str(n))
    hook, failed = Names(), set[bytes]()

    def fail_once(message: StoredMessage) -> ConsumeResult:
        assert message.topic == topic
        if message.body in failed:
            return ConsumeResult.SUCCESS
        failed.add(message.body)
        return ConsumeResult.LATER

    collector = Collector(8, fail_once)
    group = f"g_{topic}"
    async with PushConsumer(namesrv, group, start="first", namespace=NS, hooks=[hook]) as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.start()
        await consumer.ready(10)
        owned = consumer.assignment()
        assert {queue.topic for queue in owned} == {topic}
        consumer.pause(owned)
        consumer.resume(owned)
        assert sorted(message.body for message in await collector.wait()) == [
            b"%d" % n for n in range(8)
        ]
        await consumer.seek(owned[0], 0)
        assert topic in {queue.topic for queue in consumer.progress()}
    assert hook.seen == {(group, topic)}
    async with Admin(namesrv) as admin:
        topics = await admin.topics()
    assert f"%RETRY%{NS}%{group}" in topics
    assert f"%RETRY%{group}" not in topics


async def test_iterating_shows_names_without_the_namespace(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "p", namespace=NS) as producer:
        await producer.send(Message(topic, b"x"))
    async with PushConsumer(namesrv, f"g_{topic}", start="first", namespace=NS) as consumer:
        await consumer.subscribe(topic)
        async for message in consumer:
            assert (message.topic, message.body) == (topic, b"x")
            break


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_pop_consumer_reads_its_namespace(namesrv: str, topic: str, ordered: bool) -> None:
    async with Producer(namesrv, "p", namespace=NS) as producer:
        for n in range(4):
            await producer.send(Message(topic, b"%d" % n))
    collector = Collector(4)
    async with PopConsumer(
        namesrv, f"g_{topic}", start="first", ordered=ordered, namespace=NS
    ) as consumer:
        consumer.on_message(collector)
        await consumer.subscribe(topic)
        await consumer.start()
        messages = await collector.wait()
        assert {queue.topic for queue in consumer.shares()} == {topic}
        await consumer.unsubscribe(topic)
        assert consumer.shares() == []
    assert {message.topic for message in messages} == {topic}


async def test_a_pull_consumer_commits_in_its_namespace(namesrv: str, topic: str) -> None:
    async with Producer(namesrv, "p", namespace=NS) as producer:
        sent = await producer.send(Message(topic, b"x"))
    async with PullConsumer(namesrv, f"g_{topic}", namespace=NS) as consumer:
        queue = sent.queue
        assert (await consumer.min_offset(queue), await consumer.max_offset(queue)) == (0, 1)
        assert await consumer.offset_at(queue, 0) == 0
        await consumer.commit(queue, 1)
        assert await consumer.committed(queue) == 1
    whole = MessageQueue(f"{NS}%{topic}", queue.broker_name, queue.queue_id)
    async with PullConsumer(namesrv, f"{NS}%g_{topic}") as other:
        assert await other.committed(whole) == 1
    async with PullConsumer(namesrv, f"g_{topic}") as other:
        assert await other.committed(whole) is None


class Undecided:
    """Lets the broker ask for the result."""

    def __init__(self) -> None:
        self.topics: list[str] = []
        self.state = TransactionState.UNKNOWN

    def execute_local(self, message: Message, arg: Any) -> TransactionState:
        self.topics.append(message.topic)
        return self.state

    def check(self, message: StoredMessage) -> TransactionState:
        self.topics.append(message.topic)
        return TransactionState.COMMIT


async def test_transactions_end_in_the_namespace(namesrv: str, topic: str) -> None:
    listener, hook = Undecided(), Names()
    listener.state = TransactionState.COMMIT
    async with TransactionProducer(
        namesrv, f"p_{topic}", listener, namespace=NS, hooks=[hook]
    ) as producer:
        done = await producer.send_in_transaction(Message(topic, b"x"))
    assert (done.ended, done.send.queue.topic, listener.topics) == (True, topic, [topic])
    assert hook.seen == {(f"p_{topic}", topic)}
    assert [message.body for message in await pulled(namesrv, topic, namespace=NS)] == [b"x"]


async def test_a_request_is_answered_across_the_namespace(namesrv: str, topic: str) -> None:
    async with (
        Producer(namesrv, "p", namespace=NS) as producer,
        Producer(namesrv, "q", namespace=NS) as answers,
        PushConsumer(namesrv, f"g_{topic}", start="first", namespace=NS) as consumer,
    ):

        async def answer(messages: list[StoredMessage]) -> None:
            for message in messages:
                await answers.send(reply_to(message, b"re: " + message.body))

        consumer.on_message(answer)
        await consumer.subscribe(topic)
        await consumer.start()
        reply = await producer.request(Message(topic, b"x"), timeout_ms=10_000)
    assert reply.body == b"re: x"


def test_blocking_clients_have_namespaces(namesrv: str, topic: str) -> None:
    with sync.Producer(namesrv, "p", namespace=NS) as producer:
        assert producer.send(Message(topic, b"x")).queue.topic == topic
    with sync.PullConsumer(namesrv, "g", namespace=NS) as consumer:
        found = [
            message
            for queue in consumer.queues(topic)
            for message in consumer.pull(queue, 0).messages
        ]
    assert [(message.topic, message.body) for message in found] == [(topic, b"x")]
