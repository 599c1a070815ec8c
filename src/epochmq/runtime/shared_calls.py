"""One call at a time for each key: whoever asks meanwhile waits for the same outcome.

Thousands may wait for one connection. Each has a future of its own: shielding one task for all of
them would cost every waiter that gives up a walk over all others.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from epochmq.base.errors import NotReachable

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")


class SharedCalls(Generic[K, R]):
    """`call` of a key that is being called joins that call."""

    def __init__(self) -> None:
        self._tasks: dict[K, asyncio.Task[R]] = {}
        self._waiting: dict[K, dict[asyncio.Future[R], None]] = {}

    async def call(self, key: K, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """The outcome of the running call of `key`, or of `work`, which is begun now.

        The call goes on when its waiters give up. An error is raised to each as one of its own.
        """
        loop = asyncio.get_running_loop()
        if key not in self._tasks:
            task = self._tasks[key] = loop.create_task(work())
            self._waiting[key] = {}
            task.add_done_callback(lambda done: self._ended(key, done))
        waiters = self._waiting[key]
        waiter: asyncio.Future[R] = loop.create_future()
        waiters[waiter] = None
        try:
            return await waiter
        finally:
            waiters.pop(waiter, None)

    def cancel(self) -> None:
        """Stop all calls; who waits for one gets `NotReachable`."""
        for task in self._tasks.values():
            task.cancel()

    def _ended(self, key: K, task: asyncio.Task[R]) -> None:
        del self._tasks[key]
        error = _stopped() if task.cancelled() else task.exception()
        for waiter in self._waiting.pop(key):
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(task.result())
            else:
                waiter.set_exception(_copy(error))


def _stopped() -> NotReachable:
    return NotReachable("closed while the call was under way")


def _copy(error: BaseException) -> BaseException:
    """One object raised to thousands would gather a traceback of each."""
    copied = type(error).__new__(type(error), *error.args)
    copied.__dict__.update(error.__dict__)
    copied.__cause__, copied.__suppress_context__ = error.__cause__, error.__suppress_context__
    return copied
