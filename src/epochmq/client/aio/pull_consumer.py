"""The asyncio pull consumer: the caller chooses queue and offset, and commits offsets itself."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from epochmq.auth.credentials import Credentials
from epochmq.client.aio.broker_calls import BrokerCalls, Pulled
from epochmq.client.aio.instance import Closing, Instance
from epochmq.client.aio.listening import Sql, matching, subscription
from epochmq.client.core.consumer_state import PULL_COUNT, PullStatus
from epochmq.client.core.namespaces import Namespace
from epochmq.client.core.outgoing import check_text
from epochmq.model.message import StoredMessage
from epochmq.model.names import check_group
from epochmq.model.topic import MessageQueue


@dataclass(frozen=True, slots=True)
class PullResult:
    """The answer to a pull; offsets are indexes in the queue.

    Attributes:
        status: the outcome, by RocketMQ's names.
        messages: the messages that match the filter.
        next_offset: the offset for the next pull, whatever the status.
        min_offset: the first offset that the queue holds.
        max_offset: the offset behind the last message of the queue.
    """

    status: PullStatus
    messages: list[StoredMessage]
    next_offset: int
    min_offset: int
    max_offset: int


class PullConsumer(Closing):
    """Reads queues on request. Use as `async with PullConsumer("127.0.0.1:9876", "group") as
    consumer`.

    It is not a member of the group: it sends no heartbeats and shares no queues with members.

    All methods raise `NotFound` if the topic does not exist, `NotReachable` if no server answers in
    time, `Refused` with the code of a server that refuses, and `UsageError` if this client is
    closed or belongs to another event loop or process.

    Args:
        namesrv: addresses of the name servers, as "host:port;host:port", or the URL of an address
            server, as "http://host:port/path".
        group: name of the consumer group whose offsets are read and committed.
        namespace: added to names of topics and groups, as RocketMQ's clients do (`NAMESPACE%NAME`);
            results and messages show the names without it. None means no namespace.
        tls: settings of TLS; None means the setting of the process, by default no TLS.
        credentials: the user who signs the requests; None means the user of the process, if any.

    Raises:
        UsageError: an argument has a wrong type or value.
        Refused: `group` is not a valid group name (code 1).
    """

    def __init__(
        self,
        namesrv: str,
        group: str,
        *,
        namespace: str | None = None,
        tls: ssl.SSLContext | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        check_text("group", group)
        self._namespace = Namespace(namespace)
        group = self._namespace.wrap(group)
        check_group(group)
        self.group = group
        self.instance: Instance = Instance(namesrv, tls=tls, credentials=credentials)
        self._calls = BrokerCalls(self.instance, group)

    async def _close(self) -> None:
        """Close all connections."""
        await self.instance.close()

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the readable queues of `topic`.

        Raises:
            NotFound: the topic does not exist.
        """
        topic = self._namespace.wrap(topic)
        await self.instance.ensure_route(topic)
        return self._namespace.unwrap_queues(self.instance.routes.subscribe(topic))

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        count: int = PULL_COUNT,
        expression: str | Sql = "*",
        hold_ms: int = 0,
    ) -> PullResult:
        """Read up to `count` messages of `queue`, beginning at `offset`.

        Args:
            queue: the queue to read.
            offset: queue offset of the first message wanted.
            count: how many messages to return at most.
            expression: tags as "a || b", "*" for all messages, or an `Sql` filter.
            hold_ms: milliseconds that the broker waits for a new message when there is none; 0
                means it answers at once. The call fails after 30 s in any case.

        Returns:
            The messages that match, and the offset of the next pull.

        Raises:
            CorruptMessage: the first message found is damaged at that broker.
            Refused: the broker refuses, or `expression` has no tag.
        """
        async with self._routed(queue) as queue:
            data = subscription(queue.topic, expression, 0)
            pulled = await self._calls.pull(queue, offset, count, data, hold_ms=hold_ms)
        messages = self._namespace.unwrap_messages(matching(data, pulled.messages))
        return _result(pulled, list(messages))

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the committed offset of the group in `queue`, or None if there is none."""
        async with self._routed(queue) as queue:
            return await self._calls.committed(queue)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Commit `offset` (a queue offset) of the group in `queue`, and wait for the broker's
        answer.
        """
        async with self._routed(queue) as queue:
            await self._calls.commit(queue, offset)

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the first offset of `queue` that can be read."""
        async with self._routed(queue) as queue:
            return await self._calls.min_offset(queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset behind the last message of `queue`."""
        async with self._routed(queue) as queue:
            return await self._calls.max_offset(queue)

    async def offset_at(self, queue: MessageQueue, wall_ms: int) -> int:
        """Return the offset of the first message of `queue` that was stored at `wall_ms` or later.

        Args:
            queue: the queue to search.
            wall_ms: Unix time in milliseconds.
        """
        async with self._routed(queue) as queue:
            return await self._calls.offset_at(queue, wall_ms)

    @asynccontextmanager
    async def _routed(self, queue: MessageQueue) -> AsyncIterator[MessageQueue]:
        """Give the queue with the namespace, whose route is known."""
        queue = self._namespace.wrap_queue(queue)
        async with self.instance.routed(queue.topic):
            yield queue


def _result(pulled: Pulled, messages: list[StoredMessage]) -> PullResult:
    return PullResult(
        pulled.status, messages, pulled.next_offset, pulled.min_offset, pulled.max_offset
    )
