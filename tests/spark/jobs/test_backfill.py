"""What a backfill reports; its rows are compared in tests/spark/jvm/test_jobs.py."""

from epochmq.model.topic import MessageQueue
from epochmq.spark.jobs.backfill import CutOver, ranges_of


def test_ranges_are_those_that_brokers_are_asked_for() -> None:
    first, second = MessageQueue("t", "broker-a", 0), MessageQueue("u", "broker-b", 3)
    gone = MessageQueue("t", "broker-c", 0)
    cut_over = CutOver({first: 5, second: 7, gone: 9}, {first: 8, second: 7})
    assert ranges_of(cut_over) == {"t": {"broker-a:0": [5, 8]}, "u": {"broker-b:3": [7, 7]}}
