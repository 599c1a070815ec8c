"""What all client objects share: `async with` closes them, and closing never waits for itself."""

import asyncio
import logging
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from epochmq.client.aio.instance import Instance

log = logging.getLogger(__name__)


class Closing(ABC):
    """Closed at the end of its `async with`, also after an error."""

    instance: Instance
    _closing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish what is under way, leave the group, close all connections.

        May be called repeatedly. Called by a listener, or by a task that a listener started, it
        begins to close and returns at once: closing waits until that listener is done. In a forked
        process nothing is closed: the connections are those of the process that made them.
        """
        if self.instance.is_forked:
            return
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(), name="close")
        if self.instance.is_inside():
            self._closing.add_done_callback(_log_failure)
        else:
            await asyncio.shield(self._closing)

    @abstractmethod
    async def _close(self) -> None:
        """Close all connections; runs once, in a task of its own."""


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.warning("closing failed: %s", task.exception(), exc_info=task.exception())
