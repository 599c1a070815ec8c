"""The blocking versions of the classes of `client/aio`."""

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from epochmq.client import aio
from epochmq.client.aio.listening import Listener, run_in_thread
from epochmq.client.aio.message_stream import close_messages, next_message
from epochmq.client.aio.transaction_producer import TransactionListener
from epochmq.client.sync.facade import Facade, built, plain, usable, waits
from epochmq.model.message import Message, StoredMessage
from epochmq.runtime import loop_thread

# Blocking producers --------------------------------------------------------------------------


class Producer(Facade[aio.Producer]):
    """Sends messages and waits for the results. Use as `with Producer("127.0.0.1:9876", "group") as
    p`.

    Any thread may call it. Arguments, results and errors are those of `client/aio`.
    """

    _made = built(aio.Producer)
    __init__ = _made
    start = waits(aio.Producer.start)
    send = waits(aio.Producer.send)
    send_ordered = waits(aio.Producer.send_ordered)
    send_oneway = waits(aio.Producer.send_oneway)
    send_batch = waits(aio.Producer.send_batch)
    request = waits(aio.Producer.request)
    recall = waits(aio.Producer.recall)
    queues = waits(aio.Producer.queues)


class _InThreads:
    """Runs the functions of a transaction listener in threads, so that they may block."""

    def __init__(self, listener: TransactionListener) -> None:
        self._listener = listener

    def execute_local(self, message: Message, arg: Any) -> Any:
        return run_in_thread(self._listener.execute_local)(message, arg)

    def check(self, message: StoredMessage) -> Any:
        return run_in_thread(self._listener.check)(message)


def _listen_in_threads(client: aio.TransactionProducer) -> None:
    client.listener = _InThreads(client.listener)


class TransactionProducer(Facade[aio.TransactionProducer]):
    """Sends messages in transactions. Use as `with TransactionProducer(namesrv, group, listener) as
    p`.

    The functions of the listener run in threads and may block. Arguments, results and errors are
    those of `client/aio`.
    """

    _made = built(aio.TransactionProducer, _listen_in_threads)
    __init__ = _made
    start = waits(aio.TransactionProducer.start)
    send = waits(aio.TransactionProducer.send)
    send_ordered = waits(aio.TransactionProducer.send_ordered)
    send_oneway = waits(aio.TransactionProducer.send_oneway)
    send_batch = waits(aio.TransactionProducer.send_batch)
    request = waits(aio.TransactionProducer.request)
    recall = waits(aio.TransactionProducer.recall)
    send_in_transaction = waits(aio.TransactionProducer.send_in_transaction)
    queues = waits(aio.TransactionProducer.queues)


# Blocking consumers --------------------------------------------------------------------------
# Calls wait for their results, and listeners run in threads.


L = TypeVar("L", aio.PushConsumer, aio.PopConsumer)


class PullConsumer(Facade[aio.PullConsumer]):
    """Reads queues on request. Use as `with PullConsumer("127.0.0.1:9876", "group") as consumer`.

    Any thread may call it. Arguments, results and errors are those of `client/aio`.
    """

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
    def on_message(self, listener: Listener, *, in_thread: bool | None = None) -> Listener:
        """Set the listener; can be used as a decorator.

        Args:
            listener: takes a list of messages. A coroutine function runs on the event loop.
            in_thread: whether a plain function runs in a thread and may block, as by default.
                Otherwise it runs on the event loop of all clients and must not block.

        Returns:
            The listener.

        Raises:
            UsageError: `listener` cannot be called, or this process is a fork.
        """
        client = usable(self._client)
        loop_thread.call(lambda: client.on_message(listener, in_thread=in_thread is not False))
        return listener

    @property
    def is_settled(self) -> bool:
        """Whether the last rebalance or assignment had no errors."""
        client = usable(self._client)
        return loop_thread.call(lambda: client.is_settled)


class PushConsumer(_Listening[aio.PushConsumer]):
    """Calls a listener with messages. Use as `with PushConsumer("127.0.0.1:9876", "group") as
    consumer`.

    Arguments, results and errors are those of `client/aio`.
    """

    _made = built(aio.PushConsumer)
    __init__ = _made
    subscribe = waits(aio.PushConsumer.subscribe)
    unsubscribe = waits(aio.PushConsumer.unsubscribe)
    start = waits(aio.PushConsumer.start)
    finish = plain(aio.PushConsumer.finish)
    progress = plain(aio.PushConsumer.progress)
    ready = waits(aio.PushConsumer.ready)
    assignment = plain(aio.PushConsumer.assignment)
    pause = plain(aio.PushConsumer.pause)
    resume = plain(aio.PushConsumer.resume)
    seek = waits(aio.PushConsumer.seek)

    def __iter__(self) -> Iterator[StoredMessage]:
        """Iterate over the messages: a message is handled when the next one is asked for.

        Raises:
            UsageError: a listener is set, or this process is a fork.
        """
        client = usable(self._client)
        messages = loop_thread.call(client.__aiter__)
        try:
            while (message := loop_thread.run(next_message(messages))) is not None:
                yield message
        finally:
            loop_thread.run(close_messages(messages))


class PopConsumer(_Listening[aio.PopConsumer]):
    """Calls a listener with popped messages. Use as `with PopConsumer("127.0.0.1:9876", "g") as c`.

    Arguments, results and errors are those of `client/aio`.
    """

    _made = built(aio.PopConsumer)
    __init__ = _made
    subscribe = waits(aio.PopConsumer.subscribe)
    unsubscribe = waits(aio.PopConsumer.unsubscribe)
    start = waits(aio.PopConsumer.start)
    finish = plain(aio.PopConsumer.finish)
    found_nothing = plain(aio.PopConsumer.found_nothing)
    shares = plain(aio.PopConsumer.shares)
