"""Counts of the revive queues through a whole broker."""

from tests.broker.pop_harness import PopHarness

from epochmq.broker.requests.topic_handlers import delete_topic


def test_records_are_counted_when_written_and_when_read() -> None:
    harness = PopHarness()
    counts = harness.node.pop.driver.counts
    harness.put(b"a", b"b")
    first, _ = harness.pop(invisible_ms=5_000)
    assert dict(counts.written.items()) == {("G", "T", "CK", "PUT_OK"): 1}
    harness.ack(first)
    assert dict(counts.written.items())["G", "T", "ACK", "PUT_OK"] == 1
    assert counts.retried.items() == []
    harness.tick(5_000)
    queue = first.handle.split()[3]
    assert dict(counts.read.items()) == {
        ("G", "T", "CK", queue): 1, ("G", "T", "ACK", queue): 1
    }  # fmt: skip
    assert counts.retried.items() == [(("G", "T", "PUT_OK"), 1)]
    assert sum(counts.scan_times.counts) == 2
    delete_topic(harness.node, "T")
    assert counts.written.items() == counts.read.items() == counts.retried.items() == []


def test_how_far_a_revive_queue_is_behind() -> None:
    harness = PopHarness()
    harness.put(b"a")
    (one,) = harness.pop(invisible_ms=5_000)
    queue = int(one.handle.split()[3])
    assert harness.node.pop.driver.behind(queue) == (1, 0)
    harness.ack(one)
    harness.tick(6_000)
    harness.tick()
    assert harness.node.pop.driver.behind(queue) == (0, 2)
