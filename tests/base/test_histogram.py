"""Histograms of plain integers."""

from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.histogram import Histogram, HistogramTable


def test_a_value_is_in_the_class_of_its_bound() -> None:
    found = Histogram((1, 10, 100))
    for value in (0, 1, 2, 10, 10.5, 101):
        found.observe(value)
    assert found.buckets() == [("1.0", 2), ("10.0", 4), ("100.0", 5), ("+Inf", 6)]
    assert found.total == 124.5


@given(st.lists(st.floats(-1e9, 1e9)))
def test_each_bucket_counts_the_values_up_to_its_bound(values: list[float]) -> None:
    found = Histogram((-5, 0, 5))
    for value in values:
        found.observe(value)
    for text, count in found.buckets():
        assert count == sum(value <= float(text) for value in values)


def test_a_value_may_count_several_times() -> None:
    found = Histogram((1, 10))
    found.observe(5, 3)
    found.add([2, 0, 1], 40.0)
    assert found.buckets() == [("1.0", 2), ("10.0", 5), ("+Inf", 6)]
    assert found.total == 55.0


def test_a_full_table_keeps_the_histograms_that_it_has() -> None:
    table: HistogramTable[int] = HistogramTable((1,), 2)
    for key in range(1_000):
        table.get(key).observe(1)
    table.get(0).observe(7)
    assert [(key, each.counts) for key, each in table.items()] == [(0, [1, 1]), (1, [1, 0])]
    table.forget(lambda key: key == 0)
    table.get(5).observe(1)
    assert [key for key, _ in table.items()] == [1, 5]
