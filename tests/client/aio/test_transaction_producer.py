"""The transaction producer against a real broker."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.client.aio.test_subscribing import message
from tests.compat.peers.epochmq import EpochCluster

from epochmq.base.errors import UsageError
from epochmq.client.aio import (
    PullConsumer,
    TransactionListener,
    TransactionProducer,
    TransactionState,
)
from epochmq.client.core.send_policy import SendStatus
from epochmq.model.message import Message, StoredMessage
from epochmq.wire.headers.send_headers import CheckTransactionStateHeader

COMMIT, ROLLBACK, UNKNOWN = TransactionState


class Listener:
    """Says what it is told, and remembers what it was asked."""

    def __init__(self, local: Any = COMMIT, check: Any = UNKNOWN) -> None:
        self.local, self.answer = local, check
        self.executed: list[tuple[bytes, Any]] = []
        self.checked: list[StoredMessage] = []

    async def execute_local(self, message: Message, arg: Any) -> TransactionState:
        self.executed.append((message.body, arg))
        if isinstance(self.local, Exception):
            raise self.local
        return self.local  # type: ignore[no-any-return]

    def check(self, message: StoredMessage) -> TransactionState:
        self.checked.append(message)
        return self.answer  # type: ignore[no-any-return]

    async def asked(self) -> bool:
        return bool(self.checked)


@pytest.fixture(scope="module")
def quick() -> Iterator[str]:
    config = {
        "transactionTimeOut": 300,
        "transactionCheckInterval": 300,
        "transactionOpBatchInterval": 100,
    }
    with EpochCluster(broker_config=config) as running:
        yield running.namesrv_addr


async def seen(namesrv: str, topic: str) -> list[bytes]:
    found: list[bytes] = []
    async with PullConsumer(namesrv, "check") as consumer:
        for queue in await consumer.queues(topic):
            result = await consumer.pull(queue, 0)
            found += [message.plain_body() for message in result.messages]
    return sorted(found)


def made(namesrv: str, listener: TransactionListener, **more: Any) -> TransactionProducer:
    return TransactionProducer(namesrv, "PG", listener, **more)


async def test_a_commit_is_seen_and_a_rollback_is_not(quick: str, topic: str) -> None:
    listener = Listener()
    async with made(quick, listener) as producer:
        first = await producer.send_in_transaction(Message(topic, b"a" * 5_000), "order 1")
        listener.local = ROLLBACK
        second = await producer.send_in_transaction(Message(topic, b"b"))
    assert (first.state, first.ended) == (COMMIT, True)
    assert (second.state, second.ended) == (ROLLBACK, True)
    assert first.send.status is SendStatus.SEND_OK
    assert first.send.transaction_id == first.send.msg_id
    assert listener.executed == [(b"a" * 5_000, "order 1"), (b"b", None)]
    assert await seen(quick, topic) == [b"a" * 5_000]


async def test_a_silent_one_is_checked(quick: str, topic: str) -> None:
    listener = Listener(UNKNOWN, COMMIT)
    async with made(quick, listener) as producer:
        done = await producer.send_in_transaction(Message(topic, b"a" * 5_000, keys=("k",)))
        assert not done.ended
        assert await seen(quick, topic) == []
        await until(listener.asked, True)
        (asked,) = listener.checked
        assert (asked.topic, asked.msg_id, asked.keys) == (topic, done.send.msg_id, ("k",))
        assert asked.plain_body() == b"a" * 5_000
        await until(lambda: seen(quick, topic), [b"a" * 5_000])


async def test_a_listener_is_asked_by_the_name_without_the_namespace(
    quick: str, topic: str
) -> None:
    listener = Listener(UNKNOWN, COMMIT)
    async with made(quick, listener, namespace="shop") as producer:
        await producer.send_in_transaction(Message(topic, b"a"))
        await until(listener.asked, True)
        assert listener.checked[0].topic == topic
        await until(lambda: seen(quick, f"shop%{topic}"), [b"a"])


async def until(call: Callable[[], Any], wanted: Any) -> None:
    for _ in range(200):
        if await call() == wanted:
            return
        await asyncio.sleep(0.02)
    assert await call() == wanted


async def test_what_a_listener_raises_leaves_it_open(quick: str, topic: str) -> None:
    listener = Listener(RuntimeError("database down"), ROLLBACK)
    async with made(quick, listener) as producer:
        with pytest.raises(RuntimeError, match="database down"):
            await producer.send_in_transaction(Message(topic, b"a"))
        await until(listener.asked, True)
    assert await seen(quick, topic) == []


async def test_another_process_of_the_group_answers(quick: str, topic: str) -> None:
    async with TransactionProducer(quick, "PG2", Listener(UNKNOWN)) as producer:
        await producer.send_in_transaction(Message(topic, b"a"))
    other = Listener(check=COMMIT)
    async with TransactionProducer(quick, "PG2", other, topics=[topic]):
        await until(lambda: seen(quick, topic), [b"a"])
    assert other.checked  # more than once when the answer took longer than the interval


@pytest.mark.parametrize(
    ("broker", "properties", "orphan"),
    [
        ("b", {"TRAN_PREPARED_QUEUE_OFFSET": "7"}, False),
        ("b", {"TRAN_PREPARED_QUEUE_OFFSET": "8"}, True),
        ("b", {}, False),
        ("z", {"TRAN_PREPARED_QUEUE_OFFSET": "3"}, False),
        ("z", {"TRAN_PREPARED_QUEUE_OFFSET": "3", "__HALF_OF": "b@7"}, False),
        ("z", {"TRAN_PREPARED_QUEUE_OFFSET": "3", "__HALF_OF": "b@8"}, True),
        ("z", {"__HALF_OF": "b@x"}, False),
        ("b", {"TRAN_PREPARED_QUEUE_OFFSET": "8", "__HALF_OF": "b@?"}, False),
        (None, {"TRAN_PREPARED_QUEUE_OFFSET": "8"}, True),
    ],
)
async def test_one_that_was_handed_over_is_no_stray_of_another_try(
    broker: str | None, properties: dict[str, str], orphan: bool
) -> None:
    """An acting master gave it to another group (RIP-32): a rollback there would lose it."""
    producer = made("127.0.0.1:1", Listener())
    producer._halves["ID"] = ("b", 7)
    header = CheckTransactionStateHeader(tranStateTableOffset=9, commitLogOffset=9, bname=broker)
    asked = message("A")
    asked.properties = {"UNIQ_KEY": "ID", **properties}
    assert producer._is_orphan(header, asked) is orphan
    assert not made("127.0.0.1:1", Listener())._is_orphan(header, asked)


@pytest.mark.parametrize("field", ["delay_level", "delay_ms", "deliver_at_ms"])
async def test_a_delay_is_refused(quick: str, topic: str, field: str) -> None:
    async with made(quick, Listener("yes")) as producer:
        delayed = Message(topic, b"a", **{field: 1})  # type: ignore[arg-type]  # a field of numbers
        with pytest.raises(UsageError, match="delayed"):
            await producer.send_in_transaction(delayed)


async def test_wrong_use(quick: str, topic: str) -> None:
    async with made(quick, Listener("yes")) as producer:
        with pytest.raises(UsageError, match="TransactionState"):
            await producer.send_in_transaction(Message(topic, b"a"))
