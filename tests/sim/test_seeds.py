"""Each landing plays the same seeds, those that failed once among them."""

from sim import seeds
from sim.seeds import chunks, landing_seeds


def test_a_landing_plays_the_same_seeds_each_time() -> None:
    one = landing_seeds("group", 1500)
    assert one == landing_seeds("group", 1500)
    assert len(set(one)) == 1500
    assert landing_seeds("no-such-world", 20) == list(range(20))


def test_a_seed_that_failed_once_is_always_played(monkeypatch) -> None:
    monkeypatch.setitem(seeds.FAILED_ONCE, "group", (777, 888))
    assert landing_seeds("group", 600)[:3] == [777, 888, 0]
    assert len(set(landing_seeds("group", 600))) == 600
    monkeypatch.setitem(seeds.FAILED_ONCE, "group", (7,))
    assert landing_seeds("group", 20)[:3] == [7, 0, 1]
    assert len(set(landing_seeds("group", 600))) == 600


def test_chunks() -> None:
    assert chunks([1, 2, 3, 4, 5], 2) == [[1, 2], [3, 4], [5]]
