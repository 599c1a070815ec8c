"""Metrics read store times without a wait for the device in the event loop."""

import pytest
from tests.broker.broker_harness import WALL, BrokerHarness, send
from tests.observe.test_families import samples_of

from epochmq.observe.broker_metrics import BrokerMetrics
from epochmq.observe.families import Family, write_families
from epochmq.observe.store_times import store_times
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.command import Command


def filled() -> BrokerHarness:
    harness = BrokerHarness()
    harness.topic("T", 1)
    client = harness.client()
    for _ in range(5):
        harness.clock.step(10)
        client.put(send(b"x"))
        harness.turn()
    return harness


def test_what_is_in_memory_is_read_at_once() -> None:
    harness = filled()
    assert list(store_times(harness.store, "T", 0, [0, 4, 5, -1])) == []


def test_what_is_not_in_memory_is_read_by_the_caller_first() -> None:
    harness = filled()
    harness.evict()
    reading = store_times(harness.store, "T", 0, [0, 4, 5, -1])
    next(reading)()
    assert not harness.disk.evicted
    with pytest.raises(StopIteration) as end:
        next(reading)
    assert end.value.value == [WALL + 10, WALL + 50, 0, 0]


def test_the_ages_of_a_group_are_the_same_with_cold_messages() -> None:
    harness = filled()
    client = harness.client()
    fields = {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "2"}
    client.put(Command(Code.UPDATE_CONSUMER_OFFSET, ext=fields))
    harness.turn()

    def scrape() -> tuple[dict[str, float], int]:
        families: list[Family] = []
        reads = 0
        for each in BrokerMetrics(harness.node, lambda: (0, 0)).families():
            if isinstance(each, Family):
                families.append(each)
            elif each is not None:
                reads += 1
                each()
        found = samples_of(b"".join(write_families(families, {}, 10_000)))
        return {name: value for (name, _), value in found.items() if "latency" in name}, reads

    warm, no_reads = scrape()
    harness.evict()
    cold, reads = scrape()
    assert (cold, no_reads, reads) == (warm, 0, 1)
    assert warm["rocketmq_consumer_lag_latency_milliseconds"] == 20
