"""What a topic allows to its senders, checked once and kept until topics, options or role change.

The checks and their order are RocketMQ's (facts/remoting.md 2.1): start-accept time, broker
permission for order topics, the name, forbidden system topics, existence (or creation), permission.
"""

from typing import Protocol

from epochmq.base.errors import Refused
from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.stats import stat_names as stat
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
    """What a client of `version` expects for a bad parameter: 29 came with 5.3."""
    if version >= VERSION_5_3_1:
        return ResponseCode.INVALID_PARAMETER
    return ResponseCode.SYSTEM_ERROR


class SendFields(Protocol):
    """A send request's header, whichever form it came in."""

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


class Lane:
    """One topic that may be sent to; counts what is sent, by queue."""

    __slots__ = (
        *(
            "batched",
            "counts",
            "queues",
            "record_bytes",
            "retry_group",
            "sizes",
            "sys_flag",
            "topic",
        ),
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
        """What a record takes besides body and properties."""
        self.used = False
        """Whether it counted something since `Lanes.count`."""
        self.counts = [0] * self.queues
        self.sizes = [0] * self.queues


class Lanes:
    """The open lanes of a broker; bounded by the number of topics."""

    def __init__(self, node: BrokerNode) -> None:
        self._node = node
        self._lanes: dict[str, Lane] = {}
        self._version = node.topics.version
        self._options = node.options
        self._role = node.role
        self.get = self._lanes.get
        self.used: list[Lane] = []
        """Lanes whose counts were not handed over yet, each once."""
        self.opened: list[Lane] = []
        """Lanes that are new to the native code."""
        self.cleared = 0
        """How often all lanes were closed."""

    def refresh(self) -> None:
        """Called once a turn: close all lanes when topics or options changed."""
        node = self._node
        if (
            node.topics.version is not self._version
            or node.options is not self._options
            or node.role is not self._role
        ):
            self.count()
            self._lanes.clear()
            self.opened.clear()
            self.cleared += 1
            self._version = node.topics.version
            self._options = node.options
            self._role = node.role

    def open(self, header: SendFields, version: int, wall: int) -> Lane:
        """The lane to the topic that `header` names, made with the topic if need be; `Refused`."""
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

    def keep(self, config: TopicConfig) -> Lane:
        """The lane of a topic that exists. `Refused` when it may not be written."""
        if not is_writable(config.perm):
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"the topic[{config.topic_name}] sending message is forbidden",
            )
        lane = self._lanes.get(config.topic_name)
        if lane is None:
            lane = self._lanes[config.topic_name] = Lane(config)
            self.opened.append(lane)
        return lane

    def add(self, topic: str, queue_id: int, messages: int, size: int) -> None:
        """Count stored messages of one queue, if its lane is still open."""
        lane = self.get(topic)
        if lane is not None:
            if not lane.used:
                lane.used = True
                self.used.append(lane)
            lane.counts[queue_id] += messages
            lane.sizes[queue_id] += size

    def count(self) -> None:
        """Hand what the lanes counted to the statistics."""
        stats = self._node.stats
        used, self.used = self.used, []
        for lane in used:
            total = total_bytes = 0
            for queue_id, count in enumerate(lane.counts):
                if count:
                    size, key = lane.sizes[queue_id], f"{lane.topic}@{queue_id}"
                    total += count
                    total_bytes += size
                    stats.add(stat.QUEUE_PUT_NUMS, key, count, count)
                    stats.add(stat.QUEUE_PUT_SIZE, key, size, count)
                    lane.counts[queue_id] = lane.sizes[queue_id] = 0
            lane.used = False
            stats.put_bytes.total += total_bytes
            stats.add(stat.TOPIC_PUT_NUMS, lane.topic, total, total)
            stats.add(stat.TOPIC_PUT_SIZE, lane.topic, total_bytes, total)

    def _create(self, header: SendFields, wall: int) -> TopicConfig | None:
        topics = self._node.topics
        if names.is_retry_topic(header.topic):
            check_group(self._node, header.topic.removeprefix(names.RETRY), wall)
        config = topics.create_on_send(
            header.topic, header.defaultTopic, header.defaultTopicQueueNums, 0, wall
        )
        if config is None and names.is_retry_topic(header.topic):
            config = topics.ensure(header.topic, 1, PERM_READ_WRITE, wall)
        return config


def check_group(node: BrokerNode, group: str, wall: int) -> SubscriptionGroupConfig:
    """The group whose retry it is, made when that is allowed; `Refused` 26 when there is none."""
    config = node.groups.find(group, wall)
    if config is None:
        raise Refused(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group}"
        )
    return config


def check_name(topic: str, version: int) -> None:
    """`Refused` with the code the peer's release expects for a bad name."""
    try:
        names.check_topic(topic)
    except Refused as error:
        raise Refused(invalid_code(version), error.remark) from None
