"""Metrics of timed messages and of POP, as a scrape shows them."""

from collections.abc import Generator
from typing import TypeVar, cast

import pytest
from tests.broker.delay.timers import TimerBroker
from tests.broker.pop_harness import PopHarness
from tests.observe.test_families import samples_of

from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.pop.pop_windows import QueueKey
from epochmq.observe.broker_metrics import BrokerMetrics
from epochmq.observe.delayed_metrics import (
    PoppedMessages,
    pop_families,
    popped_messages,
    timer_families,
)
from epochmq.observe.families import Family, write_families

T = TypeVar("T")
Labels = tuple[tuple[str, str], ...]


def timers_of(node: BrokerContext) -> dict[tuple[str, Labels], float]:
    families = [family for family in timer_families(node) if isinstance(family, Family)]
    return samples_of(b"".join(write_families(families, {}, 1_000)))


def test_timed_messages_by_the_time_until_they_are_due() -> None:
    broker = TimerBroker(timer_precision_ms=1_000, timer_stop_dequeue=True)
    for delay_s in (2, 4, 30, 200, 250):
        broker.put(b"x", TIMER_DELAY_SEC=delay_s, UNIQ_KEY="U")
    found = timers_of(broker.node)
    assert found["rocketmq_timer_enqueue_lag", ()] == 5
    broker.clock.step(700)
    assert timers_of(broker.node)["rocketmq_timer_enqueue_latency_milliseconds", ()] == 700
    broker.tick(3)
    found = timers_of(broker.node)
    assert found["rocketmq_timer_enqueue_lag", ()] == 0
    assert found["rocketmq_timer_enqueue_latency_milliseconds", ()] == 0
    assert found["rocketmq_timer_dequeue_lag", ()] == 0
    assert found["rocketmq_timing_messages", (("topic", "T"),)] == 5
    # Those of 200 s and more wait at the farthest place, from where they go on.
    snapshot = {
        bound: found["rocketmq_timer_message_snapshot", (("timer_bound_s", bound),)]
        for bound in ("5", "60", "300", "900", "86400")
    }
    assert snapshot["5"] == 2
    assert snapshot["60"] + snapshot["300"] == 3
    assert snapshot["900"] == snapshot["86400"] == 0
    broker.run(10_000)
    assert timers_of(broker.node)["rocketmq_timer_dequeue_lag", ()] == 2


def test_an_empty_wheel_has_a_snapshot_of_zeros() -> None:
    found = timers_of(TimerBroker().node)
    assert found["rocketmq_timer_message_snapshot", (("timer_bound_s", "5"),)] == 0


def test_revive_queues() -> None:
    harness = PopHarness()
    harness.put(b"a")
    (one,) = harness.pop(invisible_ms=5_000)
    harness.clock.step(1_000)
    queue = one.handle.split()[3]

    def value(name: str, **labels: str) -> float:
        families = [each for each in pop_families(harness.node) if isinstance(each, Family)]
        text = b"".join(write_families(families, {}, 1_000))
        return samples_of(text)[f"rocketmq_{name}", tuple(sorted(labels.items()))]

    assert value("pop_revive_lag_milliseconds", queue_id=queue) == 1
    assert value("pop_revive_latency_milliseconds", queue_id=queue) == 1_000
    assert value("pop_revive_latency_milliseconds", queue_id=str((int(queue) + 1) % 8)) == 0
    put = {"consumer_group": "G", "topic": "T", "revive_message_type": "CK", "put_status": "PUT_OK"}
    assert value("pop_revive_in_message_total", **put) == 1
    harness.tick(5_000)
    again = {"consumer_group": "G", "topic": "T", "put_status": "PUT_OK"}
    assert value("pop_revive_retry_messages_total", **again) == 1


@pytest.mark.parametrize("merge", [False, True])
def test_popped_messages_are_in_flight_until_they_are_finished(merge: bool) -> None:
    harness = PopHarness(enable_pop_buffer_merge=merge)
    harness.put(*(b"%d" % number for number in range(10)))

    def gauges(topic: str = "T") -> tuple[float, float, float, float, float]:
        """Lag, in flight, ready; ages of the first message not consumed and not popped."""
        families = [
            f
            for f in BrokerMetrics(harness.node, lambda: (3, 4)).families()
            if isinstance(f, Family)
        ]
        found = samples_of(b"".join(write_families(families, {}, 10_000)))
        is_retry = str(topic.startswith("%RETRY%")).lower()
        labels = {
            "consumer_group": "G", "topic": "T", "is_retry": is_retry, "is_system": "false",
        }  # fmt: skip
        names = ("lag", "inflight", "ready")
        messages = [f"rocketmq_consumer_{name}_messages" for name in names]
        ages = [f"rocketmq_consumer_{n}_latency_milliseconds" for n in ("lag", "queueing")]
        lag, flying, ready, *rest = (
            found[name, tuple(sorted(labels.items()))] for name in (*messages, *ages)
        )
        return lag, flying, ready, rest[0], rest[1]

    taken = harness.pop(count=6, invisible_ms=20_000)
    harness.tick(1_000)
    assert gauges() == (10, 6, 4, 1_000, 1_000)
    harness.ack(*taken[:2])
    assert gauges()[:3] == (8, 4, 4)
    harness.tick(1_000)
    assert gauges() == (8, 4, 4, 2_000, 2_000)
    more = harness.pop(count=9, invisible_ms=60_000)
    assert len(more) == 4
    harness.tick()  # what is written without the buffer counts once it is read again
    assert gauges() == (8, 8, 0, 2_000, 0)
    harness.ack(*more)
    assert gauges()[:3] == (4, 4, 0)
    for _ in range(30):
        harness.tick(1_000)
    # Not acknowledged in time: they wait in the retry topic now.
    assert gauges()[:4] == (0, 0, 0, 0)
    retry = "%RETRY%G_T"
    again = harness.pop(topic=retry, invisible_ms=20_000)
    assert len(again) == 4
    harness.tick()
    assert gauges(retry)[:3] == (4, 4, 0)
    harness.ack(*again)
    harness.tick(1_000)
    assert gauges(retry)[:3] == (0, 0, 0)


def test_an_ordered_batch_is_in_flight_until_it_is_acknowledged() -> None:
    harness = PopHarness()
    harness.put(*(b"%d" % number for number in range(5)))
    taken = harness.pop(count=3, order="true")
    found = [each for each in _finished(popped_messages(harness.node)).items() if each[1].count]
    assert found == [(QueueKey("G", "T", 0), PoppedMessages(3, 0, 3))]
    harness.ack(*taken[1:2])
    (queue,) = _finished(popped_messages(harness.node)).values()
    assert (queue.count, queue.first, queue.end) == (2, 0, 3)


def _finished(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast(T, end.value)
