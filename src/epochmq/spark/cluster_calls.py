"""The asynchronous part of `Cluster`: requests to brokers, each with retries."""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from epochmq.base.errors import NotReachable, Refused, UsageError
from epochmq.client.aio.admin_client import Admin
from epochmq.client.aio.bulk_calls import BulkCalls, QueuePlaces
from epochmq.client.core.route_cache import MASTER_ID
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.names import retry_topic
from epochmq.model.topic import MessageQueue, TopicConfig
from epochmq.spark.retry import Retries
from epochmq.wire.codes import ResponseCode

Bounds = dict[MessageQueue, tuple[int, int]]

_log = logging.getLogger(__name__)

_SEARCHES = 16
"""Searches by key at a time; a broker runs 64 of all its clients."""

_NO_EPOCHS = frozenset(
    {
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.INVALID_PARAMETER,
    }
)
"""Errors of a broker that is not EpochMQ, of one without controllers, or of a future epoch."""


class SparkClusterCalls:
    """Requests to one cluster; all offsets are queue offsets."""

    def __init__(self, admin: Admin, retries: Retries) -> None:
        self._admin = admin
        self._retries = retries
        self._bulk = BulkCalls(admin.instance)
        self.newest: dict[str, int] = {}
        """By topic: the newest store time (wall ms) that `bounds` received."""

    async def topics(self) -> list[str]:
        return sorted(await self._retries.ask("listing the topics", self._admin.topics))

    async def attributes(self) -> dict[str, dict[str, str]]:
        """Return the attributes of each topic; those of all brokers together."""

        async def work() -> dict[str, dict[str, str]]:
            found: dict[str, dict[str, str]] = {}
            for address in (await self._admin.masters()).values():
                for topic, config in (await self._admin.topic_configs(address)).items():
                    found.setdefault(topic, {}).update(config.attributes)
            return found

        return await self._retries.ask("reading the attributes of topics", work)

    async def queues(self, topic: str) -> list[MessageQueue]:
        async def work() -> list[MessageQueue]:
            return sorted(self._admin.instance.routes.subscribe(topic))

        return await self._retries.ask(f"finding the queues of {topic}", work, topic)

    async def bounds_of(self, topics: list[str], *, master: bool = False) -> Bounds:
        found = await asyncio.gather(*(self.bounds(topic, master=master) for topic in topics))
        return {queue: pair for each in found for queue, pair in each.items()}

    async def bounds(self, topic: str, *, master: bool = False) -> Bounds:
        """Return the bounds of readable queues, with one request to each broker."""

        async def work() -> Bounds:
            readable = self._admin.instance.routes.subscribe(topic)
            names = sorted({queue.broker_name for queue in readable})
            tables = await asyncio.gather(*(self._bounds_at(topic, n, master) for n in names))
            merged = {queue: pair for table in tables for queue, pair in table.items()}
            return {queue: merged[queue] for queue in sorted(readable) if queue in merged}

        return await self._retries.ask(f"asking how far {topic} goes", work, topic)

    async def _bounds_at(self, topic: str, broker_name: str, master: bool) -> Bounds:
        address = self._master(broker_name) if master else self._any(broker_name)
        table, _ = await self._admin.topic_stats_of(address, topic)
        newest = max((at.last_update_timestamp for at in table.values()), default=0)
        self.newest[topic] = max(newest, self.newest.get(topic, 0))
        return {
            MessageQueue(topic, broker_name, queue.queue_id): (at.min_offset, at.max_offset)
            for queue, at in table.items()
        }

    async def offsets_at(self, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        found = await asyncio.gather(*(self._offset_at(*each) for each in times.items()))
        return dict(zip(times, found, strict=True))

    async def _offset_at(self, queue: MessageQueue, wall_ms: int) -> int:
        async def work() -> int:
            return await self._admin.offset_at(self._any(queue.broker_name), queue, wall_ms)

        return await self._retries.ask(f"searching {queue} by time", work, queue.topic)

    async def key_places(
        self, queues: Sequence[MessageQueue], keys: Sequence[str]
    ) -> dict[MessageQueue, list[QueuePlaces]]:
        """Return the places of each key by queue, without the queues that some search lacks."""
        homes = sorted({(queue.topic, queue.broker_name) for queue in queues})
        limit = asyncio.Semaphore(_SEARCHES)
        asked = [(home, key) for home in homes for key in keys]
        answers = await asyncio.gather(*(self._key_places(*each, limit) for each in asked))
        found: dict[MessageQueue, list[QueuePlaces]] = {}
        for ((topic, broker_name), _), places in zip(asked, answers, strict=True):
            for queue_id, each in places.items():
                found.setdefault(MessageQueue(topic, broker_name, queue_id), []).append(each)
        return {queue: each for queue, each in found.items() if len(each) == len(keys)}

    async def _key_places(
        self, home: tuple[str, str], key: str, limit: asyncio.Semaphore
    ) -> dict[int, QueuePlaces]:
        topic, broker_name = home

        async def work() -> dict[int, QueuePlaces]:
            async with limit:
                return await self._bulk.key_places(topic, key, self._any(broker_name))

        try:
            return await self._retries.ask(f"searching {topic} for a key", work, topic)
        except Refused as error:
            _log.info("%s reads all of %s: %s", broker_name, topic, error.remark)
            return {}

    async def committed(
        self, group: str, queues: Sequence[MessageQueue]
    ) -> dict[MessageQueue, int]:
        found = await asyncio.gather(*(self._committed(group, queue) for queue in queues))
        pairs = zip(queues, found, strict=True)
        return {queue: offset for queue, offset in pairs if offset is not None}

    async def _committed(self, group: str, queue: MessageQueue) -> int | None:
        async def work() -> int | None:
            return await self._admin.committed_at(self._master(queue.broker_name), group, queue)

        return await self._retries.ask(f"asking for {group}'s offset", work, queue.topic)

    async def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        shares: dict[tuple[str, str], list[tuple[MessageQueue, int]]] = {}
        for queue, offset in offsets.items():
            shares.setdefault((queue.broker_name, queue.topic), []).append((queue, offset))
        await asyncio.gather(*(self._commit_share(group, share) for share in shares.values()))

    async def _commit_share(self, group: str, share: Sequence[tuple[MessageQueue, int]]) -> None:
        """Commit the offsets of one topic's queues at one broker, the first of them alone.

        RocketMQ's broker creates the table of a group and topic with its first offset. Of two first
        offsets that arrive together it loses one.
        """
        first, *others = share
        await self._commit(group, *first)
        await asyncio.gather(*(self._commit(group, *each) for each in others))

    async def _commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        async def work() -> None:
            address = self._master(queue.broker_name)
            try:
                await self._admin.commit_at(address, group, queue, offset)
            except Refused as error:
                if error.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                    await self._make_group(address, group)
                    await self._admin.commit_at(address, group, queue, offset)
                elif await self._has_moved(queue, address):
                    raise Refused(ResponseCode.NOT_LEADER_FOR_QUEUE, error.remark) from None
                else:
                    raise

        await self._retries.ask(f"publishing {group}'s offset of {queue}", work, queue.topic)

    async def _has_moved(self, queue: MessageQueue, address: str) -> bool:
        """Return whether a fresh route names another master than `address`.

        A replica refuses offsets with the code of every error, so the code does not tell.
        """
        self._retries.expire(queue.topic)
        await self._retries.refresh(queue.topic)
        return self._master(queue.broker_name) != address

    async def _make_group(self, address: str, group: str) -> None:
        """Create the group with its retry topic, whose route RocketMQ's tools use to find its
        brokers.
        """
        await self._admin.put_group(address, SubscriptionGroupConfig(group_name=group))
        await self._admin.put_topic(
            address, TopicConfig(retry_topic(group), read_queue_nums=1, write_queue_nums=1)
        )

    async def epoch_offsets(self, topic: str, epoch: int) -> dict[MessageQueue, int]:
        async def work() -> dict[MessageQueue, int]:
            readable = self._admin.instance.routes.subscribe(topic)
            found: dict[MessageQueue, int] = {}
            for name in sorted({queue.broker_name for queue in readable}):
                table = await self._epoch_at(topic, name, epoch)
                found.update({MessageQueue(topic, name, n): at for n, at in table.items()})
            return {queue: found[queue] for queue in sorted(readable) if queue in found}

        return await self._retries.ask(f"asking {topic} for epoch {epoch}", work, topic)

    async def _epoch_at(self, topic: str, broker_name: str, epoch: int) -> dict[int, int]:
        try:
            return await self._bulk.epoch_offsets(topic, broker_name, epoch)
        except Refused as error:
            if error.code not in _NO_EPOCHS:
                raise
            raise UsageError(
                f"broker {broker_name} cannot tell where epoch {epoch} of {topic} begins:"
                f" {error.remark}"
            ) from None

    def _any(self, broker_name: str) -> str:
        """Return the address of the master, else of the follower with the smallest id."""
        address = self._admin.instance.routes.address(broker_name, MASTER_ID)
        if address is None:
            raise NotReachable(f"broker {broker_name} has no replica now")
        return address

    def _master(self, broker_name: str) -> str:
        address = self._admin.instance.routes.master(broker_name)
        if address is None:
            raise NotReachable(f"broker {broker_name} has no master now")
        return address
