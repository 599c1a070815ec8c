"""Checks of the topic of a send; the result is cached until topics, options or role change.

The checks and their order are RocketMQ's: start-accept time, broker permission for order topics,
topic name, forbidden system topics, existence or creation, topic permission.
"""

from bisect import bisect_left
from typing import Protocol

from epochmq.base.errors import Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.state import broker_stats as stat
from epochmq.model import names, record
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.sys_flag import MULTI_TAGS
from epochmq.model.topic import (
    MULTI_TAG,
    PERM_READ_WRITE,
    TopicConfig,
    has_batch_queues,
    is_writable,
)
from epochmq.wire.codes import VERSION_5_3_1, ResponseCode


def invalid_code(version: int) -> int:
    """Return the code for an invalid parameter: 29 for clients from 5.3.1 on, else 1."""
    if version >= VERSION_5_3_1:
        return ResponseCode.INVALID_PARAMETER
    return ResponseCode.SYSTEM_ERROR


class AnySendHeader(Protocol):
    """The fields of a send header, whichever request code it came with."""

    @property
    def producerGroup(self) -> str: ...

    @property
    def topic(self) -> str: ...

    @property
    def defaultTopic(self) -> str: ...

    @property
    def defaultTopicQueueNums(self) -> int: ...

    @property
    def queueId(self) -> int: ...

    @property
    def sysFlag(self) -> int: ...

    @property
    def bornTimestamp(self) -> int: ...

    @property
    def flag(self) -> int: ...

    @property
    def properties(self) -> str | None: ...

    @property
    def reconsumeTimes(self) -> int | None: ...

    @property
    def maxReconsumeTimes(self) -> int | None: ...

    @property
    def batch(self) -> bool | None: ...


class TypeCounts:
    """The messages of one type that were sent to one topic."""

    __slots__ = ("bytes", "sizes")

    def __init__(self) -> None:
        self.sizes = [0] * (len(stat.MESSAGE_SIZE_BYTES) + 1)
        """Number of messages in each class of `MESSAGE_SIZE_BYTES`."""
        self.bytes = 0
        """Bytes of their records."""

    def add(self, messages: int, size: int) -> None:
        """Count messages whose records have `size` bytes together; all count as of one size."""
        self.sizes[bisect_left(stat.MESSAGE_SIZE_BYTES, size / messages)] += messages
        self.bytes += size


class SendTopic:
    """One topic that accepts sends; counts its sent messages by queue and by type."""

    __slots__ = (
        "batched",
        "by_type",
        "counts",
        "queues",
        "record_bytes",
        "retry_group",
        "sizes",
        "sys_flag",
        "topic",
        "used",
        "write_queues",
    )

    def __init__(self, config: TopicConfig) -> None:
        self.topic = config.topic_name
        self.batched = has_batch_queues(config)
        self.write_queues = config.write_queue_nums
        self.queues = max(config.write_queue_nums, config.read_queue_nums)
        self.sys_flag = MULTI_TAGS if config.topic_filter_type == MULTI_TAG else 0
        self.retry_group = (
            self.topic.removeprefix(names.RETRY) if names.is_retry_topic(self.topic) else None
        )
        self.record_bytes = record.size_of(len(self.topic), 0, 0)
        """Bytes of a record besides body and properties."""
        self.used = False
        """Whether something was counted since the last `SendTopics.count`."""
        self.by_type: dict[int, TypeCounts] = {}
        self.counts = [0] * self.queues
        self.sizes = [0] * self.queues

    def of_type(self, message_type: int) -> TypeCounts:
        """Return the counts of a type of messages (`send_properties.py`) to add to."""
        counts = self.by_type.get(message_type)
        if counts is None:
            counts = self.by_type[message_type] = TypeCounts()
        return counts


class SendTopics:
    """The cached states of topics that accept sends; at most one per topic."""

    def __init__(self, node: BrokerContext) -> None:
        self._node = node
        self._send_topics: dict[str, SendTopic] = {}
        self._version = node.topics.version
        self._options = node.options
        self._role = node.serving.role
        self.get = self._send_topics.get
        self.used: list[SendTopic] = []
        """Topics with counts that the statistics do not have yet; each topic once."""
        self.opened: list[SendTopic] = []
        """Topics that the native code does not know yet."""
        self.cleared = 0
        """How often all states were dropped."""

    def is_outdated(self) -> bool:
        """Return whether topics, options or role have changed; every turn asks."""
        node = self._node
        return (
            node.topics.version is not self._version
            or node.options is not self._options
            or node.serving.role is not self._role
        )

    def drop_all(self) -> None:
        """Drop all states; their messages must have been counted."""
        node = self._node
        self._send_topics.clear()
        self.opened.clear()
        self.cleared += 1
        self._version = node.topics.version
        self._options = node.options
        self._role = node.serving.role

    def open(self, header: AnySendHeader, version: int, wall: int) -> SendTopic:
        """Return the state of the topic in `header`; may create the topic; raises `Refused`."""
        node = self._node
        topic = header.topic
        if not is_writable(node.options.broker_permission) and node.topics.is_order(topic):
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"the broker[{node.options.broker_ip1}] sending message is forbidden",
            )
        check_name(topic, version)
        if topic in names.NOT_SENDABLE_TOPICS:
            raise Refused(
                ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden."
            )
        config = node.topics.get(topic) or self._create(header, wall)
        if config is None:
            raise Refused(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!"
            )
        return self.keep(config)

    def keep(self, config: TopicConfig) -> SendTopic:
        """Return the state of an existing topic; raises `Refused` when it is not writable."""
        if not is_writable(config.perm):
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"the topic[{config.topic_name}] sending message is forbidden",
            )
        send_topic = self._send_topics.get(config.topic_name)
        if send_topic is None:
            send_topic = self._send_topics[config.topic_name] = SendTopic(config)
            self.opened.append(send_topic)
        return send_topic

    def add_batch(
        self, topic: str, queue_id: int, messages: int, size: int, message_type: int
    ) -> None:
        """Count a stored batch; each message counts as `size / messages` bytes, as in RocketMQ."""
        self.add(topic, queue_id, messages, size)
        send_topic = self.get(topic)
        if send_topic is not None and messages:
            send_topic.of_type(message_type).add(messages, size)

    def add(self, topic: str, queue_id: int, messages: int, size: int) -> None:
        """Count stored messages of one queue, if the topic still has a state.

        The sizes and types of the single messages are counted elsewhere.
        """
        send_topic = self.get(topic)
        if send_topic is not None:
            if not send_topic.used:
                send_topic.used = True
                self.used.append(send_topic)
            send_topic.counts[queue_id] += messages
            send_topic.sizes[queue_id] += size

    def count(self) -> None:
        """Add the counts of all topics to the statistics; a deleted topic has none any more."""
        stats = self._node.stats
        used, self.used = self.used, []
        for send_topic in used:
            if send_topic.topic not in self._node.topics:
                stats.put_bytes.total += sum(send_topic.sizes)
                continue
            total = total_bytes = 0
            for queue_id, count in enumerate(send_topic.counts):
                if count:
                    size, key = send_topic.sizes[queue_id], f"{send_topic.topic}@{queue_id}"
                    total += count
                    total_bytes += size
                    stats.add(stat.QUEUE_PUT_NUMS, key, count, count)
                    stats.add(stat.QUEUE_PUT_SIZE, key, size, count)
                    send_topic.counts[queue_id] = send_topic.sizes[queue_id] = 0
            send_topic.used = False
            stats.put_bytes.total += total_bytes
            for message_type, counts in send_topic.by_type.items():
                sizes_key = send_topic.topic, stat.MESSAGE_TYPES[message_type]
                stats.message_sizes.get(sizes_key).add(counts.sizes, counts.bytes)
            send_topic.by_type.clear()
            stats.add(stat.TOPIC_PUT_NUMS, send_topic.topic, total, total)
            stats.add(stat.TOPIC_PUT_SIZE, send_topic.topic, total_bytes, total)

    def _create(self, header: AnySendHeader, wall: int) -> TopicConfig | None:
        topics = self._node.topics
        if names.is_retry_topic(header.topic):
            check_group(self._node, header.topic.removeprefix(names.RETRY), wall)
        config = topics.create_on_send(
            header.topic, header.defaultTopic, header.defaultTopicQueueNums, 0, wall
        )
        if config is None and names.is_retry_topic(header.topic):
            config = topics.ensure(header.topic, 1, PERM_READ_WRITE, wall)
        return config


def check_group(node: BrokerContext, group: str, wall: int) -> SubscriptionGroupConfig:
    """Return the group's configuration, created when allowed.

    Raises `Refused` 26 when there is none.
    """
    config = node.groups.find(group, wall)
    if config is None:
        raise Refused(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group}"
        )
    return config


def check_name(topic: str, version: int) -> None:
    """Check the topic's name; raises `Refused` with the code that the client's version knows."""
    try:
        names.check_topic(topic)
    except Refused as error:
        raise Refused(invalid_code(version), error.remark) from None
