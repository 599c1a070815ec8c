"""Consumers whose calls wait, and whose listeners run in threads."""

from typing import Generic, TypeVar

from epochmq.client import aio
from epochmq.client.aio.listening import Listener
from epochmq.client.sync.facade import Facade, built, plain, usable, waits
from epochmq.client.sync.listeners import in_thread
from epochmq.runtime import loop_thread

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
