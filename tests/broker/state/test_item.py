"""Spans of a counted thing."""

from epochmq.broker.state.broker_stats import MINUTE_STEP_MS, StatsItem, StatsSpan


def test_spans_lie_between_first_and_last_sample() -> None:
    item = StatsItem()
    assert item.minute() == StatsSpan(0, 0, 0.0, 0.0)
    for step in range(10):
        item.sample(step * MINUTE_STEP_MS)
        item.value += 30
        item.times += 10
    assert item.minute() == StatsSpan(180, 60, 3.0, 3.0)
    assert item.hour() == StatsSpan(0, 0, 0.0, 0.0)
    item.sample(600_000)
    assert item.hour() == StatsSpan(300, 100, 0.5, 3.0)
    assert item.day() == StatsSpan(0, 0, 0.0, 0.0)


def test_nothing_added_is_no_average() -> None:
    item = StatsItem()
    item.sample(0)
    item.sample(MINUTE_STEP_MS)
    assert item.minute() == StatsSpan(0, 0, 0.0, 0.0)
