"""Bytes a second by link."""

from epochmq.replication.link import SPAN_MS, Speeds


def test_a_speed_is_that_of_the_last_whole_span() -> None:
    speeds = Speeds()
    speeds.sample(0, {1: 100})
    assert speeds.of(1) == 0
    speeds.sample(SPAN_MS - 1, {1: 5_000})
    assert speeds.of(1) == 0
    speeds.sample(SPAN_MS, {1: 6_100, 2: 500})
    assert (speeds.of(1), speeds.of(2)) == (6_000, 500)
    speeds.sample(3 * SPAN_MS, {1: 6_100})
    assert (speeds.of(1), speeds.of(2)) == (0, 0)


def test_a_link_that_begins_again_counts_from_nothing() -> None:
    speeds = Speeds()
    speeds.sample(0, {0: 9_000})
    speeds.sample(SPAN_MS, {0: 10})
    assert speeds.of(0) == 0
