"""Filters as queues and ranges: never narrower than what Spark would keep."""

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
from epochmq.spark.pushdown import pushed

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


@given(st.lists(st.tuples(kinds, st.integers(0, 12_000)), min_size=1, max_size=3))
def test_times_are_never_cut_too_short(filters: list[tuple[Any, int]]) -> None:
    """Message n is stored in ms n; filters have microseconds."""
    moments = [(kind, EPOCH + timedelta(microseconds=us)) for kind, us in filters]
    asked = [kind(("storeTimestamp",), moment) for kind, moment in moments]
    wanted, rest = pushed(asked)
    assert rest == asked, "Spark compares them again"
    span = wanted.narrowed(
        [QueueRange(Q[0], 0, 10)], lambda times: {q: min(t, 10) for q, t in times.items()}
    )[0]
    for n in range(10):
        if all(COMPARE[kind](EPOCH + timedelta(milliseconds=n), when) for kind, when in moments):
            assert span.start <= n < span.stop


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
