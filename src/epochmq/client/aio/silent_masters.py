"""Masters that owe answers to a producer and send nothing."""

import asyncio
from contextlib import suppress

from epochmq.base.errors import NotFound, NotReachable, Refused
from epochmq.client.aio.instance import Instance
from epochmq.client.core.retrying import Awaited

SILENCE_MS = 250
"""While sends wait for a master and no answer arrives for this long, the producer looks up the
master again."""


class SilentMasters:
    """Closes connections to silent masters that the route does not contain any more.

    A paused process keeps its connection open. Without this every send to it would wait for its
    whole timeout.
    """

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._awaited: dict[str, Awaited] = {}

    def begin(self, address: str, topic: str, now: int) -> Awaited:
        """Note that a request is sent to the master at `address`; its end is to be noted too."""
        awaited = self._awaited.get(address) or self._awaited.setdefault(address, Awaited())
        awaited.sent(topic, now)
        return awaited

    async def watch(self) -> None:
        """Look for silent masters, without end."""
        while True:
            await asyncio.sleep(SILENCE_MS / 1_000)
            now = self._instance.clock.now_ms()
            for address, awaited in list(self._awaited.items()):
                if awaited.is_silent(now, SILENCE_MS):
                    await self._drop_unless_master(address, awaited.topic)

    async def _drop_unless_master(self, address: str, topic: str) -> None:
        with suppress(NotReachable, NotFound, Refused):
            await self._instance.refresh(topic)
        if address not in self._instance.routes.masters():
            self._awaited.pop(address, None)
            self._instance.peers.drop(address, "another broker is master now")
