"""A thread for blocking calls such as fsync, so that the event loop never waits for a disk.

Calls run one after the other, in the order given. Passing a call to the thread costs about 20 us, a
third of `run_in_executor`; this matters because every group commit makes such a call.
"""

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from epochmq.base.errors import OurBug

T = TypeVar("T")
_Job = tuple[Callable[[], Any], asyncio.Future[Any], asyncio.AbstractEventLoop]


class BlockingThread:
    """The implementation of `base.ports.Blocking`; the thread starts with the first call."""

    def __init__(self, name: str = "epochmq-blocking") -> None:
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    async def run(self, call: Callable[[], T]) -> T:
        """Run `call` in the thread; return its result or raise its exception.

        Cancelling this coroutine does not stop the call, which may be running already. Raises
        `OurBug` after `close`.
        """
        if self._closed:
            raise OurBug(f"{self._name}: a call after close")
        if self._thread is None:
            # A daemon thread, so that a disk that hangs does not block the end of the process.
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        # Copy the caller's context, so that log lines name the server that the call belongs to.
        self._jobs.put((partial(copy_context().run, call), future, loop))
        return await future

    def close(self) -> None:
        """Finish the calls already given, then end the thread; blocks until the thread ends."""
        self._closed = True
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, future, loop = job
            try:
                result, error = call(), None
            except BaseException as caught:
                result, error = None, caught
            try:
                loop.call_soon_threadsafe(_set_outcome, future, result, error)
            except RuntimeError:
                pass  # the loop is closed: no coroutine waits for the result
            del job, call, future, result, error


def _set_outcome(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
