"""Producers that wait for their results."""

from typing import Any

from epochmq.client import aio
from epochmq.client.aio.transaction_producer import TransactionListener
from epochmq.client.sync.facade import Facade, built, waits
from epochmq.client.sync.listeners import in_thread
from epochmq.model.message import Message, StoredMessage


class Producer(Facade[aio.Producer]):
    """Use as `with Producer("127.0.0.1:9876", "group") as producer`; from any thread."""

    _made = built(aio.Producer)
    __init__ = _made
    send = waits(aio.Producer.send)
    send_ordered = waits(aio.Producer.send_ordered)
    send_oneway = waits(aio.Producer.send_oneway)
    send_batch = waits(aio.Producer.send_batch)
    recall = waits(aio.Producer.recall)
    queues = waits(aio.Producer.queues)


class _InThreads:
    """A listener whose functions may wait: each call in a thread of its own."""

    def __init__(self, listener: TransactionListener) -> None:
        self._listener = listener

    def execute_local(self, message: Message, arg: Any) -> Any:
        return in_thread(self._listener.execute_local)(message, arg)

    def check(self, message: StoredMessage) -> Any:
        return in_thread(self._listener.check)(message)


def _listen_in_threads(client: aio.TransactionProducer) -> None:
    client.listener = _InThreads(client.listener)


class TransactionProducer(Facade[aio.TransactionProducer]):
    """Use as `with TransactionProducer("127.0.0.1:9876", "group", listener) as producer`.

    The listener's functions run in threads of their own, and may wait.
    """

    _made = built(aio.TransactionProducer, _listen_in_threads)
    __init__ = _made
    send = waits(aio.TransactionProducer.send)
    send_ordered = waits(aio.TransactionProducer.send_ordered)
    send_oneway = waits(aio.TransactionProducer.send_oneway)
    send_batch = waits(aio.TransactionProducer.send_batch)
    recall = waits(aio.TransactionProducer.recall)
    send_in_transaction = waits(aio.TransactionProducer.send_in_transaction)
    queues = waits(aio.TransactionProducer.queues)
