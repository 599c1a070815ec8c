"""Which broker groups have which topics, with numbers of queues and permissions.

Methods that change something return what changed, so that only those encoded routes are dropped.
"""

from collections.abc import Iterable

from epochmq.model.topic import PERM_READ_WRITE, PERM_WRITE, QueueData, TopicConfig
from epochmq.wire.bodies.topic_bodies import TopicQueueMappingInfo

UNIT = 0x1
UNIT_SUB = 0x2
"""Bits of a topic's system flag; tools list such topics."""


class RoutedTopics:
    """topic -> broker name -> queues, and the mappings of static topics."""

    def __init__(self) -> None:
        self.queues: dict[str, dict[str, QueueData]] = {}
        self.mappings: dict[str, dict[str, TopicQueueMappingInfo]] = {}

    def put(self, topic: str, queues: QueueData) -> bool:
        """Set the queues of `topic` on one broker group. Return whether they changed."""
        held = self.queues.setdefault(topic, {})
        if held.get(queues.broker_name) == queues:
            return False
        held[queues.broker_name] = queues
        return True

    def has(self, topic: str, broker_name: str) -> bool:
        """Whether the broker group has the topic."""
        return broker_name in self.queues.get(topic, ())

    def put_mapping(self, topic: str, broker_name: str, mapping: TopicQueueMappingInfo) -> bool:
        """Set the mapping of a static topic on one broker group. Return whether it changed."""
        held = self.mappings.setdefault(topic, {})
        if held.get(broker_name) == mapping:
            return False
        held[broker_name] = mapping
        return True

    def of_broker(self, broker_name: str) -> list[str]:
        """Return the topics of one broker group."""
        return [topic for topic, held in self.queues.items() if broker_name in held]

    def drop(self, topic: str, broker_names: Iterable[str]) -> bool:
        """Remove broker groups from `topic`, and the topic with its last group."""
        held = self.queues.get(topic)
        if held is None:
            return False
        before = len(held)
        mappings = self.mappings.get(topic, {})
        for name in broker_names:
            held.pop(name, None)
            mappings.pop(name, None)
        if not held:
            self.drop_topic(topic)
        return len(held) < before

    def drop_topic(self, topic: str) -> bool:
        """Remove a topic. Return whether it existed."""
        self.mappings.pop(topic, None)
        return self.queues.pop(topic, None) is not None

    def drop_broker(self, broker_name: str) -> list[str]:
        """Remove all topics of a broker group. Return their names."""
        gone = self.of_broker(broker_name)
        for topic in gone:
            self.drop(topic, (broker_name,))
        return gone

    def wipe_write(self, broker_name: str) -> list[str]:
        """Remove the write permission of all topics of a group. Return all of its topics."""
        topics = self.of_broker(broker_name)
        for topic in topics:
            self.queues[topic][broker_name].perm &= ~PERM_WRITE
        return topics

    def add_write(self, broker_name: str) -> list[str]:
        """Make all topics of a group readable and writable; other bits are lost, as in RocketMQ."""
        topics = self.of_broker(broker_name)
        for topic in topics:
            self.queues[topic][broker_name].perm = PERM_READ_WRITE
        return topics

    def of_brokers(self, broker_names: Iterable[str]) -> list[str]:
        """Return the topics of any of these broker groups."""
        wanted = set(broker_names)
        return [topic for topic, held in self.queues.items() if not wanted.isdisjoint(held)]

    def units(self, wanted: int, unwanted: int = 0) -> list[str]:
        """Return the topics whose system flag has bits `wanted` and none of `unwanted` on some
        group.
        """
        return [
            topic
            for topic, held in self.queues.items()
            if any(
                queues.topic_sys_flag & wanted and not queues.topic_sys_flag & unwanted
                for queues in held.values()
            )
        ]


def queues_of(config: TopicConfig, broker_name: str, *, read_only: bool) -> QueueData:
    """Return the queues of one registered topic; `read_only` is for an acting master."""
    perm = config.perm & ~PERM_WRITE if read_only else config.perm
    return QueueData(
        broker_name,
        config.read_queue_nums,
        config.write_queue_nums,
        perm,
        config.topic_sys_flag,
    )
