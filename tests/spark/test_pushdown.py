"""Filters as queues and ranges: never narrower than what Spark would keep."""

from bisect import bisect_left
from collections.abc import Iterable
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

from epochmq.client.aio.bulk_calls import QueuePlaces
from epochmq.model.topic import MessageQueue
from epochmq.spark.plan import QueueRange
from epochmq.spark.pushdown import CLOCK_BACK_MS, GAP_ROWS, KEYS_MAX, PlacesOf, pushed

Q = [MessageQueue(topic, broker, n) for topic in "tu" for broker in "ab" for n in range(3)]
BOUNDS = dict.fromkeys(Q, (0, 10))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def no_places(queues: Iterable[MessageQueue], keys: Iterable[str]) -> dict[MessageQueue, Any]:
    raise AssertionError("no filter names keys")


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
        for span in wanted.narrowed(spans, lambda times: {}, no_places)
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
        no_places,
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
        no_places,
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


WORDS = ("a", "bb", "c")
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
rows = st.lists(st.one_of(st.none(), texts), max_size=40)


def answers(
    table: dict[MessageQueue, list[str | None]], searched: dict[MessageQueue, tuple[int, int]]
) -> PlacesOf:
    """What brokers say that searched the named ranges: other offsets may have the word too."""

    def places_of(
        queues: Iterable[MessageQueue], keys: Iterable[str]
    ) -> dict[MessageQueue, list[QueuePlaces]]:
        words = list(keys)
        return {
            queue: [
                QueuePlaces(
                    *searched[queue],
                    tuple(
                        at for at, text in enumerate(table[queue]) if word in (text or "").split()
                    ),
                )
                for word in words
            ]
            for queue in queues
            if queue in searched
        }

    return places_of


@given(st.lists(rows, min_size=3, max_size=3), st.lists(texts, min_size=1, max_size=3), st.data())
def test_no_row_with_the_keys_is_left_out(
    columns: list[list[str | None]], wanted_texts: list[str], data: st.DataObject
) -> None:
    table = dict(zip(Q, columns, strict=False))
    searched = {
        queue: (data.draw(st.integers(0, 40)), data.draw(st.integers(0, 40)))
        for queue in data.draw(st.sets(st.sampled_from(list(table))))
    }
    every = In(("keys",), tuple(wanted_texts))
    wanted, rest = pushed([every])
    assert rest == [every], "Spark compares the whole text"
    spans = [QueueRange(queue, 0, len(column)) for queue, column in table.items()]
    found = wanted.narrowed(spans, lambda times: {}, answers(table, searched))
    read = {(span.queue, at) for span in found for at in range(span.start, span.stop)}
    assert len(read) == sum(span.count for span in found), "no row is read twice"
    for queue, column in table.items():
        for at, text in enumerate(column):
            assert text not in wanted_texts or (queue, at) in read
            assert (queue, at) in read or queue in searched


def test_a_key_is_read_where_it_is() -> None:
    """The places of one key; near ones are read together, and what was not searched as a whole."""
    wanted, _ = pushed([EqualTo(("keys",), "order-7 b")])
    asked: list[tuple[list[MessageQueue], list[str]]] = []

    def places_of(
        queues: Iterable[MessageQueue], keys: Iterable[str]
    ) -> dict[MessageQueue, list[QueuePlaces]]:
        asked.append((list(queues), list(keys)))
        found = (20_000, 20_000 + GAP_ROWS, 50_000, 95_000)
        return {Q[0]: [QueuePlaces(1_000, 90_000, found)]}

    spans = [QueueRange(Q[0], 900, 90_010), QueueRange(Q[1], 0, 5), QueueRange(Q[2], 3, 3)]
    assert wanted.narrowed(spans, lambda times: {}, places_of) == [
        QueueRange(Q[0], 900, 1_000),
        QueueRange(Q[0], 20_000, 20_001 + GAP_ROWS),
        QueueRange(Q[0], 50_000, 50_001),
        QueueRange(Q[0], 90_000, 90_010),
        QueueRange(Q[1], 0, 5),
    ]
    assert asked == [([Q[0], Q[1]], ["order-7"])]
    nothing, _ = pushed([EqualTo(("keys",), "a"), EqualTo(("keys",), "b")])
    assert nothing.narrowed(spans, lambda times: {}, places_of) == []


def test_the_rest_is_sparks() -> None:
    filters = [
        StringContains(("keys",), "k"),
        Not(EqualTo(("queueId",), 1)),
        EqualTo(("keys",), ""),
        EqualTo(("keys",), None),
        In(("keys",), ("a", " ")),
        In(("keys",), tuple(f"k{n}" for n in range(KEYS_MAX + 1))),
        EqualTo(("queueOffset",), None),
        GreaterThan(("storeTimestamp",), datetime(2026, 1, 1)),
        IsNotNull(("tags",)),
    ]
    wanted, rest = pushed([*filters, IsNotNull(("queueId",))])
    assert rest == filters
    assert wanted.queues(BOUNDS) == BOUNDS
