"""Sends a replica's metadata questions to its master."""

import asyncio
import logging
from collections.abc import Callable

from epochmq.base.errors import EpochError, NotReachable
from epochmq.base.ports import Clock
from epochmq.base.task_set import TaskSet
from epochmq.broker.group.metadata_sync import AGAIN_MS, FetchTable, ReplicaSync
from epochmq.runtime.peers import Peers

TIMEOUT_MS = 3_000

log = logging.getLogger(__name__)


class ReplicaSyncService:
    """Runs `ReplicaSync`; the broker calls `tick`. `on_ready` is called when all tables came once
    from a new master."""

    def __init__(
        self, core: ReplicaSync, peers: Peers, clock: Clock, on_ready: Callable[[], None]
    ) -> None:
        self.core = core
        self._peers = peers
        self._clock = clock
        self._on_ready = on_ready
        self._calls = TaskSet()
        self._said = ""
        self._timer: asyncio.TimerHandle | None = None

    def follow(self, master: str) -> None:
        self.core.follow(master, self._clock.now_ms())
        self.tick(self._clock.now_ms())

    def drop_open_questions(self) -> None:
        self.core.drop_open_questions(self._clock.now_ms())

    def stop(self) -> None:
        self.core.stop()

    def tick(self, now: int) -> None:
        """Send the questions that are due; each runs as a task."""
        for fetch in self.core.due(now):
            self._calls.spawn(self._ask(fetch))

    async def close(self) -> None:
        self.core.stop()
        if self._timer is not None:
            self._timer.cancel()
        await self._calls.close()

    async def _ask(self, fetch: FetchTable) -> None:
        was_ready = self.core.ready
        try:
            answer = await self._peers.invoke(fetch.address, fetch.command, TIMEOUT_MS)
            self.core.answered(fetch, answer, self._clock.now_ms())
        except NotReachable as error:
            self.core.failed(fetch, str(error), self._clock.now_ms())
        except EpochError as error:
            self.core.failed(fetch, f"{fetch.address}: {error}", self._clock.now_ms())
        self._report()
        self._go_on(self._clock.now_ms())
        if self.core.ready and not was_ready:
            self._on_ready()

    def _go_on(self, now: int) -> None:
        """Ask again when the next table is due soon: a client that changed it may be waiting."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.core.next_deadline()
        if due is not None and due <= now + AGAIN_MS:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(due - now, 0) / 1000, self._is_due)

    def _is_due(self) -> None:
        now = self._clock.now_ms()
        self.tick(now)
        self._go_on(now)

    def _report(self) -> None:
        """Log a problem once when it changes, not for every question."""
        if self.core.problem != self._said:
            self._said = self.core.problem
            if self._said:
                log.warning(
                    "metadata of the master cannot be copied: %(error)s", {"error": self._said}
                )
