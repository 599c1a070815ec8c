"""Counts of timed messages through a whole broker."""

from tests.broker.delay.timers import TimerBroker

from epochmq.broker.requests.topic_handlers import delete_topic


def test_messages_count_when_they_are_placed_and_when_they_are_delivered() -> None:
    broker = TimerBroker()
    broker.put(b"a", b"b", TIMER_DELAY_MS=5_000, UNIQ_KEY="U")
    broker.put(b"c", TIMER_DELAY_SEC=90, UNIQ_KEY="V", TAGS="odd")
    counts = broker.timer.driver.counts
    assert counts.enqueued.items() == []
    broker.tick(3)
    assert counts.enqueued.items() == [("T", 3)]
    assert counts.dequeued.items() == []
    assert broker.run(7_000) == [b"a", b"b"]
    assert counts.dequeued.items() == [("T", 2)]
    ((topic, delays),) = counts.delays.items()
    assert (topic, delays.counts[:2], sum(delays.counts)) == ("T", [2, 1], 3)
    assert 100 <= delays.total <= 103
    delete_topic(broker.node, "T")
    assert counts.enqueued.items() == counts.dequeued.items() == counts.delays.items() == []
