"""A listener that keeps what it saw and can be awaited."""

import asyncio
from collections.abc import Callable

from epochmq.client.aio import ConsumeResult
from epochmq.model.message import StoredMessage

Decide = Callable[[StoredMessage], ConsumeResult]


class Collector:
    """Collects messages until `count` were accepted."""

    def __init__(self, count: int, decide: Decide | None = None) -> None:
        self.seen: list[StoredMessage] = []
        self.accepted: list[StoredMessage] = []
        self._count = count
        self._decide = decide
        self._full = asyncio.Event()

    async def __call__(self, messages: list[StoredMessage]) -> ConsumeResult:
        self.seen += messages
        result = self._decide(messages[0]) if self._decide else ConsumeResult.SUCCESS
        if result is ConsumeResult.SUCCESS:
            self.accepted += messages
        if len(self.accepted) >= self._count:
            self._full.set()
        return result

    async def wait(self, timeout_s: float = 30) -> list[StoredMessage]:
        """The accepted messages, once there are enough."""
        await asyncio.wait_for(self._full.wait(), timeout_s)
        return self.accepted

    @property
    def bodies(self) -> list[bytes]:
        return [message.plain_body() for message in self.accepted]
