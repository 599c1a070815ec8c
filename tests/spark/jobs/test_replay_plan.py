"""Plans of replays: parts of queues, what is kept in the file, pacing."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import UsageError
from epochmq.spark.jobs.replay_plan import (
    ReplayFilters,
    ReplaySource,
    ReplayState,
    batch_count,
    batch_ranges,
    load_state,
    paced,
    parse_offsets,
    save_state,
)

WHAT = {"table": "/lake", "target": "again", "filters": {"keys": ["a"]}}
SOURCES = [ReplaySource("t", "broker-a", 0, 5, 104, 90), ReplaySource("t", "broker-a", 1, 0, 0, 1)]


def state(done: int = 0) -> ReplayState:
    return ReplayState("id", WHAT, SOURCES, 4, 2, done, done * 10)


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=1, max_size=5),
    st.integers(1, 30),
)
def test_batches_cover_every_queue_once_and_in_order(
    spans: list[tuple[int, int]], batches: int
) -> None:
    sources = [ReplaySource("t", "b", n, low, low + more, 1) for n, (low, more) in enumerate(spans)]
    plan = ReplayState("id", {}, sources, batches, 1)
    at = {source: source.low for source in sources}
    for number in range(batches):
        for source, low, high in batch_ranges(plan, number):
            assert low == at[source]
            assert low < high
            at[source] = high
    assert all(end == source.high + 1 for source, end in at.items())


def test_batch_sizes() -> None:
    assert [batch_count(rows, 100) for rows in (1, 100, 101)] == [1, 1, 2]
    with pytest.raises(UsageError, match="at least one row"):
        batch_count(5, 0)
    with pytest.raises(UsageError, match="too many"):
        batch_count(10**9, 1)


def test_a_replay_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "replay.json"
    assert load_state(path, WHAT) is None
    save_state(path, state(2))
    assert load_state(path, WHAT) == state(2)


def test_another_replay_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "replay.json"
    save_state(path, state(2))
    with pytest.raises(UsageError, match="begun with another target"):
        load_state(path, {**WHAT, "target": "other"})
    save_state(path, state(4))
    with pytest.raises(UsageError, match=r"is finished \(40 messages\)"):
        load_state(path, WHAT)
    path.write_text("{}")
    with pytest.raises(UsageError, match="is not a state of a replay"):
        load_state(path, WHAT)


def test_ranges_of_offsets() -> None:
    assert parse_offsets(("broker-a:0=100..200", "b:1=0..1")) == {
        "broker-a:0": (100, 200),
        "b:1": (0, 1),
    }
    for text in ("broker-a=1..2", "broker-a:0=1-2", "broker-a:0=..2", "x", "broker-a:0=-1..2"):
        with pytest.raises(UsageError, match="is not a range"):
            parse_offsets((text,))


def test_filters_that_leave_nothing() -> None:
    with pytest.raises(UsageError, match="not behind"):
        ReplayFilters(since=5, until=5)
    with pytest.raises(UsageError, match="are not a range"):
        ReplayFilters(offsets={"b:0": (3, 3)})


@given(st.lists(st.integers(0, 50), max_size=10), st.sampled_from([3.0, 25.0, 1000.0]))
def test_nothing_is_handed_out_early_and_nothing_changes(sizes: list[int], rate: float) -> None:
    now = [100.0]
    batches = [list(range(n)) for n in sizes]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    given_out: list[int] = []
    for part in paced(iter(batches), len, rate, lambda: now[0], sleep):
        assert now[0] - 100 >= len(given_out) / rate - 1e-6
        given_out += part
    assert given_out == [row for batch in batches for row in batch]
    assert now[0] - 100 <= len(given_out) / rate + 1e-6
