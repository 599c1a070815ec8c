"""The clients' book tells loss, phantoms, two places and broken order apart."""

import pytest
from sim.kernel.oracle import Delivery, Oracle, Result
from sim.kernel.violation import Violation

QUEUE = ("T", 0)


def book() -> Oracle:
    oracle = Oracle()
    for number in range(4):
        oracle.call(number, "c", QUEUE, 0)
    oracle.ok(0, (0, 0), 1, "a", 5)
    oracle.ok(2, (1, 100), 1, "a", 6)
    oracle.fail(3, 7)
    return oracle


def deliver(oracle: Oracle, number: int, offset: int, queue: tuple[str, int] = QUEUE) -> None:
    oracle.delivered(Delivery(number, "r", queue, offset, 9, "a"))


def test_what_is_fine() -> None:
    oracle = book()
    deliver(oracle, 0, 0)
    deliver(oracle, 0, 0)
    oracle.judge_drain(QUEUE, [0, 2, 1], "a")
    assert [send.number for send in oracle.acked] == [0, 2]
    assert oracle.sends[1].result is Result.UNKNOWN
    assert oracle.deliveries == 2


def test_what_is_not() -> None:
    for number, offset, queue, rule in (
        (9, 5, QUEUE, "INV-21"),
        (3, 5, QUEUE, "INV-21"),
        (0, 0, ("T", 1), "INV-21"),
        (1, 0, QUEUE, "INV-22"),
    ):
        with pytest.raises(Violation, match=rule):
            deliver(book(), number, offset, queue)
    with pytest.raises(Violation, match="INV-21"):
        book().ok(3, (7, 0), 1, "a", 8)
    with pytest.raises(Violation, match="INV-22"):
        book().ok(1, (1, 0), 1, "a", 8)


def test_the_drain_finds_what_is_gone() -> None:
    with pytest.raises(Violation, match=r"INV-20.*message 2 was acknowledged.*nothing"):
        book().judge_drain(QUEUE, [0], "a")
    oracle = book()
    deliver(oracle, 1, 2)
    with pytest.raises(Violation, match="INV-23"):
        oracle.judge_drain(QUEUE, [0, 2, 7], "a")
