"""Slots whose time is over are opened together."""

import pytest
from tests.broker.delay.test_timed_messages import WALL, WINDOW, hang, opened, timer

from epochmq.broker.delay.timed_messages import SPAN_MS, SPAN_SLOTS, Timer, TimerPosition
from epochmq.store.timer.wheel import DEFAULT


def spanned(core: Timer, wall: int) -> int:
    """How many slots are over, and go together."""
    slots = 1
    while core.spans(core.read_ms + slots * core.precision_ms, wall):
        slots += 1
    return slots


@pytest.mark.parametrize(
    ("precision_ms", "behind_ms", "slots"),
    [
        (1000, 0, 1),
        (1000, 1999, 1),
        (1000, 2000, 2),
        (1000, 3_600_000, SPAN_MS // 1000),
        (100, 3_600_000, SPAN_SLOTS),
        (120_000, 3_600_000, 1),
    ],
)
def test_slots_that_are_over_go_together(precision_ms: int, behind_ms: int, slots: int) -> None:
    core = Timer(precision_ms, WINDOW)
    wall = WALL // precision_ms * precision_ms
    core.restore(wall, 0, 0, 0)
    assert spanned(core, wall + behind_ms) == slots


def test_slots_that_go_together_are_over_together() -> None:
    core = timer()
    units = [(WALL + 400, 0), (WALL + 1400, 52), (WALL + 2000, 104), (WALL + 2400, 156)]
    for offset, (time, _) in enumerate(units):
        hang(core, offset, time)
    opened(core, units, 3)
    assert core.batch(WALL + 3000, 2) == [0, 52]
    core.batch_put([True, True], WALL + 3000, 208)
    assert (core.done_ms, core.covered) == (WALL + 1999, 4)
    late = hang(core, 4, WALL + 1500, WALL)
    assert late == TimerPosition(WALL + 1000, DEFAULT, WALL + 1500)
    assert core.batch(WALL + 3000, 9) == [4, 104, 156]
    assert not core.advance(WALL + 3000, 260)
    core.batch_put([True, True, True], WALL + 3000, 260)
    assert (core.done_ms, core.covered) == (WALL + 2999, 5)
    assert not core.advance(WALL + 2999, 260)
    assert core.next_deadline(WALL) == WALL + 3000
    assert core.advance(WALL + 3000, 260)
    assert (core.read_ms, core.over_ms) == (WALL + 3000, WALL + 4000)


def test_of_slots_that_go_together_each_has_its_own_cancellations() -> None:
    core = timer()
    opened(core, [(WALL + 400, 0), (WALL + 1400, 52)], 2)
    core.cancel("k", WALL + 1900)
    assert core.is_cancelled(["x", "k"], WALL + 1400)
    assert not core.is_cancelled(["x", "k"], WALL + 400)
    assert not core.is_cancelled(["x"], WALL + 1400)


def test_slots_delivered_in_part_when_the_clock_went_back_are_opened_by_themselves() -> None:
    core = timer()
    units = [(WALL + 900, 0), (WALL + 1900, 52), (WALL + 2900, 104)]
    for offset, (time, _) in enumerate(units):
        hang(core, offset, time)
    opened(core, units, 3)
    assert core.batch(WALL + 9000, 2) == [0, 52]
    core.batch_put([True, True], WALL + 9000, 156)
    core.set_back(WALL - 2000)
    assert spanned(core, WALL + 9000) == 2
    opened(core, [], 2)
    assert core.advance(WALL, 156)
    assert spanned(core, WALL + 9000) == 3
    opened(core, units, 3)
    assert core.batch(WALL + 9000, 9) == [104]
