"""Producers without asyncio, against a real broker."""

import threading
from typing import Any

import pytest
from tests.compat.peers.epochmq import EpochCluster

from epochmq.base.errors import NotReachable
from epochmq.client.sync import Producer, PullConsumer, TransactionProducer, TransactionState
from epochmq.model.message import Message, StoredMessage

pytestmark = pytest.mark.process


class Ledger:
    """Commits what ends with +; its functions wait, as a database makes them."""

    def __init__(self) -> None:
        self.threads: set[str] = set()

    def execute_local(self, message: Message, arg: Any) -> TransactionState:
        self.threads.add(threading.current_thread().name)
        return TransactionState.COMMIT if arg else TransactionState.ROLLBACK

    def check(self, message: StoredMessage) -> TransactionState:
        return TransactionState.UNKNOWN


def bodies(namesrv: str, topic: str) -> list[bytes]:
    with PullConsumer(namesrv, "reader") as reader:
        pulled = [reader.pull(queue, 0, hold_ms=100) for queue in reader.queues(topic)]
        return sorted(message.body for result in pulled for message in result.messages)


def test_sends_and_transactions() -> None:
    ledger = Ledger()
    with EpochCluster() as cluster:
        with Producer(cluster.namesrv_addr, "p") as producer:
            assert producer.send(Message("plain", b"1")).msg_id
            producer.send_ordered(Message("plain", b"2"), "key")
            producer.send_batch([Message("plain", b"3"), Message("plain", b"4")])
            producer.send_oneway(Message("plain", b"5"))
        assert bodies(cluster.namesrv_addr, "plain")[:4] == [b"1", b"2", b"3", b"4"]
        with TransactionProducer(cluster.namesrv_addr, "t", ledger) as producer:
            assert producer.send_in_transaction(Message("tx", b"yes"), True).ended
            assert producer.send_in_transaction(Message("tx", b"no"), False).ended
        assert bodies(cluster.namesrv_addr, "tx") == [b"yes"]
    assert all(name.startswith("epochmq-listener") for name in ledger.threads)


def test_nobody_there() -> None:
    with Producer("127.0.0.1:1", "p", timeout_ms=300) as producer, pytest.raises(NotReachable):
        producer.send(Message("t", b""))
