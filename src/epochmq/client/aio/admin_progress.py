"""Administration of consumer offsets: lag, resets, copies between groups."""

from dataclasses import dataclass

from epochmq.base.errors import NotFound, Refused
from epochmq.client.aio.admin_calls import SLOW_TIMEOUT_MS, ask_all
from epochmq.client.aio.admin_groups import GroupCalls
from epochmq.client.aio.admin_topics import TopicCalls
from epochmq.model.names import retry_topic
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies.body import decode_answer, mq_map_decode
from epochmq.wire.bodies.group_bodies import ConsumeStats, ConsumeStatsList, OffsetWrapper
from epochmq.wire.bodies.offset_bodies import ResetOffsetBody
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import request
from epochmq.wire.header import decode_header
from epochmq.wire.headers import offset_headers as headers
from epochmq.wire.headers.admin_headers import ResetOffsetHeader
from epochmq.wire.headers.group_headers import (
    CloneGroupOffsetHeader,
    GetBrokerConsumeStatsHeader,
    GetConsumeStatsHeader,
)

TO_END = -1
"""As the time of a reset: the offset behind the last message."""


@dataclass(frozen=True, slots=True)
class Moved:
    """One queue that `reset_offline` looked at. All numbers are queue offsets.

    Attributes:
        queue: the queue.
        broker_offset: the offset behind the last message.
        consumer_offset: the offset of the group before the reset.
        found_offset: the offset at the time wanted.
        reset_offset: the offset of the group after the reset.
    """

    queue: MessageQueue
    broker_offset: int
    consumer_offset: int
    found_offset: int
    reset_offset: int


class ProgressCalls(TopicCalls, GroupCalls):
    """Requests about the offsets of groups."""

    async def progress(
        self, group: str, topic: str | None = None
    ) -> tuple[dict[MessageQueue, OffsetWrapper], float]:
        """Return the offsets of a group in all queues where it committed, and its consumption rate.

        Args:
            group: name of the group.
            topic: only queues of this topic; None means all topics.

        Returns:
            The offsets by queue, sorted, and messages per second.

        Raises:
            NotFound: no broker knows the group.
        """
        addresses = await self._group_brokers(group, topic)
        tables = await ask_all(addresses, lambda address: self.progress_at(address, group, topic))
        merged = {queue: at for table, _ in tables.values() for queue, at in table.items()}
        if not merged and not await self._is_configured(group, addresses):
            raise NotFound(f"group {group} is not known to any broker")
        rate = sum(tps for _, tps in tables.values())
        return {queue: merged[queue] for queue in sorted(merged)}, rate

    async def progress_at(
        self, address: str, group: str, topic: str | None = None
    ) -> tuple[dict[MessageQueue, OffsetWrapper], float]:
        """Return the offsets of a group at one broker, and messages per second (208)."""
        header = GetConsumeStatsHeader(consumerGroup=group, topic=topic)
        command = request(RequestCode.GET_CONSUME_STATS, header)
        stats = decode_answer(
            ConsumeStats, (await self.ask(address, command, SLOW_TIMEOUT_MS)).body
        )
        return dict(mq_map_decode(stats.offset_table)), stats.consume_tps

    async def progress_of_all(
        self, address: str, *, ordered: bool = False, timeout_ms: int = SLOW_TIMEOUT_MS
    ) -> ConsumeStatsList:
        """Return the offsets of all groups at one broker (317).

        Args:
            address: address of the broker.
            ordered: whether to return ordered topics only.
            timeout_ms: milliseconds for the answer.
        """
        header = GetBrokerConsumeStatsHeader(isOrder=ordered)
        command = request(RequestCode.GET_BROKER_CONSUME_STATS, header)
        answer = await self.ask(address, command, timeout_ms)
        return decode_answer(ConsumeStatsList, answer.body)

    async def committed_at(self, address: str, group: str, queue: MessageQueue) -> int | None:
        """Return the committed offset of a group in one queue at one broker, or None (14)."""
        header = headers.QueryConsumerOffsetHeader(
            consumerGroup=group,
            topic=queue.topic,
            queueId=queue.queue_id,
            setZeroIfNotFound=False,
            bname=queue.broker_name,
        )
        try:
            answer = await self.ask(address, request(RequestCode.QUERY_CONSUMER_OFFSET, header))
        except Refused as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        return decode_header(headers.OffsetResponseHeader, answer.ext).offset

    async def commit_at(self, address: str, group: str, queue: MessageQueue, offset: int) -> None:
        """Set the offset of a group in one queue at one broker (15). Running members do
        not notice.
        """
        header = headers.UpdateConsumerOffsetHeader(
            consumerGroup=group,
            topic=queue.topic,
            queueId=queue.queue_id,
            commitOffset=offset,
            bname=queue.broker_name,
        )
        await self.ask(address, request(RequestCode.UPDATE_CONSUMER_OFFSET, header))

    async def offset_at(self, address: str, queue: MessageQueue, wall_ms: int) -> int:
        """Return the offset of the first message stored at `wall_ms` or later (29).

        Args:
            address: address of the broker.
            queue: the queue to search.
            wall_ms: Unix milliseconds, or `TO_END` for the end of the queue (30).
        """
        if wall_ms == TO_END:
            end = headers.GetMaxOffsetHeader(topic=queue.topic, queueId=queue.queue_id)
            command = request(RequestCode.GET_MAX_OFFSET, end)
        else:
            search = headers.SearchOffsetHeader(
                topic=queue.topic, queueId=queue.queue_id, timestamp=wall_ms
            )
            command = request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, search)
        answer = await self.ask(address, command)
        return decode_header(headers.OffsetResponseHeader, answer.ext).offset

    async def reset_offsets(
        self, group: str, topic: str, wall_ms: int, *, force: bool = True
    ) -> dict[MessageQueue, int]:
        """Move a group to a time in all queues of `topic`; the brokers tell its members (222).

        Args:
            group: name of the group.
            topic: name of the topic.
            wall_ms: Unix milliseconds, or `TO_END`.
            force: whether the group may also move forward; without it, it is only moved back.

        Returns:
            The new offsets by queue, sorted.

        Raises:
            Refused: no member is connected (206), at brokers before 5.3; use `reset_offline` then.
        """
        header = ResetOffsetHeader(
            group=group, topic=topic, timestamp=wall_ms, isForce=force, offset=-1
        )
        command = request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        addresses = (await self.brokers_of(topic)).values()
        answers = await ask_all(
            addresses, lambda address: self.ask(address, command, SLOW_TIMEOUT_MS)
        )
        merged: dict[MessageQueue, int] = {}
        for answer in answers.values():
            if len(answer.body):
                merged.update(
                    mq_map_decode(decode_answer(ResetOffsetBody, answer.body).offset_table)
                )
        return {queue: merged[queue] for queue in sorted(merged)}

    async def reset_offline(
        self, group: str, topic: str, wall_ms: int, *, force: bool = True
    ) -> list[Moved]:
        """Move a group without connected members: look up the offsets and commit them.

        Args:
            group: name of the group.
            topic: name of the topic.
            wall_ms: Unix milliseconds, or `TO_END`.
            force: whether the group may also move forward.

        Returns:
            One entry for each queue.
        """
        moved = []
        for name, address in (await self.brokers_of(topic)).items():
            known, _ = await self.progress_at(address, group)
            positions = {q: (at.broker_offset, at.consumer_offset) for q, at in known.items()}
            if not any(queue.topic == topic for queue in positions):
                bounds, _ = await self.topic_stats_of(address, topic)
                positions = {q: (at.max_offset, at.min_offset) for q, at in bounds.items()}
            for queue in sorted(q for q in positions if q.topic == topic):
                assert queue.broker_name == name, queue
                moved.append(
                    await self._move(address, group, queue, positions[queue], wall_ms, force)
                )
        return moved

    async def reset_queue(
        self, address: str, group: str, topic: str, queue_id: int, offset: int
    ) -> None:
        """Move a group in one queue of one broker: commit (15), then tell its members (222).

        Args:
            address: address of the broker.
            group: name of the group.
            topic: name of the topic.
            queue_id: id of the queue.
            offset: the new queue offset.
        """
        await self.commit_at(address, group, MessageQueue(topic, "", queue_id), offset)
        header = ResetOffsetHeader(
            group=group, topic=topic, timestamp=0, isForce=True, queueId=queue_id, offset=offset
        )
        command = request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        await self.ask(address, command, SLOW_TIMEOUT_MS)

    async def clone_offsets(
        self, source: str, target: str, topic: str | None = None, *, offline: bool = True
    ) -> None:
        """Copy the offsets of group `source` to group `target`, on every broker of `source` (314).

        Args:
            source: the group that is read.
            target: the group that is changed.
            topic: only this topic; None means all topics.
            offline: False makes brokers refuse while members of `target` are connected.
        """
        header = CloneGroupOffsetHeader(
            srcGroup=source, destGroup=target, topic=topic, offline=offline
        )
        command = request(RequestCode.CLONE_GROUP_OFFSET, header)
        addresses = await self._group_brokers(source, topic)
        await ask_all(addresses, lambda address: self.ask(address, command))

    async def _move(
        self,
        address: str,
        group: str,
        queue: MessageQueue,
        position: tuple[int, int],
        wall_ms: int,
        force: bool,
    ) -> Moved:
        broker_offset, consumer_offset = position
        found = await self.offset_at(address, queue, wall_ms)
        target = found if force or found <= consumer_offset else consumer_offset
        if target == found:
            await self.commit_at(address, group, queue, found)
        return Moved(queue, broker_offset, consumer_offset, found, target)

    async def _group_brokers(self, group: str, topic: str | None) -> list[str]:
        """Return the brokers of the group's retry topic, else of `topic`, else all masters."""
        for name in (retry_topic(group), topic):
            try:
                if name is not None:
                    return list((await self.brokers_of(name)).values())
            except NotFound:
                if name == topic:
                    raise
        return list((await self.masters()).values())

    async def _is_configured(self, group: str, addresses: list[str]) -> bool:
        tables = await ask_all(addresses, self.groups)
        return any(group in table for table in tables.values())
