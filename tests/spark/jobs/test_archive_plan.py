"""Planning a batch: nothing twice, nothing left out, whatever the queues look like."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import EnvironmentFault, UsageError
from epochmq.model.topic import MessageQueue
from epochmq.spark.jobs.archive_plan import (
    Range,
    advanced,
    backlog,
    check_alive,
    check_gaps,
    deal,
    gaps,
    missing,
    share,
    starting,
    up_to,
)

A, B, C = (MessageQueue("T", "broker-a", number) for number in range(3))
queues = st.builds(
    MessageQueue, st.sampled_from("TU"), st.sampled_from(["broker-a", "broker-b"]),
    st.integers(0, 3),
)  # fmt: skip
Found = dict[MessageQueue, tuple[int, int]]
bounds = st.dictionaries(
    queues, st.tuples(st.integers(0, 50), st.integers(0, 300)).map(lambda p: (p[0], sum(p)))
)
ranges = bounds.map(lambda found: backlog(found, {}))


def offsets(found: list[Range]) -> list[tuple[MessageQueue, int]]:
    return [(each.queue, at) for each in found for at in range(each.start, each.end)]


@given(ranges, st.integers(1, 9))
def test_dealt_ranges_are_the_ranges(found: list[Range], tasks: int) -> None:
    dealt = deal(found, tasks)
    assert offsets([one for part in dealt for one in part]) == offsets(found)
    assert len(dealt) <= tasks
    sizes = [sum(map(len, part)) for part in dealt]
    assert not sizes or (min(sizes) > 0 and max(sizes) - min(sizes[:-1] or sizes) <= 0)


@given(ranges, st.integers(1, 500))
def test_a_share_begins_every_range_and_stays_within_the_limit(
    found: list[Range], limit: int
) -> None:
    taken = share(found, limit)
    assert sum(map(len, taken)) <= limit
    assert bool(taken) == bool(found)
    begins = {each.queue: each for each in found}
    for each in taken:
        assert len(each) > 0
        assert begins[each.queue].start == each.start
        assert each.end <= begins[each.queue].end
    if sum(map(len, found)) <= limit:
        assert taken == found


@given(bounds, st.integers(1, 50))
def test_batch_after_batch_takes_all_once(
    found: dict[MessageQueue, tuple[int, int]], n: int
) -> None:
    positions = starting(found, {})
    seen: list[tuple[MessageQueue, int]] = []
    while taken := share(backlog(found, positions), n):
        seen += offsets(taken)
        positions = advanced(positions, taken)
    assert sorted(seen) == sorted(offsets(backlog(found, {})))


def test_where_to_begin() -> None:
    found = {A: (3, 9), B: (0, 5)}
    assert starting(found, {A: 7}) == {A: 7, B: 0}
    assert starting(found, {}, latest=True) == {A: 9, B: 5}
    assert backlog(found, {A: 9, B: 2}) == [Range(B, 2, 5)]


def test_what_retention_took() -> None:
    lost = gaps({A: (5, 9), B: (0, 1)}, {A: 2, B: 0, C: 1})
    assert list(map(str, lost)) == ["T@broker-a:0: queue offsets 2 to 4"]
    check_gaps(lost, True)
    check_gaps([], False)
    with pytest.raises(EnvironmentFault, match="queue offsets 2 to 4"):
        check_gaps(lost, False)


def test_a_shorter_queue_is_another_topic() -> None:
    check_alive({A: (0, 9)}, {A: 9, B: 1})
    with pytest.raises(UsageError, match="ends at queue offset 8, and the table has it up to 9"):
        check_alive({A: (0, 8)}, {A: 9})
    assert missing({A: (0, 9)}, {A: 9, B: 1}) == [B]


def test_the_same_batch_again() -> None:
    first = [Range(A, 3, 5), Range(C, 0, 2)]
    ends = advanced({A: 3, B: 4}, first)
    found = {A: (0, 90), B: (0, 90), C: (0, 90)}
    assert up_to({A: 3, B: 4}, ends, found) == first
