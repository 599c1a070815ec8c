"""The timer's core, alone and against a slow model: clock steps, refusals, crashes, failovers."""

from array import array
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.tiers import examples

from epochmq.base.errors import OurBug
from epochmq.broker.delay.timed_messages import (
    BACK_MS,
    RETRY_MAX_MS,
    RETRY_MS,
    Timer,
    TimerPosition,
)
from epochmq.store.timer.timer_checkpoint import OLDER_MAX, OlderProgress
from epochmq.store.timer.wheel import DEFAULT, DELETE, ROLL

WALL = 1_700_000_000_000
WINDOW = 30


def timer(read_ms: int = WALL) -> Timer:
    core = Timer(1000, WINDOW)
    core.restore(read_ms, 0, 0, 0)
    return core


def hang(
    core: Timer, offset: int, deliver: int, store: int = WALL, **more: bool
) -> TimerPosition | None:
    place = core.place(offset, deliver, store, **more)
    if place is not None:
        core.joined(place.slot_ms, place.deliver_wall_ms, offset)
    core.enqueued(offset + 1, (offset + 1) * 52)
    return place


def opened(core: Timer, units: list[tuple[int, int]], slots: int = 1) -> None:
    """The slot that the core wants is read, and those that go with it."""
    keys = (core.key_of(time, position, False) for time, position in units)
    core.opened(array("Q", sorted(key for key in keys if key is not None)), slots)


def deliver(core: Timer, units: list[tuple[int, int]], wall: int, *held: bool) -> list[int]:
    """Open the slot if it is time, put one batch."""
    if core.wants(wall) is not None:
        opened(core, units)
    batch = core.batch(wall, 100)
    if batch:
        core.batch_put(held or [True] * len(batch), wall, 999)
    return batch


@pytest.mark.parametrize(
    ("time", "slot"), [(1, 0), (999, 0), (1000, 0), (1001, 1000), (2000, 1000), (2001, 2000)]
)
def test_slots_are_upstreams(time: int, slot: int) -> None:
    assert timer().slot_of(WALL + time) == WALL + slot


def test_each_message_goes_at_its_own_time() -> None:
    core = timer()
    units = [(WALL + 700, 0), (WALL + 200, 52), (WALL + 1000, 104)]
    assert core.next_deadline(WALL) == WALL
    assert deliver(core, units, WALL + 199) == []
    assert core.next_deadline(WALL) == WALL + 200
    assert deliver(core, [], WALL + 200) == [52]
    assert deliver(core, [], WALL + 999) == [0]
    assert not core.advance(WALL + 999, 156)
    assert deliver(core, [], WALL + 1000) == [104]
    assert core.size == 3
    assert core.advance(WALL + 1000, 156)
    assert (core.read_ms, core.position, core.size) == (WALL + 1000, 156, 0)


def test_a_slot_is_over_when_its_time_is_and_all_are_held() -> None:
    core = timer()
    assert not core.advance(WALL, 0)  # not open
    opened(core, [(WALL + 1, 0)])
    assert core.batch(WALL + 1, 100) == [0]
    assert core.next_deadline(WALL + 1) is None
    assert core.batch(WALL + 1, 100) == []
    assert not core.advance(WALL + 2000, 52)
    core.batch_put([True], WALL + 1, 999)
    assert not core.advance(WALL + 999, 52)
    assert core.next_deadline(WALL + 1) == WALL + 1000
    before = core.updates
    assert core.advance(WALL + 1000, 52)
    assert core.updates == before + 1
    opened(core, [])
    assert core.advance(WALL + 2000, 52)
    assert core.updates == before + 1  # nothing was in it: nothing to save


def test_what_is_refused_comes_again_and_more_slowly() -> None:
    core = timer()
    opened(core, [(WALL + 1, 0), (WALL + 2, 52), (WALL + 3, 104)])
    assert core.batch(WALL + 9, 2) == [0, 52]
    core.batch_put([False, True], WALL + 9, 999)
    assert deliver(core, [], WALL + 9 + RETRY_MS - 1) == []
    assert core.next_deadline(WALL) == WALL + 9 + RETRY_MS
    assert core.statistics()["failures"] == 1
    wall, pause = WALL + 9 + RETRY_MS, RETRY_MS
    for _ in range(8):
        assert core.batch(wall, 1) == [0]
        core.batch_put([False], wall, 999)
        pause = min(pause * 2, RETRY_MAX_MS)
        assert core.next_deadline(wall) == wall + pause
        wall += pause
    assert deliver(core, [], wall) == [0, 104]
    assert core.statistics() == {
        "read_ms": WALL, "cursor": 0, "covered": 0, "open": 0, "failures": 0
    }  # fmt: skip


def test_a_batch_may_be_put_in_part() -> None:
    core = timer()
    opened(core, [(WALL + 1, 0), (WALL + 2, 52), (WALL + 3, 104)])
    assert core.batch(WALL + 9, 100) == [0, 52, 104]
    core.put_back(0)
    core.put_back(2)
    core.batch_put([True], WALL + 9, 999)
    assert deliver(core, [], WALL + 9) == [52, 104]
    with pytest.raises(OurBug):
        core.batch_put([True], WALL, 999)


def test_a_batch_may_be_withdrawn() -> None:
    core = timer()
    opened(core, [(WALL + 1, 0), (WALL + 2, 52)])
    assert core.batch(WALL + 9, 100) == [0, 52]
    core.withdraw()
    assert not core.flying
    assert core.done_ms == WALL
    assert core.next_deadline(WALL + 9) == WALL + 1, "no pause: it did not fail"
    assert deliver(core, [], WALL + 9) == [0, 52]


def test_a_batch_is_not_split_amid_one_time() -> None:
    """No progress says which of them are delivered (INV-27)."""
    core = timer()
    opened(core, [(WALL + 100, 0), (WALL + 200, 52), (WALL + 200, 104)])
    assert not core.splits(0)
    assert core.batch(WALL + 300, 10) == [0, 52, 104]
    assert [core.splits(count) for count in range(4)] == [False, True, False, False]


def test_late_ones_join_the_open_slot() -> None:
    core = timer(WALL + 5000)
    assert hang(core, 0, WALL + 10) == TimerPosition(WALL + 5000, DEFAULT, WALL + 10)
    opened(core, [(WALL + 10, 0)])
    assert deliver(core, [], WALL + 5000) == [0]
    assert hang(core, 1, WALL + 5500) == TimerPosition(WALL + 5000, DEFAULT, WALL + 5500)
    assert hang(core, 2, WALL + 20) == TimerPosition(WALL + 5000, DEFAULT, WALL + 20)
    assert hang(core, 3, WALL + 6001) == TimerPosition(WALL + 6000, DEFAULT, WALL + 6001)
    assert deliver(core, [], WALL + 5000) == [2]
    assert deliver(core, [], WALL + 5500) == [1]


def test_a_slot_delivered_in_part_goes_on_where_it_was() -> None:
    core = timer()
    for offset, time in enumerate((WALL + 100, WALL + 500, WALL + 900)):
        hang(core, offset, time)
    units = [(WALL + 100, 0), (WALL + 500, 52), (WALL + 900, 104)]
    opened(core, units)
    assert deliver(core, [], WALL + 600) == [0, 52]
    assert (core.done_ms, core.covered) == (WALL + 600, 3)
    assert core.joined(WALL, WALL + 50, 156)  # late: what is done stays done
    hang(core, 3, WALL + 50)
    again = timer(core.done_ms)
    again.restore(core.done_ms, core.covered, 3, 156)
    again.enqueued(4, 208)
    assert again.wants(WALL + 700) == WALL
    opened(again, [*units, (WALL + 50, 156)])
    assert again.batch(WALL + 700, 100) == [156]
    again.batch_put([True], WALL + 700, 208)
    assert again.batch(WALL + 900, 100) == [104]
    again.put_back(1)
    again.batch_put([], WALL + 900, 208)
    assert again.done_ms == WALL + 899


def test_what_is_done_waits_for_one_that_came_late_meanwhile() -> None:
    core = timer()
    opened(core, [(WALL + 100, 0), (WALL + 300, 52)])
    assert deliver(core, [], WALL + 200) == [0]
    assert core.done_ms == WALL + 200
    assert core.batch(WALL + 400, 100) == [52]
    assert core.joined(WALL, WALL + 50, 104)
    core.batch_put([True], WALL + 400, 156)
    assert core.done_ms == WALL + 200
    assert deliver(core, [], WALL + 500) == [104]
    assert core.done_ms == WALL + 500


def test_what_is_too_far_rolls() -> None:
    core = timer()
    window = WINDOW * 1000
    far = hang(core, 0, WALL + 2 * window)
    assert far == TimerPosition(WALL + window - 1000, DEFAULT | ROLL, WALL + window)
    nearly = hang(core, 1, WALL + window, delete=True)
    assert nearly == TimerPosition(
        WALL + window // 2 - 1000, DEFAULT | ROLL | DELETE, WALL + window // 2
    )
    near = hang(core, 2, WALL + window - 1, delete=True)
    assert near == TimerPosition(WALL + window - 1000, DEFAULT | DELETE, WALL + window - 1)


def test_when_a_message_goes_out_or_a_piece_of_its_wait_is_over() -> None:
    core = timer()
    window = WINDOW * 1000
    for delay, first in (
        (-5, -5),
        (window - 1, window - 1),
        (window, window // 2),
        (window * 4 // 3 - 1, window // 2),
        (window * 4 // 3, window),
        (9 * window, window),
    ):
        assert core.time_of(WALL + delay, WALL) == WALL + first


def test_cancellations_hold_for_the_open_slot() -> None:
    core = timer()
    opened(core, [])
    assert not core.cancels
    core.cancel("k", WALL + 9)
    assert core.cancels
    assert core.is_cancelled(["x", "k"], WALL + 9)
    assert not core.is_cancelled(["x"], WALL + 9)
    core.advance(WALL + 1000, 0)
    assert not core.cancels


def test_a_replica_hangs_up_what_its_master_covered() -> None:
    core = timer(0)
    core.adopt(WALL + 5500, 3)
    assert (core.read_ms, core.catching_up, core.wants(WALL + 9000)) == (WALL + 5000, True, None)
    assert core.next_deadline(WALL) is None
    assert hang(core, 0, WALL + 10) is None  # delivered by the master
    assert hang(core, 1, WALL + 7000) == TimerPosition(WALL + 6000, DEFAULT, WALL + 7000)
    assert (core.kept_cursor, core.position) == (2, 104)
    hang(core, 2, WALL + 8000)
    assert not core.catching_up
    core.adopt(WALL + 4000, 3)  # an older word
    core.adopt(WALL + 5500, 2)
    assert (core.read_ms, core.covered, core.older) == (WALL + 5000, 3, [])
    assert core.start_delivery(WALL + 6000, 4)
    late = hang(core, 3, WALL + 10)  # the master never said that this one was delivered
    assert late == TimerPosition(WALL + 5000, DEFAULT, WALL + 10)
    assert core.fall_back() == 156
    assert (core.cursor, core.covered) == (3, 3)


def test_taking_over_without_a_word_or_with_less_log() -> None:
    core = Timer(1000, WINDOW)
    assert core.start_delivery(WALL + 1, 0)
    assert core.read_ms == WALL
    core.restore(WALL, 5, 5, 260)
    assert not core.start_delivery(WALL, 4)
    assert core.covered == 4
    core.begin_again(0, 9)
    assert (core.cursor, core.kept_cursor, core.position) == (0, 0, 9)
    core.begin_again(7, 9)
    assert core.cursor == 4


def test_a_clock_that_goes_back_is_followed() -> None:
    core = timer(WALL + 60_000)
    assert not core.is_behind(WALL + 60_000 - BACK_MS)
    assert core.is_behind(WALL + 60_000 - BACK_MS - 1)
    core.set_back(WALL + 10)
    assert core.read_ms == WALL
    assert not core.is_behind(WALL)


def is_done(core: Timer, offset: int, deliver: int) -> bool:
    return core.place(offset, deliver, deliver - 10) is None


def test_what_was_done_before_the_clock_went_back_stays_done() -> None:
    """Found by the simulator: a wheel created again after it held all of that again (INV-27)."""
    core = timer()
    core.restore(WALL + 20_000, 2, 2, 104)
    core.set_back(WALL)
    core.begin_again(0, 104)
    assert is_done(core, 1, WALL + 20_000)
    assert not is_done(core, 1, WALL + 20_001)
    assert not is_done(core, 2, WALL + 20_000)  # sent when the clock had gone back
    assert core.may_be_done(WALL + 20_000)
    assert not core.may_be_done(WALL + 20_001)
    core.adopt(WALL + 10_000, 3)
    core.set_back(WALL - 5_000)
    assert is_done(core, 1, WALL + 20_000)
    assert is_done(core, 2, WALL + 10_000)
    assert not is_done(core, 2, WALL + 10_001)
    core.start_delivery(WALL, 1)  # the log was cut
    assert is_done(core, 0, WALL + 20_000)
    assert not is_done(core, 1, WALL + 10_000)
    core.fall_back()
    assert is_done(core, 0, WALL + 20_000)
    assert not core.keep_older(lambda row: False)  # the log goes on otherwise
    assert not is_done(core, 0, WALL + 20_000)


def test_what_a_master_ahead_of_its_time_delivered_stays_done() -> None:
    """Found by the simulator: it hung on the wheel of a replica whose clock was right (INV-27)."""
    core = Timer(1000, WINDOW)
    core.adopt(WALL, 1)
    hang(core, 0, WALL + 2500)
    core.adopt(WALL + 60_000, 1)
    core.set_back(WALL + 2000)
    assert core.start_delivery(WALL + 2000, 2)
    hang(core, 1, WALL + 2600, WALL + 2000)
    assert core.key_of(WALL + 2500, 0, True) is not None  # its time may be this wheel's own
    units = [(WALL + 2500, 0), (WALL + 2600, 52)]
    assert deliver(core, units, WALL + 2900) == [52]


def test_older_progress_outlives_a_restart() -> None:
    core = timer()
    core.restore(WALL + 20_000, 2, 2, 104)
    core.set_back(WALL, 900, 7)
    (row,) = core.older
    assert row == OlderProgress(WALL + 20_000, 2, 104, 900, 7)
    again = timer()
    again.restore(core.done_ms, core.covered, core.kept_cursor, 52, core.older)
    assert is_done(again, 1, WALL + 20_000)
    assert not is_done(again, 2, WALL + 20_000)
    assert again.key_of(WALL + 20_000, 0, False) is None
    assert again.key_of(WALL + 20_000, 52, False) is not None  # the timer log was cut to there
    again.adopt(WALL + 20_000, 2)
    assert again.older == []  # it says no more than the newest one


@pytest.mark.parametrize("changes", ["wheel created again", "another role"])
def test_older_progress_knows_no_place_of_another_timer_log(changes: str) -> None:
    core = timer()
    core.restore(WALL + 20_000, 2, 2, 104)
    core.set_back(WALL)
    core.position = 52
    if changes == "another role":
        assert core.fall_back() == 52
    else:
        core.begin_again(0, 0)
    assert core.key_of(WALL + 20_000, 52, False) is not None
    assert is_done(core, 1, WALL + 20_000)


def test_a_replica_has_its_masters_older_progress() -> None:
    core = timer()
    core.adopt(WALL, 3)
    rows = [OlderProgress(WALL + 20_000, 2, 104, 900, 7), OlderProgress(WALL - 1, 3, 104)]
    updates = core.updates
    core.adopt_older(rows)
    assert core.updates == updates + 1
    core.adopt_older(rows)
    assert core.updates == updates + 1
    assert core.older == [rows[0]._replace(position=-1)]  # a position of another timer log
    assert is_done(core, 1, WALL + 20_000)
    assert core.key_of(WALL + 20_000, 0, False) is not None


def test_clocks_that_go_back_again_and_again_take_no_more_room() -> None:
    core = timer(WALL + 1_000_000)
    for count in range(2 * OLDER_MAX):
        core.covered = count + 1
        core.set_back(WALL + 100_000 - count * 1000)
    time = WALL + 100_000 - (2 * OLDER_MAX - 2) * 1000
    assert is_done(core, 2 * OLDER_MAX - 1, time)
    assert is_done(core, OLDER_MAX, time)
    assert not is_done(core, 0, WALL + 1_000_000)  # forgotten, and delivered again


def test_a_clock_that_was_far_behind_is_made_up_for() -> None:
    core = timer(WALL)
    core.restore(WALL, 5, 5, 260)
    later = WALL + 3_600_000
    core.skip_to(later)
    core.begin_again(0, 9)
    assert (core.read_ms, core.done_ms) == (later, WALL)
    assert core.place(0, WALL, WALL - 10) is None  # delivered
    assert core.place(1, WALL + 1, WALL - 10) == TimerPosition(later, DEFAULT, WALL + 1)
    core.enqueued(5, 99)
    assert core.wants(later) == later


def skipped() -> Timer:
    """The clock leapt an hour: two that were not due hang late in the slot of now."""
    core = timer(WALL)
    core.restore(WALL, 2, 2, 104)
    later = WALL + 3_600_000
    core.skip_to(later)
    core.begin_again(0, 0)
    assert hang(core, 0, WALL + 1) == TimerPosition(later, DEFAULT, WALL + 1)
    assert hang(core, 1, WALL + 5000) == TimerPosition(later, DEFAULT, WALL + 5000)
    return core


def test_progress_stays_below_late_timers_until_all_are_done() -> None:
    core, later = skipped(), WALL + 3_600_000
    opened(core, [(WALL + 1, 0), (WALL + 5000, 52)])
    assert core.batch(later, 1) == [0]
    core.batch_put([True], later, 104)
    assert (core.done_ms, core.kept_cursor) == (WALL, 0)
    assert deliver(core, [], later) == [52]
    assert (core.done_ms, core.kept_cursor) == (later, 2)
    assert not core.has_skipped


def test_late_timers_are_placed_again_when_the_clock_goes_back() -> None:
    core = skipped()
    assert core.is_behind(WALL + 3000)
    core.unskip()
    core.begin_again(0, 0)
    assert (core.read_ms, core.done_ms) == (WALL, WALL)
    assert not core.is_behind(WALL + 3000)
    assert hang(core, 1, WALL + 5000) == TimerPosition(WALL + 4000, DEFAULT, WALL + 5000)


def test_late_timers_are_placed_again_after_a_role_change() -> None:
    core = skipped()
    assert (core.fall_back(), core.cursor) == (0, 0)
    assert (core.read_ms, core.done_ms) == (WALL, WALL)


def test_late_timers_do_not_count_as_delivered_after_a_clock_step_back() -> None:
    with pytest.raises(OurBug, match="hangs late"):
        skipped().set_back(WALL + 3000)


def test_what_the_wheel_does_not_reach_is_looked_at_again() -> None:
    core = timer(WALL)
    later = WALL + core.window_ms
    assert core.farthest(DEFAULT) == TimerPosition(later - 1000, DEFAULT | ROLL, later)
    assert core.farthest(DEFAULT | DELETE).magic == DEFAULT | DELETE | ROLL


def test_what_joins_while_others_fly_goes_before_them_when_they_are_refused() -> None:
    core = timer()
    opened(core, [(WALL + 5, 0), (WALL + 9, 52), (WALL + 20, 104)])
    assert core.batch(WALL + 9, 100) == [0, 52]
    assert core.joined(WALL, WALL - 7, 156)
    core.enqueued(4, 208)
    core.batch_put([False, False], WALL + 9, 208)
    assert core.batch(WALL + 9 + RETRY_MS, 1) == [156]
    core.put_back(1)
    core.batch_put([], WALL + 9 + RETRY_MS, 208)
    assert (core.done_ms, core.covered) == (WALL, 0)  # nothing is held yet
    assert deliver(core, [], WALL + 9 + RETRY_MS) == [156, 0, 52, 104]
    assert (core.done_ms, core.covered) == (WALL + 9 + RETRY_MS, 4)


def test_what_was_put_counts_though_late_ones_joined_before_the_answer() -> None:
    core = timer()
    opened(core, [(WALL + 100, 0), (WALL + 200, 52), (WALL + 700, 104)])
    core.enqueued(3, 156)
    assert core.batch(WALL + 300, 100) == [0, 52]
    core.put_begins(156)
    assert core.joined(WALL, WALL - 50, 156)
    core.enqueued(4, 208)
    core.batch_put([True, True], WALL + 400, 208)
    assert (core.done_ms, core.covered, core.position) == (WALL + 400, 3, 156)
    assert core.place(3, WALL - 50, WALL) is not None  # it still waits, at the next master as well
    again = timer()
    again.restore(core.done_ms, core.covered, core.kept_cursor, core.position)
    again.enqueued(4, 208)
    opened(again, [(WALL + 100, 0), (WALL + 200, 52), (WALL + 700, 104), (WALL - 50, 156)])
    assert again.batch(WALL + 450, 100) == [156]
    assert core.batch(WALL + 450, 100) == [156]
    core.put_begins(208)
    assert core.joined(WALL, WALL + 800, 208)  # behind the one that waited: nothing to heed
    core.enqueued(5, 260)
    core.batch_put([True], WALL + 500, 260)
    assert (core.done_ms, core.covered, core.position) == (WALL + 500, 5, 260)


def test_of_the_last_batch_of_what_is_open_late_ones_are_told_too() -> None:
    core = timer()
    opened(core, [(WALL + 100, 0)])
    core.enqueued(1, 52)
    assert core.batch(WALL + 300, 100) == [0]
    core.put_begins(52)
    assert core.joined(WALL, WALL - 50, 52)
    core.enqueued(2, 104)
    core.batch_put([True], WALL + 400, 104)
    assert (core.done_ms, core.covered, core.position) == (WALL + 400, 1, 52)


def test_late_ones_of_a_slot_that_lies_ahead_again_are_not_covered() -> None:
    core = timer(WALL + 3000)
    hang(core, 0, WALL + 3500)
    opened(core, [(WALL + 3500, 0)])
    assert hang(core, 1, WALL + 500) == TimerPosition(WALL + 3000, DEFAULT, WALL + 500)
    core.set_back(WALL)
    assert hang(core, 2, WALL + 700) == TimerPosition(WALL, DEFAULT, WALL + 700)
    assert deliver(core, [(WALL + 700, 104)], WALL + 700) == [104]
    assert (core.done_ms, core.covered, core.kept_cursor) == (WALL + 700, 0, 0)
    assert core.advance(WALL + 1000, 156)
    for slot in (1000, 2000):
        opened(core, [])
        assert core.advance(WALL + slot + 1000, 156)
    assert (core.done_ms, core.covered, core.position) == (WALL + 3000, 0, 0)
    units = [(WALL + 3500, 0), (WALL + 500, 52)]
    assert deliver(core, units, WALL + 3000) == [52]
    assert (core.done_ms, core.covered) == (WALL + 3000, 3)
    assert deliver(core, [], WALL + 3500) == [0]
    assert core.advance(WALL + 4000, 156)
    assert (core.covered, core.position) == (3, 156)


def test_late_ones_of_a_slot_that_is_over_keep_nothing_back() -> None:
    """Found by the simulator: what came later did not count, and came twice from a new wheel."""
    core = timer(WALL + 3000)
    hang(core, 0, WALL + 500)
    assert deliver(core, [(WALL + 500, 0)], WALL + 3000) == [0]
    assert core.advance(WALL + 4000, 52)
    core.set_back(WALL)
    hang(core, 1, WALL + 700)
    assert deliver(core, [(WALL + 700, 52)], WALL + 700) == [52]
    assert (core.done_ms, core.covered) == (WALL + 700, 2)
    core.begin_again(0, 104)
    assert core.place(1, WALL + 700, WALL) is None


def test_a_slot_that_lies_ahead_is_forgotten_with_the_wheel() -> None:
    for forget in (Timer.fall_back, lambda core: core.begin_again(0, 0)):
        core = timer(WALL + 3000)
        hang(core, 0, WALL + 500)
        core.set_back(WALL)
        forget(core)
        hang(core, 0, WALL + 500)
        assert deliver(core, [(WALL + 500, 0)], WALL + 500) == [0]
        assert core.covered == 1


def test_what_was_delivered_of_an_open_slot_does_not_come_again() -> None:
    core = timer(WALL + 60_000)
    units = [(WALL + 60_100, 0), (WALL + 60_900, 52)]
    assert deliver(core, units, WALL + 60_200) == [0]
    assert not core.flying
    core.set_back(WALL + 59_000)
    opened(core, [])
    assert core.advance(WALL + 60_000, 104)
    assert deliver(core, units, WALL + 60_950) == [52]


def test_a_pause_ends_when_the_clock_goes_back_less_than_the_wheel_stood_still() -> None:
    core = timer()
    assert deliver(core, [(WALL + 1, 0)], WALL + 30_000, False) == [0]
    assert core.next_deadline(WALL + 30_000) == WALL + 30_000 + RETRY_MS
    back = WALL + 30_000 - RETRY_MAX_MS
    assert not core.is_behind(back)
    assert core.next_deadline(back) == back
    assert deliver(core, [], back) == [0]


def test_a_pause_ends_when_the_clock_goes_back() -> None:
    core = timer(WALL + 60_000)
    opened(core, [(WALL + 60_001, 0)])
    assert core.batch(WALL + 60_001, 1) == [0]
    core.batch_put([False], WALL + 60_001, 52)
    core.set_back(WALL)
    assert deliver(core, [(WALL + 1, 52)], WALL + 1) == [52]


@dataclass
class Log:
    """The slow model's timer topic: (deliver time, store time) by queue offset."""

    rows: list[tuple[int, int]] = field(default_factory=list)


class Machine(RuleBasedStateMachine):
    """A broker that may crash or hand over at any point, its wheel kept as plain dicts."""

    def __init__(self) -> None:
        super().__init__()
        self.wall = WALL
        self.log = Log()
        self.delivered: dict[int, list[int]] = {}
        self.core = timer()
        self.wheel: dict[int, list[tuple[int, int, int]]] = {}
        """Slot to (position, deliver time, row)."""
        self.end = 0
        self.saved: tuple[int, int, int, int] = (WALL, 0, 0, 0)
        self.saved_older: list[OlderProgress] = []
        self.flying: list[int] = []
        self.together = 1
        self.tells_puts = False

    @rule(tells=st.booleans())
    def tell_puts(self, tells: bool) -> None:
        """From now on the core hears when a put begins, or it does not."""
        self.tells_puts = tells

    @rule(slots=st.integers(1, 20))
    def open_together(self, slots: int) -> None:
        """From now on so many slots, as far as they are over."""
        self.together = slots

    @rule(delays=st.lists(st.integers(1, 5000), min_size=1, max_size=5))
    def send(self, delays: list[int]) -> None:
        self.log.rows += [(self.wall + delay, self.wall) for delay in delays]

    @rule(ms=st.integers(1, 3000))
    def wait(self, ms: int) -> None:
        self.wall += ms

    @rule(ms=st.integers(1, 60_000))
    def clock_steps_back(self, ms: int) -> None:
        self.wall -= ms

    @rule(ms=st.integers(10_000, 60_000))
    def clock_leaps(self, ms: int) -> None:
        """Further than the wheel reaches."""
        self.wall += ms
        if not self.flying and self.wall > self.core.read_ms:
            self.core.skip_to(self.wall)
            self.core.begin_again(0, 0)
            self._create_again()

    @rule(count=st.integers(1, 6))
    def enqueue(self, count: int) -> None:
        core = self.core
        if core.is_behind(self.wall):
            for slot in [slot for slot in self.wheel if slot < core.read_ms]:
                del self.wheel[slot]
            if core.has_skipped:
                core.unskip()
                core.begin_again(0, 0)
                self._create_again()
            if core.is_behind(self.wall):
                core.set_back(self.wall)
            self.flying = []
        for offset in range(core.cursor, min(core.cursor + count, len(self.log.rows))):
            time, stored = self.log.rows[offset]
            place = core.place(offset, time, stored)
            if place is not None:
                slot = self.wheel.setdefault(place.slot_ms, [])
                slot.append((self.end, place.deliver_wall_ms, offset))
                core.joined(place.slot_ms, place.deliver_wall_ms, self.end)
                self.end += 52
            core.enqueued(offset + 1, self.end)

    @rule()
    def put(self) -> None:
        core = self.core
        slot = core.wants(self.wall)
        if slot is not None:
            slots = [slot]
            while len(slots) < self.together and core.spans(slots[-1] + 1000, self.wall):
                slots.append(slots[-1] + 1000)
            units = [unit for slot in slots for unit in self.wheel.get(slot, [])]
            opened(core, [(time, at) for at, time, _ in units], len(slots))
        if not self.flying:
            self.flying = core.batch(self.wall, 4)
            if self.flying and self.tells_puts:
                core.put_begins(self.end)
            rows = {at: row for slot in self.wheel.values() for at, _, row in slot}
            assert all(self.log.rows[rows[at]][0] <= self.wall for at in self.flying), "early"

    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        if not self.flying:
            return
        held = data.draw(
            st.lists(st.booleans(), min_size=len(self.flying), max_size=len(self.flying))
        )
        rows = {at: row for slot in self.wheel.values() for at, _, row in slot}
        for at, ok in zip(self.flying, held, strict=True):
            if ok:
                self.delivered.setdefault(rows[at], []).append(self.wall)
        self.core.batch_put(held, self.wall, self.end)
        self.flying = []

    @rule(slots=st.integers(1, 5))
    def go_on(self, slots: int) -> None:
        for _ in range(slots):
            if not self.core.advance(self.wall, self.end):
                break

    @rule()
    def save(self) -> None:
        core = self.core
        self.saved = (core.done_ms, core.covered, core.kept_cursor, core.position)
        self.saved_older = core.older

    @rule()
    def crash(self) -> None:
        """The files are cut where the checkpoint says."""
        core = self.core = Timer(1000, WINDOW)
        core.restore(*self.saved, self.saved_older)
        self._cut(core.position)

    @rule()
    def lose_the_files(self) -> None:
        core = self.core = Timer(1000, WINDOW)
        core.restore(*self.saved, self.saved_older)
        core.begin_again(0, 0)
        self._create_again()

    @rule()
    def find_the_files_damaged(self) -> None:
        self.core.begin_again(0, 0)
        self._create_again()

    @rule()
    def stand_down(self) -> None:
        self._cut(self.core.fall_back())

    @rule(known=st.booleans())
    def fail_over(self, known: bool) -> None:
        """Another broker, which has the log, and the master's word or an older one."""
        old = self.core
        word = (old.done_ms, old.covered) if known else self.saved[:2]
        core = self.core = Timer(1000, WINDOW)
        core.adopt(*word)
        core.adopt_older(old.older if known else self.saved_older)
        core.start_delivery(self.wall, len(self.log.rows))
        self._create_again()

    def _create_again(self) -> None:
        """What an older checkpoint vouched for is not on the new wheel (ADR 0045)."""
        self.saved = (*self.saved[:2], 0, 0)
        self._cut(0)

    def _cut(self, position: int) -> None:
        self.flying = []
        self.end = position
        self.wheel = {
            slot: kept
            for slot, units in self.wheel.items()
            if (kept := [unit for unit in units if unit[0] < position])
        }

    @invariant()
    def the_pair_never_claims_what_was_not_delivered(self) -> None:
        for done_ms, covered in (self.saved[:2], (self.core.done_ms, self.core.covered)):
            for offset, (time, _) in enumerate(self.log.rows[:covered]):
                assert time > done_ms or offset in self.delivered, (offset, done_ms, covered)

    @invariant()
    def only_what_was_delivered_is_left_out(self) -> None:
        for offset, (time, stored) in enumerate(self.log.rows):
            assert self.core.place(offset, time, stored) or offset in self.delivered, offset

    def teardown(self) -> None:
        """In the end everything comes."""
        self.wall += 200_000
        for _ in range(1500):
            self.enqueue(1000)
            self.put()
            if self.flying:
                rows = {at: row for slot in self.wheel.values() for at, _, row in slot}
                for at in self.flying:
                    self.delivered.setdefault(rows[at], []).append(self.wall)
                self.core.batch_put([True] * len(self.flying), self.wall, self.end)
                self.flying = []
            self.core.advance(self.wall, self.end)
            self.wall += 500
        assert set(self.delivered) == set(range(len(self.log.rows))), "lost"


def test_a_late_one_hung_before_the_clock_went_back_comes() -> None:
    run = Machine()
    run.put()
    run.clock_steps_back(ms=1)
    run.send(delays=[1])
    run.enqueue(count=1)
    run.clock_steps_back(ms=2000)
    run.enqueue(count=1)
    run.teardown()
    run.the_pair_never_claims_what_was_not_delivered()


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=examples(60), stateful_step_count=40)


def test_slots_that_were_delivered_in_part_are_opened_by_themselves() -> None:
    core = timer()
    slot, over = core.read_ms, core.over_ms
    assert core.spans(slot, WALL + 10_000)
    core._partly = (slot, over, 0, 0)
    assert not core.spans(slot, WALL + 10_000)
    assert not core.spans(over, WALL + 10_000)
