"""Ranges of the log known to be damaged."""

from random import Random

from epochmq.store.damaged_ranges import RANGES_MAX, DamageTable


def test_a_range_counts_and_is_told_once() -> None:
    table = DamageTable()
    first = table.report(100, 200, "rot")
    assert table.report(120, 130, "again") is first
    assert (table.found, str(first)) == (1, "the log is damaged from offset 100 to 200: rot")
    assert table.find(199, 300) == first
    assert table.find(200, 300) is None
    assert table.statistics()["damage_waiting_bytes"] == 100


def test_what_is_repaired_or_cut_is_forgotten() -> None:
    table = DamageTable()
    for start in (100, 300, 500):
        table.report(start, start + 10, "rot")
    table.mark_repaired(90, 120, "from a replica")
    assert table.clear(400, 1000) == [(500, 510, "rot")]
    assert [known.start for known in table.ranges] == [300]
    assert (table.found, table.repaired) == (3, 1)


def test_the_first_ranges_that_overlap() -> None:
    table = DamageTable()
    for start in (100, 300, 500):
        table.report(start, start + 10, "rot")
    assert table.first_of(0, 1000, 9) == [(100, 110), (300, 310), (500, 510)]
    assert table.first_of(105, 305, 9) == [(100, 110), (300, 310)]
    assert table.first_of(0, 1000, 1) == [(100, 110)]
    assert table.first_of(110, 300, 9) == []


def test_it_is_bounded() -> None:
    table = DamageTable()
    table.report(0, 1, "rot")
    table.ranges = table.ranges * RANGES_MAX
    assert table.report(5, 6, "rot") == (0, 6, "rot")
    assert (len(table.ranges), table.found) == (RANGES_MAX, 2)
    assert table.find(3, 4) is not None


def test_long_and_short_ranges_are_found() -> None:
    rng = Random("ranges")
    for _ in range(100):
        table = DamageTable()
        damaged: set[int] = set()
        for _ in range(rng.randrange(6)):
            start = rng.randrange(90)
            end = start + rng.choice((1, 3, 40))
            table.report(start, end, "rot")
            damaged.update(range(start, end))
        for start in range(100):
            found = table.find(start, start + 5)
            assert (found is not None) == bool(damaged & set(range(start, start + 5)))
