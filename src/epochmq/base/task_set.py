"""The background tasks of one object: started together with it, and ended with it."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

R = TypeVar("R")


class TaskSet:
    """Tasks that somebody has to hold while they run, because the event loop does not.

    Without `on_failure` an exception of a task stays with the task: who awaits the task gets it,
    else the event loop's exception handler does, which stops a node for `OurBug`. With
    `on_failure`, that is called with the task and its exception, on the loop, and decides; it
    should at least log. It is not called for a task that was cancelled.
    """

    __slots__ = ("_on_failure", "_tasks")

    def __init__(
        self, on_failure: Callable[[asyncio.Task[Any], BaseException], None] | None = None
    ) -> None:
        self._on_failure = on_failure
        self._tasks: dict[asyncio.Task[Any], None] = {}
        """In the order of their start: a set's order differs from run to run."""

    def __len__(self) -> int:
        """How many tasks have not ended."""
        return len(self._tasks)

    def spawn(
        self,
        work: Coroutine[Any, Any, R],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[R]:
        """Run `work` as a task of the running loop, and hold the task until it ends.

        `name` and `context` are those of `asyncio.create_task`.
        """
        task = asyncio.get_running_loop().create_task(work, name=name, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def cancel(self) -> None:
        """Ask every task to end, and wait for none."""
        for task in list(self._tasks):
            task.cancel()

    async def wait(self, timeout_s: float | None = None) -> None:
        """Wait until every task that runs now has ended, or for `timeout_s` seconds.

        Tasks that are started meanwhile are not waited for. No task is cancelled, and no exception
        of a task is raised here. `RuntimeError` when a task belongs to another event loop: its end
        would never be seen here.
        """
        loop = asyncio.get_running_loop()
        if any(task.get_loop() is not loop for task in self._tasks):
            raise RuntimeError("a task that is waited for is attached to a different loop")
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=timeout_s)

    async def drain(self) -> None:
        """Wait until no task is left, with those that are started meanwhile."""
        while self._tasks:
            await self.wait()

    async def close(self) -> None:
        """Cancel every task that runs now, and wait until all of them have ended."""
        self.cancel()
        await self.wait()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        del self._tasks[task]
        if self._on_failure is None or task.cancelled():
            return
        if (error := task.exception()) is not None:
            self._on_failure(task, error)
