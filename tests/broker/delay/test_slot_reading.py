"""A slot read in pieces is the slot read at once, whatever joins meanwhile."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim.kernel.disk import SimDisk

from epochmq.broker.delay.slot_reading import SlotReading
from epochmq.store.timer.timer_files import SlotLink, TimerFiles
from epochmq.store.timer.timer_log import TimerLog
from epochmq.store.timer.wheel import DEFAULT, DELETE, ROLL, Wheel

WALL = 1_700_000_000_000


def made() -> TimerFiles:
    return TimerFiles(Wheel(SimDisk(), 64 * 32), TimerLog(SimDisk(), 52 * 10), 1000)


def add(files: TimerFiles, count: int, magic: int = DEFAULT) -> list[int]:
    return files.add([SlotLink(WALL, magic, n, 10, 7, WALL + n) for n in range(count)], WALL)


def key(position: int) -> int:
    """Another order than that of the log."""
    return position * 7919 % 10_007 << 16 | position


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 7)), min_size=1, max_size=12))
def test_in_pieces(steps: list[tuple[int, int]]) -> None:
    files = made()
    wanted: list[int] = []
    reading = SlotReading(files, WALL, lambda _, at, __: key(at))
    over = False
    for join, pieces in steps:
        wanted += add(files, join)
        over = reading.read(pieces)
        if over:
            break
    while not over:
        over = reading.read(3)
    assert list(reading.keys()) == sorted(map(key, wanted))


def test_cancellations_are_named() -> None:
    files = made()
    add(files, 2)
    (delete,) = add(files, 1, DEFAULT | DELETE)
    add(files, 1, DEFAULT | DELETE | ROLL)
    reading = SlotReading(files, WALL, lambda _, at, __: key(at))
    assert reading.read(100)
    assert reading.deletes == [delete]
    assert len(reading.keys()) == 4


def test_an_empty_slot() -> None:
    reading = SlotReading(made(), WALL, lambda _, at, __: key(at))
    assert reading.read(1)
    assert list(reading.keys()) == []


def test_what_has_no_key_is_left_out_and_cancels_all_the_same() -> None:
    files = made()
    positions = add(files, 9, DEFAULT | DELETE)
    reading = SlotReading(files, WALL, lambda _, at, __: None if at == positions[3] else -at + 900)
    while not reading.read(2):
        pass
    assert list(reading.keys()) == [900 - at for at in reversed(positions) if at != positions[3]]
    assert sorted(reading.deletes) == positions


def test_no_step_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """But the last merge: it takes all there is, and only that long."""
    monkeypatch.setattr("epochmq.broker.delay.slot_reading.MERGED_PER_READ", 2)
    files = made()
    add(files, 64)
    reading = SlotReading(files, WALL, lambda time, at, _: key(at))
    steps = 1
    while not reading.read(4):
        steps += 1
    assert steps >= 16 + 8
    assert list(reading.keys()) == sorted(reading.keys())
    assert len(reading.keys()) == 64
