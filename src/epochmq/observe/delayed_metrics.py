"""Metrics of timed messages and of POP."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from epochmq.base.unbounded import UNLIMITED
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.delay.timer_service import TimerService
from epochmq.broker.pop.pop_windows import QueueKey
from epochmq.model.names import TIMER_TOPIC
from epochmq.observe.families import COUNTER, GAUGE, HISTOGRAM, Family, Row
from epochmq.observe.store_times import ColdRead, store_times

SNAPSHOT_S = (5, 60, 300, 900, 3_600, 14_400, 28_800, 86_400)
"""Bounds of the snapshot of the timer wheel (s): RocketMQ's."""
POPPED_STEP = 100
"""Check points of POP that are counted in one step."""
_REVIVE_LABELS = ("consumer_group", "topic", "revive_message_type")


def timer_families(node: BrokerContext) -> Iterator[Family | ColdRead | None]:
    """Yield the metrics of timed messages; None and cold reads as `BrokerMetrics.families`."""
    timer = node.timer
    if timer is None:
        return
    driver, wall = timer.driver, node.clock.wall_ms()
    lag, counts = driver.behind(), driver.counts
    waits_since = wall
    if lag:
        (waits_since,) = yield from store_times(node.store, TIMER_TOPIC, 0, (driver.core.cursor,))
    late = 0
    if driver.delivers:
        for part in driver.files.counts_between(driver.core.read_ms, wall):
            late += part
            yield None
    for name, help_text, value in (
        ("enqueue_lag", "Timed messages that are not in the wheel yet.", lag),
        ("enqueue_latency_milliseconds", "Age of the first message not in the wheel.",
         max(0, wall - waits_since) if waits_since > 0 else 0),
        ("dequeue_lag", "Messages that are due and not delivered.", late),
        ("dequeue_latency_milliseconds", "How late the wheel is read.",
         max(0, wall - driver.core.read_ms) if driver.delivers else 0),
    ):  # fmt: skip
        yield Family(f"rocketmq_timer_{name}", GAUGE, help_text, (), [((), value)])
    for name, help_text, table in (
        ("enqueue", "Messages placed on the wheel.", counts.enqueued),
        ("dequeue", "Messages delivered from the wheel.", counts.dequeued),
    ):
        yield Family(
            f"rocketmq_timer_{name}", COUNTER, help_text, ("topic",),
            [((topic,), count) for topic, count in table.items()],
        )  # fmt: skip
    yield Family(
        "rocketmq_delay_message_latency_seconds", HISTOGRAM, "Delay of timed messages.", ("topic",),
        [((topic,), each) for topic, each in counts.delays.items()],
    )  # fmt: skip
    yield Family(
        "rocketmq_timing_messages", GAUGE, "Timed messages that wait.", ("topic",),
        [((topic,), each.count) for topic, each in driver.metrics.counts.items() if each.count],
    )  # fmt: skip
    rows: list[Row] = []
    for found in _snapshot(timer, wall):
        if found is not None:
            rows.append(found)
        yield None
    yield Family(
        "rocketmq_timer_message_snapshot", GAUGE,
        "Timed messages due between the bound before and this one.", ("timer_bound_s",), rows,
    )  # fmt: skip


def _snapshot(timer: TimerService, wall: int) -> Iterator[Row | None]:
    """Yield a row for each bound; None where the reading of the wheel can be interrupted."""
    driver, since_ms = timer.driver, wall
    for bound_s in SNAPSHOT_S:
        count, until_ms = 0, wall + bound_s * 1000
        if driver.metrics.total:
            for part in driver.files.counts_between(since_ms, until_ms):
                count += part
                yield None
        since_ms = until_ms
        yield (str(bound_s),), count


@dataclass(slots=True)
class PoppedMessages:
    """The messages of one queue that a group popped and neither acknowledged nor got again."""

    count: int = 0
    first: int = UNLIMITED
    """The lowest queue offset."""
    end: int = 0
    """Behind the highest queue offset."""


NOTHING_POPPED = PoppedMessages()


def popped_messages(
    node: BrokerContext,
) -> Generator[None, None, dict[QueueKey, PoppedMessages]]:
    """Return the messages of POP in flight by queue; yields where it can be interrupted."""
    found: dict[QueueKey, PoppedMessages] = {}
    for number, (key, offsets) in enumerate(node.pop.in_flight()):
        if offsets:
            queue = found.get(key)
            if queue is None:
                queue = found[key] = PoppedMessages()
            queue.count += len(offsets)
            queue.first = min(queue.first, offsets[0])
            queue.end = max(queue.end, offsets[-1] + 1)
        if number % POPPED_STEP == 0:
            yield
    return found


def pop_families(node: BrokerContext) -> Iterator[Family | ColdRead]:
    """Yield the metrics of POP, and cold reads as `BrokerMetrics.families`."""
    driver, figures = node.pop.driver, node.pop.statistics()
    counts = driver.counts
    for name, help_text, value in (
        ("rocketmq_pop_checkpoint_buffer_size", "Check points of POP in memory.",
         figures["buffered"]),
        ("rocketmq_pop_offset_buffer_size", "Offsets of POP that are not committed yet.",
         figures["windows"]),
        ("epochmq_pop_windows", "Open windows of POP.", figures["windows"]),
    ):  # fmt: skip
        yield Family(name, GAUGE, help_text, (), [((), value)])
    for name, help_text, label, table in (
        ("in", "Records that were to be written into revive queues.", "put_status", counts.written),
        ("out", "Records read from revive queues.", "queue_id", counts.read),
    ):
        yield Family(
            f"rocketmq_pop_revive_{name}_message", COUNTER, help_text, (*_REVIVE_LABELS, label),
            table.items(),
        )  # fmt: skip
    yield Family(
        "rocketmq_pop_revive_retry_messages", COUNTER,
        "Messages that were to be written into retry topics.",
        ("consumer_group", "topic", "put_status"), counts.retried.items(),
    )  # fmt: skip
    yield Family(
        "rocketmq_pop_buffer_scan_time_consume_milliseconds", HISTOGRAM,
        "Time of a look through the check points in memory.", (), [((), counts.scan_times)],
    )  # fmt: skip
    wall = node.clock.wall_ms()
    behind: list[Row] = []
    latency: list[Row] = []
    for queue_id in list(driver.queues):
        count, first = driver.behind(queue_id)
        stored = 0
        if count:
            (stored,) = yield from store_times(node.store, driver.topic, queue_id, (first,))
        behind.append(((str(queue_id),), count))
        latency.append(((str(queue_id),), max(0, wall - stored) if stored > 0 else 0))
    for name, help_text, rows in (
        ("lag", "MESSAGES (as in RocketMQ) of revive queues that are not finished.", behind),
        ("latency", "Age of the first record that is not finished.", latency),
    ):
        yield Family(
            f"rocketmq_pop_revive_{name}_milliseconds", GAUGE, help_text, ("queue_id",), rows
        )
