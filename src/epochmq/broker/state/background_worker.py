"""Background worker: runs long calculations in a thread of its own.

They do not run in the disk thread or the table thread, because a sync must not wait behind 64 MiB
of digests.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from epochmq.base.task_set import TaskSet

T = TypeVar("T")
log = logging.getLogger(__name__)


class Thread(Protocol):
    """What runs the calls; `runtime.blocking.BlockingThread` fits."""

    async def run(self, call: Callable[[], T]) -> T: ...

    def close(self) -> None: ...


class BackgroundWorker:
    """Runs calls in the given order in a thread; results are reported on the loop."""

    def __init__(self, thread: Thread) -> None:
        self._thread = thread
        self._tasks = TaskSet()
        self._closed = False

    def run(self, call: Callable[[], T], done: Callable[[T | None], None]) -> None:
        """Run `call`; `done` gets its result, or None if it fails. Not called after `close`."""
        if self._closed:
            return
        self._tasks.spawn(self._run(call, done))

    async def _run(self, call: Callable[[], T], done: Callable[[T | None], None]) -> None:
        try:
            result: T | None = await self._thread.run(partial(self._unless_closed, call))
        except Exception as error:
            log.error(
                "work in the background thread failed: %(error)s", {"error": error}, exc_info=error
            )
            result = None
        if not self._closed:
            done(result)

    def _unless_closed(self, call: Callable[[], T]) -> T | None:
        return None if self._closed else call()

    async def close(self) -> None:
        """Wait for the running call without reporting its result, and stop the thread.

        Calls that wait are dropped: on a slow device a stop would wait for all of them.
        """
        self._closed = True
        await self._tasks.drain()
        self._thread.close()
