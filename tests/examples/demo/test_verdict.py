"""The judge: what passes and what does not."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from examples.demo.members import Received
from examples.demo.verdict import judge

CLOCK = itertools.count(1)


def run(*numbers: int, carrier: str = "UA") -> list[Received]:
    """Deliveries in this order, later than all made before."""
    return [Received(carrier, number, 0, next(CLOCK)) for number in numbers]


def test_all_in_order_is_good() -> None:
    one, two = run(0, 1, 2), run(0, 1, carrier="AA")
    verdict = judge({"UA": 3, "AA": 2}, [("a.1", one), ("b.1", two)], "")
    assert verdict.is_good
    assert (verdict.sent, verdict.received, verdict.keys) == (5, 5, 2)


def test_repeats_of_the_killed_are_explained() -> None:
    killed, again = run(0, 1, 2), run(1, 2, 3)
    other = run(3)
    runs = [("a.1", killed), ("a.2", again), ("b.1", other)]
    verdict = judge({"UA": 4}, runs, "a.1")
    assert verdict.is_good
    assert (verdict.duplicates, verdict.duplicates_by_kill) == (3, 2)


def test_what_is_lost_foreign_or_early_is_not_good() -> None:
    lost = judge({"UA": 3}, [("a", run(0, 1))], "")
    assert lost.problems == ["1 messages were sent and never received"]
    foreign = judge({"UA": 1}, [("a", run(0, 1))], "")
    assert foreign.problems == ["1 messages were received and never sent"]
    early = judge({"UA": 3}, [("a", run(0, 2, 1))], "")
    assert not early.is_good
    assert early.out_of_order > 0
    assert judge({"UA": 1}, [], "").missing == 1


def test_time_decides_between_members() -> None:
    later, sooner = run(1), run(0)
    verdict = judge({"UA": 2}, [("a", sooner), ("b", later)], "")
    assert verdict.out_of_order > 0


@given(st.permutations(range(6)))
def test_only_one_order_is_kept(order: list[int]) -> None:
    verdict = judge({"UA": 6}, [("a", run(*order))], "")
    assert verdict.is_good == (list(order) == sorted(order))
