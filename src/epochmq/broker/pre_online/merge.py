"""Taking over from another member what is newer there, and nothing that is newer here (H6).

Upstream lets one side win a whole table by its stepped version, and so throws away either what the
slave did or what the slave had not copied yet. Here:

- consumer offsets and delay levels: queue by queue what is further, or was reset later; but no
  offset of a topic or group that was deleted meanwhile, and at a master none past a queue's end;
- the timer's check point: if it covers what ours covers, else both hold;
- topics and groups: rows of a newer table over ours; rows that only we have stay, for a slave
  deletes nothing by itself;
- batches of ordered pops: queue by queue what was out later, and what either acknowledged;
- how many timed messages wait: what the later version says;
- request modes have no version: rows that we lack.
"""

from collections.abc import Callable, Mapping
from typing import Any

from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.replica_sync.metadata_sync import CopiedTable
from epochmq.wire import json_tolerant
from epochmq.wire.bodies.body import decode_answer
from epochmq.wire.bodies.group_bodies import SubscriptionGroupTable
from epochmq.wire.bodies.pop_bodies import MessageRequestModeTable
from epochmq.wire.bodies.topic_bodies import TopicConfigTable

TAKEN = (
    CopiedTable.TOPICS,
    CopiedTable.GROUPS,
    CopiedTable.MODES,
    CopiedTable.OFFSETS,
    CopiedTable.ORDERS,
    CopiedTable.DELAYS,
    CopiedTable.TIMER,
    CopiedTable.TIMER_METRICS,
)
"""In this order: offsets of a topic come after the topic, batches after what was reset."""


class Merge:
    """Into one node's tables; only while nothing is delivered there."""

    def __init__(self, node: BrokerNode) -> None:
        self._node = node
        self._taking: Mapping[CopiedTable, Callable[[bytes, int], None]] = {
            CopiedTable.TOPICS: self._topics,
            CopiedTable.GROUPS: self._groups,
            CopiedTable.MODES: self._modes,
            CopiedTable.OFFSETS: self._offsets,
            CopiedTable.DELAYS: self._delays,
            CopiedTable.TIMER: self._timer,
            CopiedTable.TIMER_METRICS: self._timer_metrics,
            CopiedTable.ORDERS: self._orders,
        }

    def merge_table(self, table: CopiedTable, body: bytes, wall: int) -> None:
        """`ValueError`, `PeerError` or `msgspec.ValidationError` for a body that is no table."""
        self._taking[table](body, wall)

    def _topics(self, body: bytes, wall: int) -> None:
        told = decode_answer(TopicConfigTable, body)
        topics = self._node.topics
        if told.data_version > topics.version:
            merged = {**topics.table, **told.topic_config_table}
            topics.adopt(merged, told.data_version.next_version(wall))

    def _groups(self, body: bytes, wall: int) -> None:
        told = decode_answer(SubscriptionGroupTable, body)
        groups = self._node.groups
        if told.data_version > groups.version:
            merged = {**groups.table, **told.subscription_group_table}
            forbidden = {**groups.forbidden_table, **told.forbidden_table}
            groups.adopt(merged, forbidden, told.data_version.next_version(wall))

    def _modes(self, body: bytes, wall: int) -> None:
        told = decode_answer(MessageRequestModeTable, body).message_request_mode_map
        ours = self._node.request_modes.table
        lacking = {
            topic: {group: row for group, row in rows.items() if group not in ours.get(topic, {})}
            for topic, rows in told.items()
        }
        self._node.request_modes.adopt({topic: rows for topic, rows in lacking.items() if rows})

    def _offsets(self, body: bytes, wall: int) -> None:
        """A master's log has every message of which there is an offset; a slave's may lag."""
        end = self._end if self._node.options.broker_id == 0 else None
        self._node.offsets.merge(_object(body), wall, end)

    def _end(self, topic: str, queue_id: int) -> int:
        return self._node.store.queue_bounds(topic, queue_id)[1]

    def _delays(self, body: bytes, wall: int) -> None:
        if self._node.delay_offsets.merge(_object(body), wall):
            self._node.delivery.clamp()

    def _timer(self, body: bytes, wall: int) -> None:
        if self._node.timer is not None:
            self._node.timer.progress.adopt(body)

    def _timer_metrics(self, body: bytes, wall: int) -> None:
        content = _object(body)
        if self._node.timer is not None:
            self._node.timer.driver.metrics.merge(content, wall)

    def _orders(self, body: bytes, wall: int) -> None:
        content, pop = _object(body), self._node.pop
        now = self._node.clock.now_ms()
        # A batch that a reset ended does not win against a new one.
        pop.apply_committed_orders(now, wall)
        pop.orders.merge(content, now, wall)
        pop.apply_committed_orders(now, wall)  # nor does their batch of a topic deleted here


def _object(body: bytes) -> dict[str, Any]:
    content = json_tolerant.loads(body)
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    return content
