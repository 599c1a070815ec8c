"""Shares, splits and gaps: nothing is read twice, nothing is left out, no queue starves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import UsageError
from epochmq.model.topic import MessageQueue
from epochmq.spark.plan import (
    QueueRange,
    admit,
    admit_bytes,
    after,
    backlog,
    batch_spans,
    gathered,
    missing_at,
    split,
    tasks_of,
)
from epochmq.spark.spark_offsets import StreamOffset

Q = [MessageQueue("t", "broker-a", n) for n in range(8)]

spans = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 300)), min_size=1, max_size=8).map(
    lambda rows: [QueueRange(Q[n], start, start + count) for n, (start, count) in enumerate(rows)]
)


def total(found: list[QueueRange]) -> int:
    return sum(span.count for span in found)


@given(spans, st.integers(1, 500))
def test_a_limit_is_used_up_exactly_and_in_proportion(found: list[QueueRange], limit: int) -> None:
    taken = admit(found, limit)
    assert total(taken) == min(limit, total(found))
    for whole, part in zip(found, taken, strict=True):
        assert (part.queue, part.start) == (whole.queue, whole.start)
        assert part.stop <= whole.stop
        if limit >= len(found):
            assert part.count >= min(1, whole.count), "a queue starves"
        fair = limit * whole.count / max(1, total(found))
        assert part.count <= fair + len(found)


def test_a_small_limit_goes_to_the_longest_queues() -> None:
    found = [QueueRange(Q[0], 0, 5), QueueRange(Q[1], 0, 900), QueueRange(Q[2], 0, 7)]
    assert [span.count for span in admit(found, 1)] == [0, 1, 0]
    assert [span.count for span in admit(found, 2)] == [0, 1, 1]
    assert [span.count for span in admit(found, 100)] == [1, 97, 2]


@given(spans, st.integers(1, 40), st.integers(1, 60))
def test_tasks_cover_the_spans_without_gap_or_overlap(
    found: list[QueueRange], parts: int, most: int
) -> None:
    tasks = split(found, parts, most)
    assert all(0 < task.count <= most for task in tasks)
    assert len(tasks) >= min(parts, total(found))
    for whole in found:
        mine = [task for task in tasks if task.queue == whole.queue]
        edges = [whole.start, *(task.stop for task in mine)]
        assert [task.start for task in mine] == edges[:-1]
        assert edges[-1] == (whole.stop if whole.count else whole.start)
        sizes = {task.count for task in mine}
        assert not sizes or max(sizes) - min(sizes) <= 1


def test_without_wishes_a_queue_is_a_task() -> None:
    found = [QueueRange(Q[0], 0, 10), QueueRange(Q[1], 4, 4), QueueRange(Q[2], 7, 8)]
    assert split(found) == [found[0], found[2]]
    assert [task.count for task in split(found, min_partitions=3)] == [5, 5, 1]


@given(spans, st.integers(1, 10_000))
def test_bytes_are_shared_by_the_size_of_rows(found: list[QueueRange], limit: int) -> None:
    sizes = {queue: 10.0 * (n + 1) for n, queue in enumerate(Q)}
    taken = admit_bytes(found, sizes, limit)
    used = sum(span.count * sizes[span.queue] for span in taken)
    assert used <= limit or total(taken) == 1
    assert total(taken) >= min(1, total(found)), "the query stands still"


def test_the_first_batch_carries_where_it_began() -> None:
    """A restart asks for the first position again and gets another one."""
    fresh = StreamOffset({Q[0]: 100, Q[1]: 50}, fresh=True)
    found = backlog(fresh, {Q[0]: (0, 120), Q[1]: (0, 50)})
    end = after(fresh, found, found.spans)
    assert end.init == fresh.at
    later = StreamOffset({Q[0]: 150, Q[1]: 80}, fresh=True)  # what the restart is told
    assert batch_spans(later, end) == [QueueRange(Q[0], 100, 120)]
    following = after(
        end, backlog(end, {Q[0]: (0, 130), Q[1]: (0, 50)}), [QueueRange(Q[0], 120, 130)]
    )
    assert following.init == {}
    assert batch_spans(end, following) == [QueueRange(Q[0], 120, 130)]


def test_a_fresh_position_is_kept_even_when_there_is_nothing_to_read() -> None:
    fresh = StreamOffset({Q[0]: 100}, fresh=True)
    end = after(fresh, backlog(fresh, {Q[0]: (0, 100)}), [])
    assert end != fresh
    assert batch_spans(fresh, end) == []


def test_nothing_new_is_the_same_offset() -> None:
    before = StreamOffset({Q[0]: 5}, {Q[0]: 3})
    assert after(before, backlog(before, {Q[0]: (0, 5)}), [QueueRange(Q[0], 5, 5)]) is before


def test_an_added_queue_is_read_from_its_begin_and_a_vanished_one_kept() -> None:
    before = StreamOffset({Q[0]: 5, Q[2]: 9})
    found = backlog(before, {Q[0]: (0, 6), Q[1]: (3, 8)})
    end = after(before, found, found.spans)
    assert end.at == {Q[0]: 6, Q[1]: 8, Q[2]: 9}
    assert batch_spans(before, end) == [QueueRange(Q[0], 5, 6), QueueRange(Q[1], 3, 8)]
    assert not found.lost


def test_what_is_gone_is_named_exactly() -> None:
    before = StreamOffset({Q[0]: 5, Q[1]: 50})
    found = backlog(before, {Q[0]: (8, 20), Q[1]: (0, 10)})
    assert [(lost.queue, lost.start, lost.stop) for lost in found.lost] == [
        (Q[0], 5, 8),
        (Q[1], 10, 50),
    ]
    assert "queue offsets 5 to 7 (3 messages)" in str(found.lost[0])
    assert "created again" in str(found.lost[1])
    end = after(before, found, found.spans)
    assert batch_spans(before, end) == [QueueRange(Q[0], 8, 20), QueueRange(Q[1], 0, 10)]


@pytest.mark.parametrize("begin", [0, 7, 20])
def test_edges_are_not_loss(begin: int) -> None:
    assert missing_at(Q[0], begin, 0, 20) is None


def test_a_checkpoint_of_another_query_is_an_error() -> None:
    with pytest.raises(UsageError, match="checkpoint of its own"):
        batch_spans(StreamOffset({}), StreamOffset({Q[0]: 5}))
    with pytest.raises(UsageError, match="checkpoint of its own"):
        batch_spans(StreamOffset({Q[0]: 9}), StreamOffset({Q[0]: 5}))


@given(spans, st.integers(0, 500))
def test_small_spans_share_a_task(found: list[QueueRange], rows: int) -> None:
    tasks = gathered(found, rows)
    assert [span for task in tasks for span in task] == found, "all of them, in their order"
    for task, following in zip(tasks, [*tasks[1:], None], strict=True):
        assert total(list(task)) <= rows or len(task) == 1
        if following is not None:
            assert total([*task, following[0]]) > rows, "a task is left half empty"


def test_no_span_shares_a_task_where_none_may() -> None:
    found = [QueueRange(Q[0], 0, 1), QueueRange(Q[1], 0, 1)]
    assert gathered(found, 0) == [(found[0],), (found[1],)]
    assert gathered([], 10) == []


def test_many_small_queues_are_few_tasks_and_wishes_are_heeded() -> None:
    small = [QueueRange(MessageQueue("t", "b", n), 0, 5) for n in range(1600)]

    def count(**given: int) -> int:
        return len(tasks_of(small, {"minPartitions": 0, "maxRecordsPerPartition": 0, **given}))

    assert count() == 8
    assert count(maxRecordsPerPartition=10) == 800
    assert count(minPartitions=1) == 1600
