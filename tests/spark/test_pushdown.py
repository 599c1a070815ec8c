"""Filters as queues and ranges: never narrower than what Spark would keep."""

from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)

from epochmq.model.topic import MessageQueue
from epochmq.spark.plan import QueueRange
from epochmq.spark.pushdown import CLOCK_BACK_MS, pushed

Q = [MessageQueue(topic, broker, n) for topic in "tu" for broker in "ab" for n in range(3)]
BOUNDS = dict.fromkeys(Q, (0, 10))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_tags_are_filtered_by_the_broker() -> None:
    wanted, rest = pushed([In(("tags",), ("a", "b", "c")), EqualTo(("tags",), "b")])
    assert rest == []
    assert wanted.tag_expression(None) == "b"
    assert wanted.tag_expression("a || b") == "b"
    assert wanted.tag_expression("a") == ""
    assert pushed([])[0].tag_expression("a || b") == "a || b"
    for value in ("a || b", " a", "*", "", 7):
        filters = [EqualTo(("tags",), value)]
        assert pushed(filters) == (pushed([])[0], filters), "Spark has to apply it"


COMPARE: dict[Any, Any] = {
    EqualTo: lambda a, b: a == b,
    GreaterThan: lambda a, b: a > b,
    GreaterThanOrEqual: lambda a, b: a >= b,
    LessThan: lambda a, b: a < b,
    LessThanOrEqual: lambda a, b: a <= b,
}
kinds = st.sampled_from(list(COMPARE))
numbers = st.lists(
    st.tuples(kinds, st.sampled_from(["queueId", "queueOffset"]), st.integers(-1, 11)), max_size=4
)


@given(numbers)
def test_numbers_are_decided_here(filters: list[tuple[Any, str, int]]) -> None:
    wanted, rest = pushed([kind((column,), value) for kind, column, value in filters])
    assert rest == []
    spans = [QueueRange(queue, *pair) for queue, pair in wanted.queues(BOUNDS).items()]
    found = {
        (span.queue, offset)
        for span in wanted.narrowed(spans, lambda times: {})
        for offset in range(span.start, span.stop)
    }
    assert found == {
        (queue, offset)
        for queue in Q
        for offset in range(10)
        if all(
            COMPARE[kind](queue.queue_id if column == "queueId" else offset, value)
            for kind, column, value in filters
        )
    }


@st.composite
def store_times(draw: st.DrawFn) -> list[int]:
    """Store times (ms) of a queue whose broker's clock goes back, by `CLOCK_BACK_MS` at most."""
    times, newest = [], 0
    for ahead, back in draw(
        st.lists(st.tuples(st.integers(0, 3 * CLOCK_BACK_MS), st.integers(0, CLOCK_BACK_MS)))
    ):
        newest = max([newest, *times[-1:]]) + ahead
        times.append(max(newest - back, 0))
        newest = max(times)
    return times


@given(store_times(), st.data())
def test_times_are_never_cut_too_short(times: list[int], data: st.DataObject) -> None:
    """Brokers search store times as if they were sorted; filters have microseconds."""
    latest_us = max(times, default=0) * 1_000 + 2_000
    asked = data.draw(st.lists(st.tuples(kinds, st.integers(0, latest_us)), min_size=1, max_size=3))
    moments = [(kind, EPOCH + timedelta(microseconds=us)) for kind, us in asked]
    filters = [kind(("storeTimestamp",), moment) for kind, moment in moments]
    wanted, rest = pushed(filters)
    assert rest == filters, "Spark compares them again"
    span = wanted.narrowed(
        [QueueRange(Q[0], 0, len(times))],
        lambda at: {queue: bisect_left(times, ms) for queue, ms in at.items()},
    )[0]
    for n, ms in enumerate(times):
        if all(COMPARE[kind](EPOCH + timedelta(milliseconds=ms), when) for kind, when in moments):
            assert span.start <= n < span.stop


def test_a_range_of_times_is_a_range_of_offsets() -> None:
    """One message a minute for ten hours; only the clock's margin is read in addition."""
    times = [minute * 60_000 for minute in range(600)]
    since, until = (EPOCH + timedelta(minutes=minute) for minute in (200, 300))
    wanted, _ = pushed(
        [GreaterThanOrEqual(("storeTimestamp",), since), LessThan(("storeTimestamp",), until)]
    )
    (span,) = wanted.narrowed(
        [QueueRange(Q[0], 0, 600)],
        lambda at: {queue: bisect_left(times, ms) for queue, ms in at.items()},
    )
    margin = CLOCK_BACK_MS // 60_000
    assert (span.start, span.stop) == (200 - margin, 300 + margin + 1)


def test_names_choose_queues() -> None:
    wanted, rest = pushed(
        [EqualTo(("topic",), "t"), In(("brokerName",), ("b", "c")), In(("queueId",), (0, 2))]
    )
    assert rest == []
    assert list(wanted.queues(BOUNDS)) == [MessageQueue("t", "b", 0), MessageQueue("t", "b", 2)]
    nothing, _ = pushed([EqualTo(("topic",), "t"), EqualTo(("topic",), "u")])
    assert nothing.queues(BOUNDS) == {}


def test_the_rest_is_sparks() -> None:
    filters = [
        StringContains(("keys",), "k"),
        Not(EqualTo(("queueId",), 1)),
        EqualTo(("keys",), "a"),
        EqualTo(("queueOffset",), None),
        GreaterThan(("storeTimestamp",), datetime(2026, 1, 1)),
        IsNotNull(("tags",)),
    ]
    wanted, rest = pushed([*filters, IsNotNull(("queueId",))])
    assert rest == filters
    assert wanted.queues(BOUNDS) == BOUNDS
