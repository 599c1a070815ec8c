"""Metrics of timed messages and of POP, as a scrape shows them."""

from tests.broker.delay.timers import TimerBroker
from tests.broker.pop_harness import PopHarness
from tests.observe.test_families import samples_of

from epochmq.broker.context.broker_context import BrokerContext
from epochmq.observe.delayed_metrics import pop_families, timer_families
from epochmq.observe.families import write_families

Labels = tuple[tuple[str, str], ...]


def timers_of(node: BrokerContext) -> dict[tuple[str, Labels], float]:
    families = [family for family in timer_families(node) if family is not None]
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
        text = b"".join(write_families(pop_families(harness.node), {}, 1_000))
        return samples_of(text)[f"rocketmq_{name}", tuple(sorted(labels.items()))]

    assert value("pop_revive_lag_milliseconds", queue_id=queue) == 1
    assert value("pop_revive_latency_milliseconds", queue_id=queue) == 1_000
    assert value("pop_revive_latency_milliseconds", queue_id=str((int(queue) + 1) % 8)) == 0
    put = {"consumer_group": "G", "topic": "T", "revive_message_type": "CK", "put_status": "PUT_OK"}
    assert value("pop_revive_in_message_total", **put) == 1
    harness.tick(5_000)
    again = {"consumer_group": "G", "topic": "T", "put_status": "PUT_OK"}
    assert value("pop_revive_retry_messages_total", **again) == 1
