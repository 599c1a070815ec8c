"""How many messages wait, by topic."""

from epochmq.base.limits import TOPICS_MAX
from epochmq.broker.delay.timer_metrics import TimerMetrics, TopicTimers
from epochmq.wire import json_tolerant


def test_they_count_up_and_down_and_never_below_zero() -> None:
    metrics = TimerMetrics()
    metrics.step_version(5)
    assert metrics.version.counter == 0
    metrics.add(["A", "B", "A"], 1, 7)
    metrics.add(["B", "B"], -1, 9)
    assert metrics.counts == {"A": TopicTimers(2, 7), "B": TopicTimers(0, 9)}
    assert metrics.total == 2
    metrics.step_version(9)
    content = json_tolerant.loads(metrics.encode())
    assert content["timingCount"]["A"] == {"count": 2, "timeStamp": 7}
    assert content["dataVersion"]["counter"] == 1
    again = TimerMetrics()
    again.load(content)
    assert (again.counts, again.version) == (metrics.counts, metrics.version)
    again.reset()
    assert (again.total, again.dirty) == (0, True)


def test_another_brokers_are_taken_whole_or_if_they_are_newer() -> None:
    ours, theirs = TimerMetrics(), TimerMetrics()
    theirs.add(["A"], 1, 7)
    theirs.step_version(7)
    content = json_tolerant.loads(theirs.encode())
    assert ours.merge(content, 8)
    assert (ours.total, ours.version.counter, ours.dirty) == (1, 2, True)
    assert not ours.merge(content, 8)
    ours.dirty, before = False, ours.updates
    ours.adopt({})
    assert (ours.total, ours.updates, ours.dirty) == (0, before + 1, True)


def test_they_are_bounded() -> None:
    metrics = TimerMetrics()
    metrics.counts = dict.fromkeys(map(str, range(TOPICS_MAX)), TopicTimers())
    metrics.add(["new"], 1, 1)
    assert "new" not in metrics.counts
