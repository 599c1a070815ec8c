"""Delay levels: due in time, in order, and never skipped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import OurBug
from epochmq.broker.delay.delay_schedule import (
    AHEAD_MS,
    BATCH_FIRST,
    BATCH_MAX,
    RETRY_MAX_MS,
    RETRY_MS,
    ReadUnits,
    Schedule,
)


def test_looks_at_every_level_after_a_start() -> None:
    core = Schedule((1000, 5000), {1: 7, 2: 0, 9: 4})
    assert core.looks(50) == [ReadUnits(1, 7), ReadUnits(2, 0)]
    assert core.progress() == {1: 7, 2: 0}
    assert core.level_max == 2
    assert (core.level_for(1), core.level_for(99)) == (1, 2)
    assert core.delay_ms(2) == 5000


def test_a_level_sleeps_until_its_first_message_is_due() -> None:
    core = Schedule((1000,))
    assert core.found(1, [1500, 1600], wall=1000) == 0
    assert core.looks(1499) == []
    assert core.next_deadline() == 1500
    assert core.looks(1500) == [ReadUnits(1, 0)]
    assert core.found(1, [1500, 1600], wall=1500) == 1
    assert core.looks(1500) == []  # busy until the internal writer answers
    core.delivered(1, 1)
    assert core.looks(1599) == []
    assert core.looks(1600) == [ReadUnits(1, 1)]


def test_a_clock_that_went_back_keeps_nothing_waiting() -> None:
    core = Schedule((1000,))
    assert core.found(1, [9500], wall=9000) == 0
    back = 8499 - AHEAD_MS
    assert core.looks(back + 1) == []
    assert core.looks(back) == [ReadUnits(1, 0)]
    assert core.found(1, [9500], wall=back) == 1
    core.failed(1, back)
    far = back + RETRY_MS - RETRY_MAX_MS - AHEAD_MS
    assert core.looks(far) == []
    assert [look[:2] for look in core.looks(far - 1)] == [(1, 0)]


def test_a_clock_that_went_back_a_little_delivers_nothing_early() -> None:
    """Store times wait for the clock, so deliver times are ahead by as much."""
    core = Schedule((1000,))
    assert core.found(1, [9000 + AHEAD_MS + 1000], wall=9000) == 0
    assert core.next_deadline() == 10_000 + AHEAD_MS


def test_an_empty_level_wakes_when_something_arrives() -> None:
    core = Schedule((1000,))
    assert core.found(1, [], wall=10) == 0
    assert core.next_deadline() is None
    core.arrived(77)  # not a level
    assert core.looks(500) == []
    core.arrived(1)
    assert core.looks(500) == [ReadUnits(1, 0)]
    assert core.found(1, [1500], wall=500) == 0
    core.arrived(1)  # the first one decides
    assert core.next_deadline() == 1500


def test_what_replicas_had_late_waits_for_its_time_and_no_longer() -> None:
    """A level of two hours was as late again as the replicas (`replay --scenario S12 --seed 1`)."""
    core = Schedule((1000,))
    core.found(1, [], wall=10)
    core.arrived(1)  # it was put at 500
    assert core.looks(1400) == [ReadUnits(1, 0)]
    assert core.found(1, [1500], wall=1400) == 0
    assert core.next_deadline() == 1500


def test_a_clock_that_went_back_while_it_delivered_keeps_nothing_waiting() -> None:
    core = Schedule((1000,))
    assert core.found(1, [5000], wall=5000) == 1
    core.delivered(1, 1)
    assert core.looks(5000 - AHEAD_MS) == [ReadUnits(1, 1)]


def test_all_due_units_go_at_once_and_the_level_looks_again() -> None:
    core = Schedule((1000,))
    assert core.found(1, [1, 2, 3], wall=5000) == 3
    core.delivered(1, 3)
    assert core.looks(5000) == [ReadUnits(1, 3)]
    assert core.updates == 1


def test_a_failed_delivery_is_tried_again_and_never_skipped() -> None:
    core = Schedule((1000,))
    wall = 5000
    pauses = []
    for _ in range(6):
        assert [look[:2] for look in core.looks(wall)] == [(1, 0)]
        assert core.found(1, [1], wall) == 1
        core.failed(1, wall)
        assert core.progress() == {1: 0}
        deadline = core.next_deadline()
        assert deadline is not None
        assert core.looks(deadline - 1) == []
        pauses.append(deadline - wall)
        wall = deadline
    assert pauses == [
        RETRY_MS,
        2 * RETRY_MS,
        4 * RETRY_MS,
        8 * RETRY_MS,
        RETRY_MAX_MS,
        RETRY_MAX_MS,
    ]
    assert core.statistics() == {"levels": 1, "busy": 0, "failures": 6}
    core.found(1, [1], wall)
    core.delivered(1, 1)
    assert core.statistics()["failures"] == 0


def test_batches_grow_while_they_are_held_and_shrink_when_they_are_not() -> None:
    core = Schedule((1000,))
    at = 0
    counts = []

    def batch(size: int | None = None) -> None:
        nonlocal at
        (look,) = core.looks(1 << 40)
        counts.append(look.most)
        at += size or look.most
        core.found(1, [1] * (size or look.most), 5000)

    for _ in range(5):
        batch()
        core.delivered(1, at)
    batch(3)  # a few that are held say nothing
    core.delivered(1, at)
    assert counts == [BATCH_FIRST, 64, 128, BATCH_MAX, BATCH_MAX, BATCH_MAX]
    counts.clear()
    for _ in range(6):
        batch()
        core.failed(1, 5000)
        at = core.progress()[1]
    batch()
    core.delivered(1, at)
    batch()
    assert counts == [BATCH_MAX, 64, 16, 4, 1, 1, 1, 2]


def test_a_deliver_time_further_than_the_delay_is_due_at_once() -> None:
    core = Schedule((1000,))
    assert core.found(1, [9_999_999], wall=1000) == 1


def test_clamp_brings_the_progress_into_the_queue() -> None:
    core = Schedule((1000, 1000, 1000), {1: 5, 2: 50, 3: 7})
    for level in (1, 2, 3):
        core.clamp(level, 6, 10)
    assert core.progress() == {1: 6, 2: 10, 3: 7}
    assert core.updates == 2


def test_progress_never_goes_back_by_a_delivery() -> None:
    core = Schedule((1000,), {1: 5})
    with pytest.raises(OurBug):
        core.delivered(1, 5)


def test_one_delivery_at_a_time() -> None:
    core = Schedule((1000,))
    core.found(1, [1], wall=10)
    with pytest.raises(OurBug):
        core.found(1, [1], wall=10)


@given(
    st.lists(st.integers(0, 3000), max_size=30).map(sorted),
    st.lists(st.booleans(), max_size=60),
    st.integers(1, 500),
)
def test_everything_is_delivered_once_acked_in_order_and_not_early(
    put_walls: list[int], acks: list[bool], step: int
) -> None:
    """A level's whole life: puts at `put_walls`, an outlet that refuses where `acks` says so."""
    delay = 700
    core = Schedule((delay,))
    delivered: list[int] = []
    wall = 0
    refusals = list(acks)
    while len(delivered) < len(put_walls):
        queue = [put for put in put_walls if put <= wall]
        core.arrived(1)
        for look in core.looks(wall):
            due = [put + delay for put in queue[look.queue_offset :]]
            count = core.found(1, due, wall)
            if count == 0:
                continue
            if refusals and refusals.pop():
                core.failed(1, wall)
                continue
            assert look.queue_offset == len(delivered)
            batch = due[:count]
            assert all(at <= wall for at in batch)
            delivered.extend(batch)
            core.delivered(1, len(delivered))
        wall += step
        assert wall < 2_000_000, "a level stopped"
    assert delivered == [put + delay for put in put_walls]


def test_a_saved_progress_is_taken_over_and_looked_at() -> None:
    core = Schedule((1000, 5000), {1: 7})
    assert core.looks(50) == [ReadUnits(1, 7), ReadUnits(2, 0)]
    core.found(1, [], wall=50)
    core.found(2, [], wall=50)
    assert core.looks(60) == []
    core.restore({1: 9, 2: -4})
    core.look_again()
    assert core.progress() == {1: 9, 2: 0}
    assert core.looks(60) == [ReadUnits(1, 9), ReadUnits(2, 0)]


def test_in_another_role_nothing_is_under_way() -> None:
    core = Schedule([1000])
    core.found(1, [0], 0)
    assert core.looks(0) == []
    core.let_go()
    assert core.looks(0) == [ReadUnits(1, 0)]


def test_what_another_delivered_further_is_taken() -> None:
    core = Schedule((1000, 5000, 9000), {1: 5, 2: 5})
    core.updates = 0
    assert core.advance({1: 7, 2: 3, 9: 4}) == 1
    assert core.progress() == {1: 7, 2: 5, 3: 0}
    assert core.updates == 1
