"""Runs the store on the event loop: group commit, timed flushes, chores and ticks.

One task uses the blocking thread, one step at a time: a sync of the log if one is due, else the
next chore. Appends continue during a sync; the next sync serves all of them at once.
"""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from epochmq.base.errors import EnvironmentFault
from epochmq.base.ports import Blocking, Clock
from epochmq.store.store import Store

_log = logging.getLogger(__name__)

TICK_MS = 20


class StoreService:
    """Runs one store on the event loop; all awaits of the store are in this class."""

    def __init__(self, store: Store, clock: Clock, blocking: Blocking) -> None:
        self.store = store
        self._clock = clock
        self._blocking = blocking
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False

    async def start(self) -> None:
        """Start flushing and housekeeping. Nothing may be appended before this returns."""
        if (step := self.store.first_file()) is not None:
            try:
                await self._blocking.run(step)
            except EnvironmentFault as error:
                _log.warning("the first append will make its log file: %s", error)
        self.store.notify_append(self._wake.set if self.store.options.sync_flush else None)
        for name, work in (("store-flush", self._flush_loop()), ("store-tick", self._tick_loop())):
            self._tasks.append(asyncio.create_task(self._guard(work), name=name))

    async def stop(self) -> None:
        """Finish the running step, stop the tasks, and close the store cleanly."""
        self._stopping = True
        self._wake.set()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        self.store.notify_append(None)
        self.store.close(self._clock.wall_ms())

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        """Fence the store if one of its loops fails with an exception."""
        try:
            await work
        except Exception as error:
            _log.exception("the store's service failed")
            self.store.fence(f"{type(error).__name__}: {error}")

    async def _flush_loop(self) -> None:
        store = self.store
        while not self._stopping and store.fenced is None:
            self._wake.clear()
            if store.flush_due(self._clock.now_ms()):
                await self._sync()
            elif (step := store.chores.next_step()) is not None:
                try:
                    await self._blocking.run(step)
                except EnvironmentFault as error:
                    store.chores.failed(error)
            else:
                await self._wake.wait()

    async def _sync(self) -> None:
        store = self.store
        try:
            offset, call = store.sync_point()
            begun = self._clock.now_ms()
            await self._blocking.run(call)
        except EnvironmentFault as error:
            store.sync_failed(error)
            return
        store.sync_times.observe((self._clock.now_ms() - begun) / 1000)
        store.synced_to(offset)

    async def _tick_loop(self) -> None:
        """Do housekeeping at each tick, and let `_flush_loop` look for work.

        A timer for each wait of `_flush_loop` would be made and cancelled for each group of
        messages.
        """
        try:
            while not self._stopping and self.store.fenced is None:
                self.store.tick(self._clock.now_ms(), self._clock.wall_ms())
                self._wake.set()
                await asyncio.sleep(TICK_MS / 1000)
        finally:
            self._wake.set()
