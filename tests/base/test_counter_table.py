"""Counters by key."""

from epochmq.base.counter_table import CounterTable


def test_counts_add_up() -> None:
    table: CounterTable[str] = CounterTable(10)
    table.add("a")
    table.add("a", 4)
    table.add("b", 0)
    assert table.items() == [("a", 5), ("b", 0)]


def test_a_full_table_counts_only_the_keys_that_it_has() -> None:
    table: CounterTable[int] = CounterTable(2)
    for key in range(1_000):
        table.add(key)
    table.add(1, 5)
    assert table.items() == [(0, 1), (1, 6)]


def test_forgotten_keys_make_room() -> None:
    table: CounterTable[str] = CounterTable(1)
    table.add("a", 3)
    table.forget(lambda key: key == "a")
    table.add("b")
    assert table.items() == [("b", 1)]
