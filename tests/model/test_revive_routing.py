"""A number that travels in receipt handles says which master, and which queue there."""

from hypothesis import given
from hypothesis import strategies as st

from epochmq.model.revive_routing import (
    PIN_MAX,
    PIN_STEP,
    favourite,
    is_pinned,
    pinned,
    place_of,
    unpinned,
)

NAMES = st.sets(st.text("abcdef-01", min_size=1, max_size=8), min_size=1, max_size=6)


@given(st.text(min_size=1), st.integers(0, PIN_STEP - 1))
def test_a_pin_is_read_as_it_was_made(name: str, queue_id: int) -> None:
    number = pinned(place_of(name), queue_id)
    assert is_pinned(number)
    assert number <= PIN_MAX < 1_000_000_000  # what a handle has room for
    assert unpinned(number) == (place_of(name), queue_id)


@given(st.integers(0, PIN_STEP - 1))
def test_own_queues_are_no_pins(queue_id: int) -> None:
    assert not is_pinned(queue_id)


@given(st.text(), NAMES, st.text("abcdef-01", min_size=1, max_size=8))
def test_only_keys_of_a_removed_master_move(key: str, names: set[str], gone: str) -> None:
    before = favourite(key, names | {gone})
    if before != gone:
        assert favourite(key, names - {gone}) == before
    assert favourite(key, sorted(names)) == favourite(key, sorted(names, reverse=True))


def test_of_nobody_none_is_preferred() -> None:
    assert favourite("k", []) is None
