"""The sample of histories is the same each time, and has every seed that failed once."""

from sim.tools import seeds
from sim.tools.seeds import chunks, history_seeds


def test_the_sample_is_the_same_each_time() -> None:
    one = history_seeds("group", 100)
    assert one == history_seeds("group", 100)
    assert len(set(one)) == len(one)
    assert history_seeds("no-such-world", 20) == list(range(20))
    assert history_seeds("no-such-world", 3, 500) == [500, 501, 502]


def test_a_seed_that_failed_once_is_always_played(monkeypatch) -> None:
    monkeypatch.setitem(seeds.FAILED_ONCE, "group", (777, 888))
    assert history_seeds("group", 2) == [777, 888, 0, 1]
    assert history_seeds("group", 0) == [777, 888]
    monkeypatch.setitem(seeds.FAILED_ONCE, "group", (1,))
    assert history_seeds("group", 3) == [1, 0, 2]


def test_chunks() -> None:
    assert chunks([1, 2, 3, 4, 5], 2) == [[1, 2], [3, 4], [5]]
