"""The seam between an archive and its topic: no gap, no overlap."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import EnvironmentFault, UsageError
from epochmq.model.topic import MessageQueue
from epochmq.spark.jobs.backfill import chosen_topics, find_cut_over

QUEUES = [MessageQueue("t", "broker-a", n) for n in range(3)]


@given(st.lists(st.tuples(*[st.integers(0, 40)] * 3), min_size=3, max_size=3))
def test_every_message_comes_from_one_side(rows: list[tuple[int, int, int]]) -> None:
    """Of each queue: the archive took `taken`, brokers keep [low, high)."""
    offsets, bounds, expected = {}, {}, {}
    for queue, (first, more, tail) in zip(QUEUES, rows, strict=True):
        low, taken, high = first, first + more, first + more + tail
        offsets[f"broker-a:{queue.queue_id}"] = taken
        bounds[queue] = (low, high)
        expected[queue] = range(high)
    cut_over = find_cut_over({"t": offsets}, bounds)
    for queue in QUEUES:
        archive = list(range(cut_over.at[queue]))
        live = list(range(cut_over.at[queue], cut_over.end[queue]))
        assert archive + live == list(expected[queue])
    assert cut_over.live_rows == sum(row[2] for row in rows)
    assert json.loads(cut_over.starting())["t"] == offsets


def test_a_new_queue_begins_at_its_first_message() -> None:
    cut_over = find_cut_over({"t": {"broker-a:0": 5}}, {QUEUES[0]: (0, 9), QUEUES[1]: (2, 4)})
    assert (cut_over.at[QUEUES[1]], cut_over.end[QUEUES[1]]) == (2, 4)


def test_a_queue_without_a_broker_comes_from_the_archive_alone() -> None:
    cut_over = find_cut_over({"t": {"broker-a:0": 5, "broker-b:0": 7}}, {QUEUES[0]: (0, 9)})
    gone = MessageQueue("t", "broker-b", 0)
    assert cut_over.at[gone] == 7
    assert gone not in cut_over.end


def test_what_is_in_neither_place_is_an_error_or_named() -> None:
    offsets, bounds = {"t": {"broker-a:0": 5}}, {QUEUES[0]: (8, 20)}
    with pytest.raises(EnvironmentFault, match="queue offsets 5 to 7"):
        find_cut_over(offsets, bounds)
    cut_over = find_cut_over(offsets, bounds, allow_loss=True)
    assert [(gap.start, gap.end) for gap in cut_over.lost] == [(5, 8)]
    assert json.loads(cut_over.starting()) == {"t": {"broker-a:0": 8}}


def test_a_topic_created_again_is_refused() -> None:
    with pytest.raises(UsageError, match="created again"):
        find_cut_over({"t": {"broker-a:0": 50}}, {QUEUES[0]: (0, 9)})


def test_topics_that_the_table_has() -> None:
    offsets = {"b": {}, "a": {}}
    assert chosen_topics(offsets, [], "/lake") == ["a", "b"]
    assert chosen_topics(offsets, ["b"], "/lake") == ["b"]
    with pytest.raises(UsageError, match="has no topic c; it has a, b"):
        chosen_topics(offsets, ["c"], "/lake")
