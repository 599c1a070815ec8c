"""Masters of other groups in the same process (broker container): preferred to remote ones.

A local escape needs no request and no option. A local master must meet the same conditions as a
remote one (H15): it belongs to this cluster, may be written now, and has the topic or creates it as
a send would.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.delay.delayed import delay
from epochmq.broker.escape.forward_batch import here, level_to_wait
from epochmq.broker.internal_writes.internal_writer import Done, Origin, WriteOutcome
from epochmq.broker.transaction.half_messages import prepare
from epochmq.model import property_names as prop
from epochmq.model.names import (
    DEFAULT_TOPIC,
    RETRY,
    REVIVE_TOPIC_PREFIX,
    TIMER_TOPIC,
    is_dlq_topic,
    is_retry_topic,
)
from epochmq.model.properties import decode_bytes
from epochmq.model.sys_flag import TX_PREPARED
from epochmq.model.topic import PERM_READ_WRITE, is_writable
from epochmq.store.draft import Draft

DEFAULT_QUEUES = 8


class Neighbour(Protocol):
    """One master of another group in this process."""

    @property
    def name(self) -> str:
        """The name of its group."""
        ...

    def accepts(self, topic: str) -> bool:
        """Return whether messages for `topic` can be put there now."""
        ...

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
        """Write the messages, as `Route.put`; their topics were checked by `accepts`."""
        ...


class ContainerBrokers(Protocol):
    """The other brokers of this process; a container passes it to each of its brokers."""

    def masters(self) -> Sequence[Neighbour]:
        """Return the masters of other groups of the same cluster that may be written now."""
        ...


class NobodyNear:
    """The neighbours of a broker that is alone in its process: none."""

    def masters(self) -> Sequence[Neighbour]:
        return ()


class NodeNear:
    """A `Neighbour` that writes into a broker of this process."""

    def __init__(self, node: BrokerContext) -> None:
        self._node = node

    @property
    def name(self) -> str:
        return self._node.options.broker_name

    @property
    def cluster(self) -> str:
        return self._node.options.broker_cluster_name

    @property
    def may_write(self) -> bool:
        """Whether the broker is a master that serves now."""
        rights = self._node.serving.rights
        return rights.writable and rights.changes

    def accepts(self, topic: str) -> bool:
        node = self._node
        if not self.may_write:
            return False
        wall = node.clock.wall_ms()
        if topic == TIMER_TOPIC:
            return node.timer is not None
        if is_retry_topic(topic):
            if node.groups.find(topic.removeprefix(RETRY), wall) is None:
                return False
            config = node.topics.ensure(topic, 1, PERM_READ_WRITE, wall)
        elif is_dlq_topic(topic):
            config = node.topics.ensure(topic, 1, PERM_READ_WRITE, wall)
        else:
            made = node.topics.create_on_send(topic, DEFAULT_TOPIC, DEFAULT_QUEUES, 0, wall)
            if made is None:
                return False
            config = made
        return is_writable(config.perm)

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
        node = self._node
        if not self.may_write:
            done([WriteOutcome.LATER] * len(drafts))
            return
        node.internal_writer.put(
            [self._placed(here(draft)) for draft in drafts], origin, wall, done
        )
        node.announce()

    def _placed(self, draft: Draft) -> Draft:
        """Return the message in a queue that this broker has; a half message becomes one of this
        broker."""
        node = self._node
        config = node.topics.get(draft.topic)
        queues = 1 if config is None else config.write_queue_nums
        queue_id = node.next_number() % queues
        if draft.topic == TIMER_TOPIC:
            queue_id = 0
        elif draft.topic.startswith(REVIVE_TOPIC_PREFIX):
            queue_id = draft.queue_id % queues
        draft = msgspec.structs.replace(draft, queue_id=queue_id)
        level = level_to_wait(draft)
        if level:
            return delay(draft, node.schedule.level_for(level))
        if draft.sys_flag & TX_PREPARED:
            return prepare(draft, decode_bytes(draft.properties).get(prop.PGROUP, ""))
        return draft
