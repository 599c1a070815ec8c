"""Taking a master's tables over into a replica's own."""

from typing import Any

from epochmq.broker.context.broker_context import BrokerContext
from epochmq.model import names
from epochmq.model.topic import PERM_READ_WRITE
from epochmq.wire import json_tolerant
from epochmq.wire.bodies.body import decode_answer
from epochmq.wire.bodies.group_bodies import SubscriptionGroupTable
from epochmq.wire.bodies.pop_bodies import MessageRequestModeTable
from epochmq.wire.bodies.topic_bodies import TopicConfigTable


class Tables:
    """The tables of one replica, as its master has them."""

    def __init__(self, node: BrokerContext) -> None:
        self._node = node

    def apply_topics(self, body: bytes) -> None:
        """The master's topics instead of ours, in one step; ours that it has not are gone.

        But an empty table is a master's that has lost its own: it takes nothing away.
        """
        told = decode_answer(TopicConfigTable, body)
        if told.topic_config_table:
            self._node.topics.adopt(told.topic_config_table, told.data_version)

    def apply_groups(self, body: bytes) -> None:
        told = decode_answer(SubscriptionGroupTable, body)
        if told.subscription_group_table:
            self._node.groups.adopt(
                told.subscription_group_table, told.forbidden_table, told.data_version
            )

    def apply_offsets(self, body: bytes, *, delta: bool) -> None:
        """The master's rows over ours; rows it has not stay until a whole table lacks them."""
        self._node.offsets.adopt(_object(body), whole=not delta)

    def apply_delays(self, body: bytes) -> None:
        """How far the master has delivered; nothing is delivered here meanwhile.

        Who stands in may be further than a master that took nothing back. With controllers the
        master counts: progress may be behind the end of a log that was cut.
        """
        node = self._node
        if node.serving.rights.secondary:
            return
        if node.options.enable_slave_acting_master:
            node.delay_offsets.follow(_object(body))
        else:
            node.delay_offsets.load(_object(body))
            node.delay_offsets.dirty = True

    def apply_modes(self, body: bytes) -> None:
        """By pull or by POP, for each topic and group."""
        if "messageRequestModeMap" not in _object(body):
            raise ValueError("no table of request modes")
        told = decode_answer(MessageRequestModeTable, body)
        self._node.request_modes.adopt(told.message_request_mode_map)

    def apply_orders(self, body: bytes, *, delta: bool) -> None:
        """Which batches of ordered pops are out at the master."""
        content = _object(body)
        if "table" not in content:
            raise ValueError("no table of ordered batches")
        if self._node.serving.rights.consumes:
            return
        clock = self._node.clock
        self._node.pop.orders.adopt(content, clock.now_ms(), clock.wall_ms(), whole=not delta)

    def apply_timer(self, body: bytes, *, metrics: bool) -> None:
        """How far the master's timer is, and what waits there; a timer of ours follows."""
        timer = self._node.timer
        if timer is None or self._node.serving.rights.secondary:
            return
        if metrics:
            timer.driver.metrics.adopt(_object(body))
        else:
            timer.progress.adopt(body)


def _object(body: bytes) -> dict[str, Any]:
    content = json_tolerant.loads(body)
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    return content


# Recover topics ------------------------------------------------------------------------------
# Topics that a new master has messages of but no configuration for.
#
# Metadata is copied some time after it changed. What was acknowledged in between is in the log, so
# the log has the last word: a topic with queues is a topic (rocketmq-helm#33).


def recover_topics(node: BrokerContext, wall: int) -> list[str]:
    """Make what is missing, with as many queues as there are or the usual number; their names."""
    healed = []
    for topic in node.store.topics():
        queues = node.store.queues(topic)
        if topic in node.topics or not queues:
            continue
        count = queues[-1] + 1
        if not (names.is_retry_topic(topic) or names.is_dlq_topic(topic)):
            count = max(count, node.options.default_topic_queue_nums)
        node.topics.ensure(topic, count, PERM_READ_WRITE, wall)
        healed.append(topic)
    return healed
