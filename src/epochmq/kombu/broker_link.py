"""The connections of one transport, and what it asks brokers and name servers for."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from msgspec import structs

from epochmq.auth.credentials import Credentials
from epochmq.base.errors import NotFound, Outcome, Refused
from epochmq.client.aio import Admin, Producer
from epochmq.client.aio.instance import Instance
from epochmq.kombu.queue_reader import QueueReader
from epochmq.model.message import Message
from epochmq.model.names import retry_topic
from epochmq.model.topic import MessageQueue, TopicConfig
from epochmq.runtime import loop_thread

T = TypeVar("T")

SEND_TIMEOUT_MS = 10_000


class BrokerLink:
    """The connections of one transport; its coroutines run on the loop of the blocking clients."""

    def __init__(
        self, namesrv: str, queues_per_topic: int, credentials: Credentials | None
    ) -> None:
        self._namesrv = namesrv
        self._credentials = credentials
        self._queues_per_topic = queues_per_topic
        self._known: dict[str, int] = {}
        """Topics that exist, with the number of queues that they were ensured to have."""
        self._sent = 0
        self.producer: Producer = loop_thread.call(
            lambda: Producer(namesrv, "kombu", timeout_ms=SEND_TIMEOUT_MS, credentials=credentials)
        )
        self.admin: Admin = loop_thread.call(lambda: Admin(namesrv, credentials=credentials))

    @property
    def is_forked(self) -> bool:
        """Whether this process is a fork of the process that made the connections."""
        return self.producer.instance.is_forked

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` and return its result."""
        return loop_thread.run(work)

    async def open(self) -> None:
        """Check that a name server answers; raises `NotReachable`."""
        await self.admin.cluster_info()
        await self.producer.start()

    async def ensure(self, topic: str, queues: int = 0) -> None:
        """Create the topic if it does not exist, and let it have at least `queues` queues."""
        if self._known.get(topic, -1) >= queues:
            return
        if not await self.exists(topic):
            count = max(self._queues_per_topic, queues)
            await self.admin.create_topic(TopicConfig(topic, count, count))
        elif queues:
            for address in (await self.admin.brokers_of(topic)).values():
                await self._add_queues(address, topic, queues)
        self._known[topic] = queues

    async def _add_queues(self, address: str, topic: str, queues: int) -> None:
        config = await self.admin.topic_config(address, topic)
        if min(config.read_queue_nums, config.write_queue_nums) < queues:
            more = structs.replace(
                config,
                read_queue_nums=max(config.read_queue_nums, queues),
                write_queue_nums=max(config.write_queue_nums, queues),
            )
            await self.admin.put_topic(address, more)

    async def exists(self, topic: str) -> bool:
        """Return whether the topic exists."""
        try:
            await self.admin.brokers_of(topic)
        except NotFound:
            return False
        return True

    async def send(self, topic: str, body: bytes) -> None:
        """Send a message, and create its topic; raises `NotReachable` if it may not be stored."""
        await self._send_to(topic, 0, lambda: self.producer.send(Message(topic, body)))

    async def send_with_priority(
        self, topic: str, body: bytes, priority: int, priorities: int
    ) -> None:
        """Send a message to the queue of its priority, on each broker in turn; else as `send`."""

        async def send() -> None:
            queues = [q for q in await self.producer.queues(topic) if q.queue_id == priority]
            self._sent += 1
            queue = queues[self._sent % len(queues)] if queues else None
            await self.producer.send(Message(topic, body), queue=queue)

        await self._send_to(topic, priorities, send)

    async def _send_to(
        self, topic: str, queues: int, send: Callable[[], Awaitable[object]]
    ) -> None:
        await self.ensure(topic, queues)
        try:
            await send()
        except (NotFound, Refused) as error:
            if error.outcome is not Outcome.NOT_DONE:
                raise
            # Another process deleted the topic; the broker may have created it with fewer queues.
            self._known.pop(topic, None)
            await self.ensure(topic, queues)
            await send()

    async def send_if_there(self, topic: str, body: bytes) -> None:
        """Send a message if its topic exists."""
        if await self.exists(topic):
            await self.producer.send(Message(topic, body))

    async def begin_at_end(self, topic: str, group: str) -> None:
        """Let a group that has not read the topic get what is sent from now on."""

        async def begin(address: str, queue: MessageQueue, end: int) -> None:
            if await self.admin.committed_at(address, group, queue) is None:
                await self.admin.commit_at(address, group, queue, end)

        for address in (await self.admin.brokers_of(topic)).values():
            bounds, _ = await self.admin.topic_stats_of(address, topic)
            await asyncio.gather(*(begin(address, q, at.max_offset) for q, at in bounds.items()))

    async def lag(self, topic: str, group: str) -> int:
        """Return how many messages of the topic wait for the group."""
        try:
            table, _ = await self.admin.progress(group, topic)
        except NotFound:
            table = {}
        if table:
            return sum(at.broker_offset - at.consumer_offset for at in table.values())
        waiting = 0
        for address in (await self.admin.brokers_of(topic)).values():
            bounds, _ = await self.admin.topic_stats_of(address, topic)
            waiting += sum(at.max_offset - max(at.min_offset, 0) for at in bounds.values())
        return waiting

    async def delete(self, topic: str, group: str) -> None:
        """Delete a topic with its messages, and the group."""
        self._known.pop(topic, None)
        for address in (await self.admin.masters()).values():
            await self.admin.delete_group(address, group, clean_offsets=True)
        for name in (topic, retry_topic(group)):
            await self.admin.delete_topic(name)

    async def stop_reading(self, readers: Iterable[QueueReader]) -> None:
        """Stop the readers at the same time."""
        await asyncio.gather(*(reader.stop() for reader in readers))

    async def close_readers(self, readers: Iterable[QueueReader]) -> None:
        """Close the readers, with their connections, at the same time."""
        await asyncio.gather(*(reader.close() for reader in readers))

    def new_instance(self) -> Instance:
        """Return connections for one reader, which closes them; call it on the event loop."""
        return Instance(self._namesrv, credentials=self._credentials)

    async def close(self) -> None:
        """Close the connections that no reader has."""
        await self.producer.close()
        await self.admin.close()
