"""Reads queues by hand: the caller chooses queue and offset, and commits when it likes."""

import ssl
from dataclasses import dataclass

from epochmq.client.aio.broker_calls import BrokerCalls, Pulled
from epochmq.client.aio.instance import Closing, Instance
from epochmq.client.aio.listening import Sql, subscription, wants
from epochmq.client.core.consumer_state import PullStatus
from epochmq.client.core.outgoing import check_text
from epochmq.model.message import StoredMessage
from epochmq.model.names import check_group
from epochmq.model.topic import MessageQueue

PULL_COUNT = 32


@dataclass(frozen=True, slots=True)
class PullResult:
    """What a pull gave. Go on at `next_offset`; `min_offset` and `max_offset` bound the queue."""

    status: PullStatus
    messages: list[StoredMessage]
    next_offset: int
    min_offset: int
    max_offset: int


class PullConsumer(Closing):
    """Use as `async with PullConsumer("127.0.0.1:9876", "group") as consumer: ...`."""

    def __init__(self, namesrv: str, group: str, *, tls: ssl.SSLContext | None = None) -> None:
        check_text("group", group)
        check_group(group)
        self.group = group
        self.instance = Instance(namesrv, tls=tls)
        self._calls = BrokerCalls(self.instance, group)

    async def _close(self) -> None:
        """Close all connections."""
        await self.instance.close()

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The readable queues of `topic`; `NotFound` when there is no such topic."""
        await self.instance.ensure_route(topic)
        return self.instance.routes.subscribe(topic)

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        count: int = PULL_COUNT,
        expression: str | Sql = "*",
        hold_ms: int = 0,
    ) -> PullResult:
        """Up to `count` messages from `offset`; with `hold_ms` waits that long for a new one."""
        await self.instance.ensure_route(queue.topic)
        data = subscription(queue.topic, expression, 0)
        pulled = await self._calls.pull(queue, offset, count, data, hold_ms=hold_ms)
        messages = [message for message in pulled.messages if wants(data, message)]
        return _result(pulled, messages)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's offset of `queue`; None when it never committed one."""
        await self.instance.ensure_route(queue.topic)
        return await self._calls.committed(queue)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store the group's offset of `queue` at the broker."""
        await self.instance.ensure_route(queue.topic)
        await self._calls.commit(queue, offset)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The first offset of `queue` that can be read."""
        await self.instance.ensure_route(queue.topic)
        return await self._calls.min_offset(queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset behind the last message of `queue`."""
        await self.instance.ensure_route(queue.topic)
        return await self._calls.max_offset(queue)

    async def offset_at(self, queue: MessageQueue, wall_ms: int) -> int:
        """The first offset of `queue` stored at `wall_ms` or later."""
        await self.instance.ensure_route(queue.topic)
        return await self._calls.offset_at(queue, wall_ms)


def _result(pulled: Pulled, messages: list[StoredMessage]) -> PullResult:
    return PullResult(
        pulled.status, messages, pulled.next_offset, pulled.min_offset, pulled.max_offset
    )
