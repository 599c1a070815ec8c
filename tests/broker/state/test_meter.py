"""Rates over the three windows."""

from epochmq.broker.state.broker_stats import Meter


def test_rates_come_from_samples() -> None:
    meter = Meter()
    assert meter.text() == "0 0 0"
    for second in range(700):
        meter.sample(second * 1000)
        meter.total += 5 if second < 600 else 50
    meter.sample(700_000)
    assert meter.rate(10) == 50
    assert meter.rate(60) == 50
    assert meter.rate(600) == (500 * 5 + 100 * 50) / 600
    assert meter.text() == "50 50 12.5"


def test_samples_at_one_moment_are_no_rate() -> None:
    meter = Meter()
    meter.sample(5)
    meter.total = 9
    meter.sample(5)
    assert meter.rate(10) == 0.0
