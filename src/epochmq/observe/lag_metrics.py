"""How far consumer groups are behind: numbers and ages of messages, by group and topic.

With `estimateAccumulation` only the messages whose tag a group subscribes to count. As in RocketMQ,
the tags of the first `maxConsumeQueueScan` messages of a queue are compared, and the share that
matches is taken for the rest. Filters by SQL need the records, so all messages count for them.
"""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass

from epochmq.base.errors import Refused
from epochmq.broker.consume.consumer_offsets import NONE
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.pop.pop_records import topic_of_retries
from epochmq.broker.pop.pop_windows import QueueKey
from epochmq.broker.requests.query_handlers import max_offset
from epochmq.model.group import SubscriptionData, build
from epochmq.model.names import DLQ, is_retry_topic, is_system_group, is_system_topic
from epochmq.observe.delayed_metrics import NOTHING_POPPED, PoppedMessages
from epochmq.observe.families import GAUGE, Family, Row, bool_label
from epochmq.observe.store_times import ColdRead, store_times

LABELS = ("consumer_group", "topic", "is_retry", "is_system")
SCAN_STEP = 1_000
"""Units of a consume queue that are examined in one step: about 0.2 ms."""
SCAN_UNITS_MAX = 1_000_000
"""Units of consume queues that one scrape examines, before it examines few of each queue."""
SAMPLE_UNITS = 256
"""Units that are examined of each queue after that."""


@dataclass(slots=True)
class GroupLag:
    """How far a group is behind in one topic; the ages are milliseconds."""

    inflight: int = 0
    """Messages that the group pulled or popped and has not consumed."""
    ready: int = 0
    """Messages that it has not pulled or popped."""
    unread_age: int = 0
    """Age of the first message that is not consumed."""
    unpulled_age: int = 0
    """Age of the first message that is not pulled."""


class LagMeter:
    """Measures the lag of consumer groups for one scrape.

    Args:
        node: the broker.
        popped: the messages of POP in flight.
    """

    def __init__(self, node: BrokerContext, popped: Mapping[QueueKey, PoppedMessages]) -> None:
        self._node = node
        self._popped = popped
        self._lags: dict[tuple[str, ...], GroupLag] = {}
        """By the values of `LABELS`. The retry topics of both kinds of POP have one entry."""
        self._units_left = SCAN_UNITS_MAX

    def measure(self, topic: str, group: str) -> Iterator[ColdRead | None]:
        """Add the lag of a group in a topic.

        Yields None where it can be interrupted, and calls for another thread, which are executed
        before it continues.
        """
        node = self._node
        config = node.topics.get(topic)
        if config is None or topic.startswith(DLQ):
            return
        lag = self._lag_of(topic, group)
        codes = self._wanted_codes(topic, group)
        wall = node.clock.wall_ms()
        for queue_id in range(config.read_queue_nums):
            end = max_offset(node, topic, queue_id)
            committed = node.offsets.get(group, topic, queue_id)
            committed = end if committed == NONE else min(committed, end)
            queue = QueueKey(group, topic, queue_id)
            of_pop = self._popped.get(queue, NOTHING_POPPED)
            taken = max(
                node.stats.pulled_to(topic, queue_id, group),
                node.pop.windows.next_offset(queue) or 0,
                of_pop.end,
            )
            pulled = max(committed, min(taken, end))
            first = committed
            if node.pop.windows.width(queue) or of_pop.count:
                lag.inflight += of_pop.count
                first = min(of_pop.first, pulled)
            else:
                lag.inflight += yield from self._count(queue, committed, pulled, codes)
            lag.ready += yield from self._count(queue, pulled, end, codes)
            unread_at, unpulled_at = yield from store_times(
                node.store,
                topic,
                queue_id,
                [offset if offset < end else NONE for offset in (first, pulled)],
            )
            lag.unread_age = max(lag.unread_age, wall - (unread_at or wall))
            lag.unpulled_age = max(lag.unpulled_age, wall - (unpulled_at or wall))
        yield None

    def families(self) -> Iterator[Family]:
        """Yield the metrics of what was measured."""
        lags = self._lags
        for name, help_text, rows in (
            ("lag_messages", "Messages that are not consumed.",
             ((labels, lag.inflight + lag.ready) for labels, lag in lags.items())),
            ("lag_latency_milliseconds", "Age of the first message not consumed.",
             ((labels, lag.unread_age) for labels, lag in lags.items())),
            ("inflight_messages", "Messages pulled or popped, not consumed.",
             ((labels, lag.inflight) for labels, lag in lags.items())),
            ("queueing_latency_milliseconds", "Age of the first message not pulled.",
             ((labels, lag.unpulled_age) for labels, lag in lags.items())),
            ("ready_messages", "Messages that are not pulled.", self._drained()),
        ):  # fmt: skip
            yield Family(f"rocketmq_consumer_{name}", GAUGE, help_text, LABELS, rows)

    def _drained(self) -> Iterator[Row]:
        """Yield the last rows and remove each lag, so that many are not freed in one step."""
        while self._lags:
            labels, lag = self._lags.popitem()
            yield labels, lag.ready

    def _lag_of(self, topic: str, group: str) -> GroupLag:
        """Return what to add to.

        As in RocketMQ, the retries of a group that pops have the name of the topic they come from.
        """
        origin = topic_of_retries(group, topic)
        system = bool_label(is_system_topic(topic) or is_system_group(group))
        if origin is None and (topic, group, False) in self._node.stats.pops:
            self._lags.setdefault((group, topic, bool_label(True), system), GroupLag())
        labels = group, origin or topic, bool_label(is_retry_topic(topic)), system
        return self._lags.setdefault(labels, GroupLag())

    # Filters ---------------------------------------------------------------------------------

    def _wanted_codes(self, topic: str, group: str) -> frozenset[int] | None:
        """Return the hashes of the tags that a group wants of a topic; None for all messages."""
        if not self._node.options.estimate_accumulation:
            return None
        wanted = self._subscription(topic, group)
        if wanted is None or not wanted.is_tag or wanted.wants_all or wanted.class_filter_mode:
            return None
        return wanted.code_set

    def _subscription(self, topic: str, group: str) -> SubscriptionData | None:
        node = self._node
        if not node.options.use_static_subscription:
            return node.consumers.subscription(group, topic)
        config = node.groups.get(group)
        for each in (config and config.subscription_data_set) or ():
            if each.topic == topic:
                try:
                    return build(topic, each.expression, each.expression_type)
                except Refused:  # an empty expression: the pulls of such a group are refused
                    return None
        return None

    def _count(
        self, queue: QueueKey, first: int, end: int, codes: frozenset[int] | None
    ) -> Generator[None, None, int]:
        """Return how many messages between two queue offsets a group wants; may be an estimate."""
        if codes is None or first >= end:
            return end - first
        node, options = self._node, self._node.options
        first = max(first, node.store.queue_bounds(queue.topic, queue.queue_id)[0])
        most = options.max_consume_queue_scan if self._units_left > 0 else SAMPLE_UNITS
        most = min(most, end - first)
        examined = matching = 0
        while examined < most and matching <= options.sample_count_threshold:
            found = node.store.tags_codes(
                queue.topic,
                queue.queue_id,
                first + examined,
                min(SCAN_STEP, most - examined),
            )
            if not found:
                break  # the messages have no unit each, or were deleted meanwhile
            examined += len(found)
            matching += sum(map(codes.__contains__, found))
            yield
        self._units_left -= examined
        return matching * (end - first) // examined if examined else max(end - first, 0)
