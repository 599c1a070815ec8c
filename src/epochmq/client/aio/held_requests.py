"""Checks that brokers which hold a request of ours are alive.

A broker holds a pull or a pop for many seconds while there is no message. A broker that was paused,
or whose machine vanished, looks the same. A broker that is silent is asked something that it
answers at once; if it does not, its connection is closed, so the held requests fail and go to the
new master.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from epochmq.base.errors import NotReachable
from epochmq.base.task_set import TaskSet
from epochmq.runtime.peers import Peers
from epochmq.wire.command import Command

log = logging.getLogger(__name__)

CHECK_MS = 1_000
"""How often brokers are looked at, and after which silence they are asked."""
TIMEOUT_MS = 1_000


class HeldRequests:
    """The brokers that hold requests of one client, and the task that checks them."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._held: dict[str, int] = {}
        """Number of held requests by address."""
        self._questions: dict[str, Callable[[], Command]] = {}
        self._tasks = TaskSet()
        self._checking: asyncio.Task[None] | None = None

    @contextmanager
    def at(self, address: str, question: Callable[[], Command]) -> Iterator[None]:
        """Check the broker at `address` while the block waits for its answer.

        `question` makes a request that the broker answers at once, with any code.
        """
        self._held[address] = self._held.get(address, 0) + 1
        self._questions[address] = question
        if self._checking is None:
            self._checking = self._tasks.spawn(self._check(), name="held requests")
        try:
            yield
        finally:
            self._held[address] -= 1
            if not self._held[address]:
                del self._held[address], self._questions[address]

    async def close(self) -> None:
        """Stop checking."""
        await self._tasks.close()

    async def _check(self) -> None:
        try:
            while self._held:
                await asyncio.sleep(CHECK_MS / 1_000)
                for address, question in list(self._questions.items()):
                    peer = self._peers.find(address)
                    if peer is not None and peer.silent_ms >= CHECK_MS:
                        self._tasks.spawn(self._ask(address, question()))
        finally:
            self._checking = None

    async def _ask(self, address: str, command: Command) -> None:
        try:
            await self._peers.invoke(address, command, TIMEOUT_MS)
        except NotReachable as error:
            log.info("a broker that holds requests does not answer: %(error)s", {"error": error})
