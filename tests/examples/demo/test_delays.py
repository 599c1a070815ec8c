"""Delays by carrier and hour, and where two reports of them disagree."""

from itertools import count

from examples.demo.flights import Delay, Flight, differences, of_flights, worst

BODIES = [
    b'{"carrier":"UA","hour":5,"dep_delay":2,"other":1}',
    b'{"carrier":"UA","hour":5,"dep_delay":null}',
    b'{"carrier":"UA","hour":6,"dep_delay":-3}',
    b'{"carrier":"AA","hour":5,"dep_delay":10}',
]
DELAYS = [Delay("AA", 5, 1, 1, 10), Delay("UA", 5, 2, 1, 2), Delay("UA", 6, 1, 1, -3)]


def test_of_flights() -> None:
    numbers = count()
    assert of_flights(Flight("x", next(numbers), body) for body in BODIES) == DELAYS


def test_the_same() -> None:
    assert differences(DELAYS, list(reversed(DELAYS))) == []


def test_another_sum_a_missing_row_and_one_too_many() -> None:
    table = [Delay("AA", 5, 1, 1, 11), Delay("UA", 5, 2, 1, 2), Delay("ZZ", 1, 1, 0, 0)]
    lines = differences(DELAYS, table)
    assert len(lines) == 3
    assert "AA at 5 h: 1 flights, 1 departed, 11 minutes late, the data set has" in lines[0]
    assert "UA at 6 h: nothing" in lines[1]
    assert lines[2].endswith("the data set has nothing")


def test_many_are_counted() -> None:
    many = [Delay("AA", hour, 1, 1, 1) for hour in range(10)]
    assert differences(many, [])[-1] == "and 7 more rows of the report"


def test_worst_first() -> None:
    assert worst([*DELAYS, Delay("ZZ", 1, 3, 0, 0)]) == [("AA", 10.0), ("UA", -0.5)]
