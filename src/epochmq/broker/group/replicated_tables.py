"""Applies a master's metadata tables to a replica's own tables."""

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
    """The tables of one replica, kept equal to its master's."""

    def __init__(self, node: BrokerContext) -> None:
        self._node = node

    def apply_topics(self, body: bytes) -> None:
        """Replace the topics with the master's in one step; topics it lacks are removed.

        An empty table comes from a master that lost its own; it removes nothing.
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
        """Apply the master's rows; rows that it lacks stay until a whole table comes without
        them."""
        self._node.offsets.adopt(_object(body), whole=not delta)

    def apply_delays(self, body: bytes) -> None:
        """Apply the delivery progress of the delay levels; nothing is delivered here meanwhile.

        A former acting master may be further than a master that did not copy its progress, so
        progress only moves forward there. With controllers the master's value counts: the own
        progress may be past the end of a log that was cut.
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
        """Apply the consume mode, pull or POP, of each topic and group."""
        if "messageRequestModeMap" not in _object(body):
            raise ValueError("no table of request modes")
        told = decode_answer(MessageRequestModeTable, body)
        self._node.request_modes.adopt(told.message_request_mode_map)

    def apply_accounts(self, body: bytes) -> None:
        """Replace users and policies with the master's; raises `ValueError` if another key file
        is used there.
        """
        content = _object(body)
        if "accounts" not in content:
            raise ValueError("no table of accounts")
        self._node.accounts.adopt(content)

    def apply_orders(self, body: bytes, *, delta: bool) -> None:
        """Apply the order info: which batches of ordered POP are in flight at the master."""
        content = _object(body)
        if "table" not in content:
            raise ValueError("no table of ordered batches")
        if self._node.serving.rights.consumes:
            return
        clock = self._node.clock
        self._node.pop.orders.adopt(content, clock.now_ms(), clock.wall_ms(), whole=not delta)

    def apply_timer(self, body: bytes, *, metrics: bool) -> None:
        """Apply the progress of the master's timer, or its message counts; this broker's timer
        follows it."""
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
# Topics of which a new master has messages but no configuration.
#
# Metadata is copied some time after it changed. Messages acknowledged in between are in the log, so
# the log decides: a topic with queues exists (rocketmq-helm#33).


def recover_topics(node: BrokerContext, wall: int) -> list[str]:
    """Create the missing topics, with as many queues as the store has or the default number; return
    their names."""
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
