"""The classes of `client/aio` as blocking calls."""

from typing import Any, Generic, TypeVar

from epochmq.client import aio
from epochmq.client.aio.listening import Listener
from epochmq.client.aio.transaction_producer import TransactionListener
from epochmq.client.sync.facade import Facade, built, in_thread, plain, usable, waits
from epochmq.model.message import Message, StoredMessage
from epochmq.runtime import loop_thread

# Sync producers ------------------------------------------------------------------------------
# Producers that wait for their results.


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


# Sync consumers ------------------------------------------------------------------------------
# Consumers whose calls wait, and whose listeners run in threads.


L = TypeVar("L", aio.PushConsumer, aio.PopConsumer)


class PullConsumer(Facade[aio.PullConsumer]):
    """Use as `with PullConsumer("127.0.0.1:9876", "group") as consumer`; from any thread."""

    _made = built(aio.PullConsumer)
    __init__ = _made
    queues = waits(aio.PullConsumer.queues)
    pull = waits(aio.PullConsumer.pull)
    committed = waits(aio.PullConsumer.committed)
    commit = waits(aio.PullConsumer.commit)
    min_offset = waits(aio.PullConsumer.min_offset)
    max_offset = waits(aio.PullConsumer.max_offset)
    offset_at = waits(aio.PullConsumer.offset_at)


class _Listening(Facade[L], Generic[L]):
    def on_message(self, listener: Listener) -> Listener:
        """Set the listener; may be used as a decorator. It runs in a thread and may wait."""
        client = usable(self._client)
        loop_thread.call(lambda: client.on_message(in_thread(listener)))
        return listener

    @property
    def is_settled(self) -> bool:
        """Whether the queues were shared out, and the last time without a hitch."""
        client = usable(self._client)
        return loop_thread.call(lambda: client.is_settled)


class PushConsumer(_Listening[aio.PushConsumer]):
    """Use as `with PushConsumer("127.0.0.1:9876", "group") as consumer`, as the asyncio one."""

    _made = built(aio.PushConsumer)
    __init__ = _made
    subscribe = waits(aio.PushConsumer.subscribe)
    unsubscribe = waits(aio.PushConsumer.unsubscribe)
    start = waits(aio.PushConsumer.start)
    finish = plain(aio.PushConsumer.finish)
    progress = plain(aio.PushConsumer.progress)


class PopConsumer(_Listening[aio.PopConsumer]):
    """Use as `with PopConsumer("127.0.0.1:9876", "group") as consumer`, as the asyncio one."""

    _made = built(aio.PopConsumer)
    __init__ = _made
    subscribe = waits(aio.PopConsumer.subscribe)
    unsubscribe = waits(aio.PopConsumer.unsubscribe)
    start = waits(aio.PopConsumer.start)
    finish = plain(aio.PopConsumer.finish)
    found_nothing = plain(aio.PopConsumer.found_nothing)
    shares = plain(aio.PopConsumer.shares)
