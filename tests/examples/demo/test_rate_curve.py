"""The curve of acknowledged sends."""

from examples.demo.verdict import BIN_S, RateCurve


def test_a_pause_is_seen() -> None:
    curve = RateCurve()
    assert curve.points() == []
    assert curve.since_start(5.0) == 0.0
    for at, count in ((100.0, 10), (100.1, 5), (100.9, 4)):
        curve.add(at, count)
    rates = [rate * BIN_S for _, rate in curve.points()]
    assert rates == [15, 0, 0, 4]
    assert [at for at, _ in curve.points()] == [0.125, 0.375, 0.625, 0.875]
    assert curve.since_start(100.5) == 0.5


def test_an_answer_from_before_the_first_counts_too() -> None:
    curve = RateCurve()
    curve.add(10.0, 1)
    curve.add(9.9, 2)
    assert curve.points() == [(0.125, 3 / BIN_S)]
