"""Histograms of plain integers."""

from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.histogram import Histogram


def test_a_value_is_in_the_class_of_its_bound() -> None:
    found = Histogram((1, 10, 100))
    for value in (0, 1, 2, 10, 10.5, 101):
        found.observe(value)
    assert found.buckets() == [("1", 2), ("10", 4), ("100", 5), ("+Inf", 6)]
    assert found.total == 124.5


@given(st.lists(st.floats(-1e9, 1e9)))
def test_each_bucket_counts_the_values_up_to_its_bound(values: list[float]) -> None:
    found = Histogram((-5, 0, 5))
    for value in values:
        found.observe(value)
    for text, count in found.buckets():
        assert count == sum(value <= float(text) for value in values)
