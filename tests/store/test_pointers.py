"""INV-11: the order of the pointers."""

import pytest

from epochmq.base.errors import OurBug
from epochmq.store.pointers import Pointers


def test_readable_is_the_lower_of_dispatched_and_confirmed() -> None:
    pointers = Pointers(0, 100)
    assert pointers.readable == 100
    pointers.dispatched = 50
    assert pointers.readable == 50
    pointers.dispatched, pointers.confirmed = 100, 70
    assert pointers.readable == 70


@pytest.mark.parametrize(
    "change",
    [
        {"start": 101},
        {"dispatched": 101},
        {"confirmed": 99},
        {"confirmed": 101, "dispatched": 100},
        {"synced": 101},
    ],
)
def test_a_breach_is_our_bug(change: dict[str, int]) -> None:
    pointers = Pointers(0, 100)
    pointers.check_order()
    for name, value in change.items():
        setattr(pointers, name, value)
    with pytest.raises(OurBug, match="INV-11"):
        pointers.check_order()


def test_reads_without_their_bound() -> None:
    """`read_limit_is_confirmed` off: what the simulator must find."""
    pointers = Pointers(0, 50)
    pointers.appended = pointers.dispatched = 100
    pointers.reads_bounded = False
    assert pointers.readable == 100
    pointers.check_order()
