"""Percentiles, sizes and rates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.admin.shared.output import Latencies, rate, size


@given(st.lists(st.floats(0, 100_000), min_size=1), st.floats(0.01, 1))
def test_percentiles_are_right_to_two_per_cent(values: list[float], share: float) -> None:
    latencies = Latencies()
    for value in values:
        latencies.add(value)
    exact = sorted(values)[max(0, -int(-len(values) * share // 1) - 1)]
    assert latencies.percentile(share) == pytest.approx(exact, rel=0.02, abs=0.002)


def test_counts_weigh() -> None:
    latencies = Latencies()
    assert latencies.percentile(0.5) == 0
    latencies.add(1, 99)
    latencies.add(500)
    figures = latencies.as_dict()
    assert figures["p50_ms"] == pytest.approx(1, rel=0.02)
    assert figures["p99_ms"] == pytest.approx(1, rel=0.02)
    assert figures["max_ms"] == 500
    latencies.add(-3)  # a clock that stepped back is no reason to fail
    assert latencies.percentile(0.001) == pytest.approx(0, abs=0.002)


def test_texts() -> None:
    assert [size(n) for n in (0, 999, 1_500, 2e6, 3e9, 4e12)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "2.0 MB",
        "3.0 GB",
        "4.0 TB",
    ]
    assert rate(3_000, 1.5) == "2,000/s"
    assert rate(1, 0) == "-"
