"""A reset that a client was told of stays in force until a pull follows it, and not for ever."""

from hypothesis import given
from hypothesis import strategies as st

from epochmq.broker.consume.delivered_resets import HOLD_MS, DeliveredResets

QUEUE = ("g", "T", 0)


def test_larger_offsets_are_hidden_until_a_pull_follows() -> None:
    resets = DeliveredResets()
    assert not resets
    assert not resets.hides(*QUEUE, 9, 0)
    resets.add(*QUEUE, 3, 0)
    assert resets
    assert resets.hides(*QUEUE, 9, 1)
    assert not resets.hides(*QUEUE, 3, 1), "the client commits the reset itself"
    assert not resets.hides("g", "T", 1, 9, 1)
    assert not resets.hides("other", "T", 0, 9, 1)
    resets.read_from(*QUEUE, 9)
    assert resets.hides(*QUEUE, 9, 1), "a pull at the old offset does not follow it"
    resets.read_from(*QUEUE, 3)
    assert not resets.hides(*QUEUE, 9, 1)
    assert not resets


def test_it_ends_by_itself() -> None:
    resets = DeliveredResets()
    resets.add(*QUEUE, 3, 1_000)
    assert resets.hides(*QUEUE, 9, 1_000 + HOLD_MS - 1)
    assert not resets.hides(*QUEUE, 9, 1_000 + HOLD_MS)
    assert not resets


def test_a_second_reset_replaces_the_first() -> None:
    resets = DeliveredResets()
    resets.add(*QUEUE, 3, 0)
    resets.add(*QUEUE, 7, 10)
    assert not resets.hides(*QUEUE, 5, 11)
    assert resets.hides(*QUEUE, 8, HOLD_MS + 9)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, HOLD_MS)), max_size=50))
def test_ended_resets_do_not_stay(events: list[tuple[int, int]]) -> None:
    """Only resets of the last `HOLD_MS` take memory, whoever asks."""
    resets, now, last = DeliveredResets(), 0, dict[int, int]()
    for queue_id, wait in events:
        now += wait
        resets.add("g", "T", queue_id, 0, now)
        last[queue_id] = now
        assert len(resets) == sum(now - at < HOLD_MS for at in last.values())
