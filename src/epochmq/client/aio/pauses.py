"""Queues from which a consumer pulls nothing for a while."""

import asyncio
from collections.abc import Iterable

from epochmq.model.topic import MessageQueue


class Pauses:
    """The paused queues of one consumer. A pause outlives a rebalance."""

    def __init__(self) -> None:
        self._resumed: dict[MessageQueue, asyncio.Event] = {}
        self._all: asyncio.Event | None = None
        """Set when the pause of all queues ends; None while there is none."""

    def pause(self, queues: Iterable[MessageQueue] | None) -> None:
        """Pause `queues`; None means all queues, also those of later."""
        if queues is None:
            self._all = self._all or asyncio.Event()
            return
        for queue in queues:
            self._resumed.setdefault(queue, asyncio.Event())

    def resume(self, queues: Iterable[MessageQueue] | None) -> None:
        """End the pause of `queues`, or of all queues (None)."""
        if queues is None:
            if self._all is not None:
                self._all.set()
                self._all = None
            queues = list(self._resumed)
        for queue in queues:
            event = self._resumed.pop(queue, None)
            if event is not None:
                event.set()

    def holds(self, queue: MessageQueue) -> bool:
        """Whether `queue` is paused."""
        return self._all is not None or queue in self._resumed

    async def wait(self, queue: MessageQueue) -> None:
        """Wait until one of the pauses that hold `queue` ends."""
        event = self._all or self._resumed.get(queue)
        if event is not None:
            await event.wait()
