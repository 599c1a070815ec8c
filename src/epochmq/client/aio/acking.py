"""Acknowledges popped messages beside the listeners: what gathers meanwhile goes together."""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from epochmq.base.errors import EpochError, NotReachable
from epochmq.client.aio.instance import Instance
from epochmq.client.aio.pop_calls import PopCalls
from epochmq.client.core.pop_handle import PopHandle

log = logging.getLogger(__name__)

BATCH_MAX = 256
RETRY_MS = 500

_Target = tuple[str, str]
"""Broker and topic."""


class _Ack(NamedTuple):
    handle: PopHandle
    until_ms: int
    done: Callable[[], None]


class Acker:
    """One request at a time for each broker and topic; an ack is tried until it is too late."""

    def __init__(self, instance: Instance, calls: PopCalls) -> None:
        self._instance = instance
        self._calls = calls
        self._pending: dict[_Target, list[_Ack]] = {}
        self._tasks: dict[_Target, asyncio.Task[None]] = {}

    def add(self, topic: str, handle: PopHandle, until_ms: int, done: Callable[[], None]) -> None:
        """Acknowledge soon, and try until `until_ms` (monotonic); `done` is called in any case."""
        target = (handle.broker_name, topic)
        self._pending.setdefault(target, []).append(_Ack(handle, until_ms, done))
        if target not in self._tasks:
            self._tasks[target] = self._instance.spawn(self._run(target), f"acks {target}")

    async def drain(self) -> None:
        """Wait until all that were added are answered, or given up."""
        while self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _run(self, target: _Target) -> None:
        broker_name, topic = target
        waiting = self._pending[target]
        try:
            while waiting:
                batch = waiting[:BATCH_MAX]
                del waiting[:BATCH_MAX]
                try:
                    await self._calls.ack_all(topic, broker_name, [ack.handle for ack in batch])
                except NotReachable as error:
                    batch, again = self._split(batch)
                    waiting[:0] = again
                    log.info("acks to %s: %s", broker_name, error)
                    await asyncio.sleep(RETRY_MS / 1_000)
                except EpochError as error:
                    log.warning("acks to %s: %s", broker_name, error)
                for ack in batch:
                    ack.done()
        finally:
            del self._tasks[target]

    def _split(self, batch: list[_Ack]) -> tuple[list[_Ack], list[_Ack]]:
        """Those that others may have by now, and those that are worth another try."""
        now = self._instance.clock.now_ms()
        late = [ack for ack in batch if ack.until_ms <= now]
        return late, [ack for ack in batch if ack.until_ms > now]
