"""Applies a master's metadata tables to a replica's own tables."""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import Any

from epochmq.broker.context.broker_context import BrokerContext
from epochmq.model import names
from epochmq.model.topic import PERM_READ_WRITE
from epochmq.wire.bodies.body import decode_answer
from epochmq.wire.bodies.group_bodies import SubscriptionGroupTable
from epochmq.wire.bodies.pop_bodies import MessageRequestModeTable
from epochmq.wire.bodies.topic_bodies import TopicConfigTable
from epochmq.wire.codes import RequestCode
from epochmq.wire.table_parts import TableParts, decode_object


class CopiedTable(Enum):
    """The tables to copy; each value is the request code that fetches the table."""

    TOPICS = RequestCode.GET_ALL_TOPIC_CONFIG
    GROUPS = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    OFFSETS = RequestCode.GET_ALL_CONSUMER_OFFSET
    DELAYS = RequestCode.GET_ALL_DELAY_OFFSET
    MODES = RequestCode.GET_ALL_MESSAGE_REQUEST_MODE
    TIMER = RequestCode.GET_TIMER_CHECK_POINT
    TIMER_METRICS = RequestCode.GET_TIMER_METRICS
    ORDERS = RequestCode.GET_ALL_CONSUMER_ORDER_INFO
    ACCOUNTS = RequestCode.GET_ALL_ACCOUNTS


def decoder_of(table: CopiedTable) -> Callable[[bytes], Any]:
    """Return the function that decodes an answer with `table`, or with a part of it.

    It raises `PeerError`, `ValueError` or `msgspec.ValidationError`.
    """
    return _DECODERS.get(table, decode_object)


def _decode_modes(body: bytes) -> MessageRequestModeTable:
    if "messageRequestModeMap" not in decode_object(body):
        raise ValueError("no table of request modes")
    return decode_answer(MessageRequestModeTable, body)


_DECODERS: Mapping[CopiedTable, Callable[[bytes], Any]] = {
    CopiedTable.TOPICS: partial(decode_answer, TopicConfigTable),
    CopiedTable.GROUPS: partial(decode_answer, SubscriptionGroupTable),
    CopiedTable.MODES: _decode_modes,
    CopiedTable.TIMER: bytes,
}


class Tables:
    """The tables of one replica, kept equal to its master's."""

    def __init__(self, node: BrokerContext) -> None:
        self._node = node

    def apply(self, table: CopiedTable, parts: TableParts[Any]) -> None:
        """Apply the answers of the master: a whole table, or changes since the last ones."""
        told: Any = parts.content
        delta = parts.is_delta
        if table is CopiedTable.TOPICS:
            self.apply_topics(told, parts.removed, delta=delta)
        elif table is CopiedTable.GROUPS:
            self.apply_groups(told, parts.removed, delta=delta)
        elif table is CopiedTable.OFFSETS:
            self.apply_offsets(told, delta=delta)
        elif table is CopiedTable.DELAYS:
            self.apply_delays(told)
        elif table is CopiedTable.MODES:
            self.apply_modes(told)
        elif table is CopiedTable.ORDERS:
            self.apply_orders(told, delta=delta)
        elif table is CopiedTable.ACCOUNTS:
            self.apply_accounts(told)
        elif table is CopiedTable.TIMER_METRICS:
            self.apply_timer_metrics(told)
        else:
            self.apply_timer(told)

    def apply_topics(self, told: TopicConfigTable, removed: Iterable[str], *, delta: bool) -> None:
        """Replace the topics with the master's in one step; topics it lacks are removed.

        An empty table comes from a master that lost its own; it removes nothing. With `delta`, only
        the changed topics of `told` and those of `removed` change.
        """
        topics, rows = self._node.topics, told.topic_config_table
        if delta:
            topics.adopt_changes(rows, removed, told.data_version)
        elif rows:
            topics.adopt(rows, told.data_version)

    def apply_groups(
        self, told: SubscriptionGroupTable, removed: Iterable[str], *, delta: bool
    ) -> None:
        """Apply the groups, and the topics that they must not read, as `apply_topics` does."""
        groups, rows = self._node.groups, told.subscription_group_table
        if delta:
            groups.adopt_changes(rows, told.forbidden_table, removed, told.data_version)
        elif rows:
            groups.adopt(rows, told.forbidden_table, told.data_version)

    def apply_offsets(self, told: dict[str, Any], *, delta: bool) -> None:
        """Apply the master's rows; rows that it lacks stay until a whole table comes without
        them."""
        self._node.offsets.adopt(told, whole=not delta)

    def apply_delays(self, told: dict[str, Any]) -> None:
        """Apply the delivery progress of the delay levels; nothing is delivered here meanwhile.

        A former acting master may be further than a master that did not copy its progress, so
        progress only moves forward there. With controllers the master's value counts: the own
        progress may be past the end of a log that was cut.
        """
        node = self._node
        if node.serving.rights.secondary:
            return
        if node.options.enable_slave_acting_master:
            node.delay_offsets.follow(told)
        else:
            node.delay_offsets.load(told)
            node.delay_offsets.dirty = True

    def apply_modes(self, told: MessageRequestModeTable) -> None:
        """Apply the consume mode, pull or POP, of each topic and group."""
        self._node.request_modes.adopt(told.message_request_mode_map)

    def apply_accounts(self, told: dict[str, Any]) -> None:
        """Replace users and policies with the master's; raises `ValueError` if another key file
        is used there.
        """
        if "accounts" not in told:
            raise ValueError("no table of accounts")
        self._node.accounts.adopt(told)

    def apply_orders(self, told: dict[str, Any], *, delta: bool) -> None:
        """Apply the order info: which batches of ordered POP are in flight at the master."""
        if "table" not in told:
            raise ValueError("no table of ordered batches")
        if self._node.serving.rights.consumes:
            return
        clock = self._node.clock
        self._node.pop.orders.adopt(told, clock.now_ms(), clock.wall_ms(), whole=not delta)

    def apply_timer(self, told: bytes) -> None:
        """Apply the progress of the master's timer; this broker's timer follows it."""
        timer = self._node.timer
        if timer is not None and not self._node.serving.rights.secondary:
            timer.progress.adopt(told)

    def apply_timer_metrics(self, told: dict[str, Any]) -> None:
        """Apply the numbers of messages that wait in the master's timer."""
        timer = self._node.timer
        if timer is not None and not self._node.serving.rights.secondary:
            timer.driver.metrics.adopt(told)


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
