"""The blocking versions of the classes of `client/aio`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from epochmq.client import aio
from epochmq.client.aio import (
    PullResult,
    SendResult,
    Sql,
    TransactionListener,
    TransactionResult,
)
from epochmq.client.aio.listening import Listener, run_in_thread
from epochmq.client.aio.message_stream import close_messages, next_message
from epochmq.client.core.consumer_state import PULL_COUNT
from epochmq.client.sync.facade import Facade, built, documented_by, usable
from epochmq.model.message import Message, StoredMessage
from epochmq.model.topic import MessageQueue
from epochmq.runtime import loop_thread

# Blocking producers --------------------------------------------------------------------------

P = TypeVar("P", aio.Producer, aio.TransactionProducer)


class _Sending(Facade[P], Generic[P]):
    @documented_by(aio.Producer.start)
    def start(self) -> None:
        loop_thread.run(usable(self._client).start())

    @documented_by(aio.Producer.send)
    def send(
        self, message: Message, *, queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> SendResult:
        return loop_thread.run(
            usable(self._client).send(message, queue=queue, timeout_ms=timeout_ms)
        )

    @documented_by(aio.Producer.send_ordered)
    def send_ordered(
        self, message: Message, key: str, *, timeout_ms: int | None = None
    ) -> SendResult:
        return loop_thread.run(
            usable(self._client).send_ordered(message, key, timeout_ms=timeout_ms)
        )

    @documented_by(aio.Producer.send_oneway)
    def send_oneway(self, message: Message, *, queue: MessageQueue | None = None) -> None:
        loop_thread.run(usable(self._client).send_oneway(message, queue=queue))

    @documented_by(aio.Producer.send_batch)
    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        return loop_thread.run(
            usable(self._client).send_batch(messages, queue=queue, timeout_ms=timeout_ms)
        )

    @documented_by(aio.Producer.request)
    def request(
        self, message: Message, *, queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> StoredMessage:
        return loop_thread.run(
            usable(self._client).request(message, queue=queue, timeout_ms=timeout_ms)
        )

    @documented_by(aio.Producer.recall)
    def recall(self, topic: str, recall_handle: str) -> str:
        return loop_thread.run(usable(self._client).recall(topic, recall_handle))

    @documented_by(aio.Producer.queues)
    def queues(self, topic: str, *, timeout_ms: int | None = None) -> tuple[MessageQueue, ...]:
        return loop_thread.run(usable(self._client).queues(topic, timeout_ms=timeout_ms))


class Producer(_Sending[aio.Producer]):
    """Sends messages and waits for the results. Use as `with Producer("127.0.0.1:9876", "group") as
    p`.

    Any thread may call it. Arguments, results and errors are those of `client/aio`.
    """

    _made = built(aio.Producer)
    __init__ = _made


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


class TransactionProducer(_Sending[aio.TransactionProducer]):
    """Sends messages in transactions. Use as `with TransactionProducer(namesrv, group, listener) as
    p`.

    The functions of the listener run in threads and may block. Arguments, results and errors are
    those of `client/aio`.
    """

    _made = built(aio.TransactionProducer, _listen_in_threads)
    __init__ = _made

    @documented_by(aio.TransactionProducer.send_in_transaction)
    def send_in_transaction(
        self,
        message: Message,
        arg: Any = None,
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> TransactionResult:
        return loop_thread.run(
            usable(self._client).send_in_transaction(
                message, arg, queue=queue, timeout_ms=timeout_ms
            )
        )


# Blocking consumers --------------------------------------------------------------------------
# Calls wait for their results, and listeners run in threads.


L = TypeVar("L", aio.PushConsumer, aio.PopConsumer)


class PullConsumer(Facade[aio.PullConsumer]):
    """Reads queues on request. Use as `with PullConsumer("127.0.0.1:9876", "group") as consumer`.

    Any thread may call it. Arguments, results and errors are those of `client/aio`.
    """

    _made = built(aio.PullConsumer)
    __init__ = _made

    @documented_by(aio.PullConsumer.queues)
    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        return loop_thread.run(usable(self._client).queues(topic))

    @documented_by(aio.PullConsumer.pull)
    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        count: int = PULL_COUNT,
        expression: str | Sql = "*",
        hold_ms: int = 0,
    ) -> PullResult:
        return loop_thread.run(
            usable(self._client).pull(
                queue, offset, count=count, expression=expression, hold_ms=hold_ms
            )
        )

    @documented_by(aio.PullConsumer.committed)
    def committed(self, queue: MessageQueue) -> int | None:
        return loop_thread.run(usable(self._client).committed(queue))

    @documented_by(aio.PullConsumer.commit)
    def commit(self, queue: MessageQueue, offset: int) -> None:
        loop_thread.run(usable(self._client).commit(queue, offset))

    @documented_by(aio.PullConsumer.min_offset)
    def min_offset(self, queue: MessageQueue) -> int:
        return loop_thread.run(usable(self._client).min_offset(queue))

    @documented_by(aio.PullConsumer.max_offset)
    def max_offset(self, queue: MessageQueue) -> int:
        return loop_thread.run(usable(self._client).max_offset(queue))

    @documented_by(aio.PullConsumer.offset_at)
    def offset_at(self, queue: MessageQueue, wall_ms: int) -> int:
        return loop_thread.run(usable(self._client).offset_at(queue, wall_ms))


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


class PushConsumer(_Listening[aio.PushConsumer]):
    """Calls a listener with messages. Use as `with PushConsumer("127.0.0.1:9876", "group") as
    consumer`.

    Arguments, results and errors are those of `client/aio`.
    """

    _made = built(aio.PushConsumer)
    __init__ = _made

    @documented_by(aio.PushConsumer.subscribe)
    def subscribe(self, topic: str, expression: str | Sql = "*") -> None:
        loop_thread.run(usable(self._client).subscribe(topic, expression))

    @documented_by(aio.PushConsumer.unsubscribe)
    def unsubscribe(self, topic: str) -> None:
        loop_thread.run(usable(self._client).unsubscribe(topic))

    @documented_by(aio.PushConsumer.start)
    def start(self) -> None:
        loop_thread.run(usable(self._client).start())

    @documented_by(aio.PushConsumer.finish)
    def finish(self) -> None:
        loop_thread.call(usable(self._client).finish)

    @documented_by(aio.PushConsumer.progress)
    def progress(self) -> dict[MessageQueue, int]:
        return loop_thread.call(usable(self._client).progress)

    @documented_by(aio.PushConsumer.ready)
    def ready(self, timeout: float | None = None) -> None:
        loop_thread.run(usable(self._client).ready(timeout))

    @documented_by(aio.PushConsumer.assignment)
    def assignment(self) -> tuple[MessageQueue, ...]:
        return loop_thread.call(usable(self._client).assignment)

    @documented_by(aio.PushConsumer.pause)
    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        client = usable(self._client)
        loop_thread.call(lambda: client.pause(queues))

    @documented_by(aio.PushConsumer.resume)
    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        client = usable(self._client)
        loop_thread.call(lambda: client.resume(queues))

    @documented_by(aio.PushConsumer.seek)
    def seek(self, queue: MessageQueue, offset: int) -> None:
        loop_thread.run(usable(self._client).seek(queue, offset))


class PopConsumer(_Listening[aio.PopConsumer]):
    """Calls a listener with popped messages. Use as `with PopConsumer("127.0.0.1:9876", "g") as c`.

    Arguments, results and errors are those of `client/aio`.
    """

    _made = built(aio.PopConsumer)
    __init__ = _made

    @documented_by(aio.PopConsumer.subscribe)
    def subscribe(self, topic: str, expression: str | Sql = "*") -> None:
        loop_thread.run(usable(self._client).subscribe(topic, expression))

    @documented_by(aio.PopConsumer.unsubscribe)
    def unsubscribe(self, topic: str) -> None:
        loop_thread.run(usable(self._client).unsubscribe(topic))

    @documented_by(aio.PopConsumer.start)
    def start(self) -> None:
        loop_thread.run(usable(self._client).start())

    @documented_by(aio.PopConsumer.ready)
    def ready(self, timeout: float | None = None) -> None:
        loop_thread.run(usable(self._client).ready(timeout))

    @documented_by(aio.PopConsumer.pause)
    def pause(self) -> None:
        loop_thread.call(usable(self._client).pause)

    @documented_by(aio.PopConsumer.resume)
    def resume(self) -> None:
        loop_thread.call(usable(self._client).resume)

    @documented_by(aio.PopConsumer.finish)
    def finish(self) -> None:
        loop_thread.call(usable(self._client).finish)

    @documented_by(aio.PopConsumer.found_nothing)
    def found_nothing(self) -> bool:
        return loop_thread.call(usable(self._client).found_nothing)

    @documented_by(aio.PopConsumer.shares)
    def shares(self) -> list[MessageQueue]:
        return loop_thread.call(usable(self._client).shares)
