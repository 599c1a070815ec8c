"""The run with RocketMQ's clients where it matters: in order, by POP, and in transactions."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable

from tests.compat.drivers.build import JAVA_CLIENTS, java_driver
from tests.compat.drivers.driver import Driver, Event
from tests.compat.peers import wire

from chaos.acting_run import DIES, HALF, KINDS, ORDERED, POP, Run, now_ms

HALVES = 200
"""Half messages that are silent when the master dies."""
HELD_S = 2.0
"""Consumers stand still for so long before: a backlog waits when the master dies."""
FOR_EVER_MS = 3_600_000
STARTED_S = 60
SEND_TIMEOUT_MS = 60_000
_SET_MODE = 401


class JavaRun(Run):
    """Java 5.3 consumes `Ordered` and `Pop`, and sends `Half`; the rest is as with our clients."""

    async def _consume(self, stack: contextlib.AsyncExitStack) -> None:
        self._consumers = {
            ORDERED: await self._started(stack, ORDERED, order=True),
            POP: await self._started(stack, POP, pop=True),
        }
        self._producer = await self._driver(stack)
        await self._consume_plain(stack)
        await stack.enter_async_context(self._listening())

    async def _started(self, stack: contextlib.AsyncExitStack, kind: str, **how: bool) -> Driver:
        if "pop" in how:
            for broker in (self.pairs.masters[DIES], *self.targets):
                mode = {"topic": kind, "consumerGroup": "G" + kind, "mode": "POP"}
                body = json.dumps({**mode, "popShareQueueNum": 0}).encode()
                assert wire.call(broker.address, _SET_MODE, {}, body).code == 0
        driver = await self._driver(stack)
        driver.start(
            "push", self.pairs.namesrv_addr, kind, group="G" + kind, timeout_ms=FOR_EVER_MS, **how
        )
        await asyncio.to_thread(
            driver.wait_event, lambda event: event["event"] == "started", STARTED_S
        )
        return driver

    async def _driver(self, stack: contextlib.AsyncExitStack) -> Driver:
        driver = await asyncio.to_thread(java_driver, JAVA_CLIENTS[0])
        stack.callback(driver.close)
        return driver

    @contextlib.asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._listen())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _listen(self) -> None:
        """What the consumers were given, with the time at which they were."""
        read = dict.fromkeys(self._consumers, 0)
        while True:
            for kind, driver in self._consumers.items():
                driver.skip()
                events = driver.seen[read[kind] :]
                read[kind] += len(events)
                self._received(kind, [e for e in events if e["event"] == "received"])
            await asyncio.sleep(0.1)

    def _received(self, kind: str, events: list[Event]) -> None:
        ago_ms = now_ms() - time.time() * 1_000
        for event in events:
            body = event["body"]
            if kind == ORDERED:
                self._check_order(event["queue"], body)
            self.kinds[kind].came.setdefault(body, []).append(event["at_ms"] + ago_ms)
        if events:
            self._news.set()

    async def _kill(self) -> None:
        """Half messages are silent, and a backlog waits."""
        self._producer.start(
            "transact", self.pairs.namesrv_addr, HALF, group="P" + HALF, count=HALVES, prefix=HALF,
            local="unknown", check="commit", linger_ms=FOR_EVER_MS, timeout_ms=SEND_TIMEOUT_MS,
        )  # fmt: skip
        book = self.kinds[HALF]
        while len(book.sent) < HALVES:
            event = await asyncio.to_thread(
                self._producer.wait_event, lambda event: event["event"] == "sent", STARTED_S
            )
            book.sent[event["body"]] = now_ms()
        for driver in self._consumers.values():
            driver.pause()
        await asyncio.sleep(HELD_S)
        await super()._kill()
        for driver in self._consumers.values():
            driver.resume()

    def _loads(self) -> list[Awaitable[None]]:
        return [self._plain(kind) for kind in KINDS if kind != HALF]
