"""Each landing plays known seeds and new ones, and can be played again."""

from sim import seeds
from sim.seeds import FIXED, chunks, landing_seeds


def test_known_seeds_come_first_and_the_rest_follows_the_commit() -> None:
    one, two = landing_seeds("group", 1500, "aaaa"), landing_seeds("group", 1500, "bbbb")
    assert one == landing_seeds("group", 1500, "aaaa")
    assert len(set(one)) == 1500
    known = FIXED + len(seeds.FAILED_ONCE["group"])
    assert one[:known] == two[:known]
    assert not set(one[known:]) & set(two[known:])
    assert landing_seeds("no-such-world", 20) == list(range(20))


def test_a_seed_that_failed_once_is_always_played(monkeypatch) -> None:
    monkeypatch.setitem(seeds.FAILED_ONCE, "group", (777, 888))
    assert landing_seeds("group", 600, "x")[:3] == [777, 888, 0]
    assert len(set(landing_seeds("group", 600, "x"))) == 600
    monkeypatch.setitem(seeds.FAILED_ONCE, "group", (7,))
    assert landing_seeds("group", 20, "x")[:3] == [7, 0, 1]
    assert len(set(landing_seeds("group", 600, "x"))) == 600


def test_chunks() -> None:
    assert chunks([1, 2, 3, 4, 5], 2) == [[1, 2], [3, 4], [5]]
