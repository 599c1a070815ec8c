"""A slot read in pieces is the slot read at once, whatever joins meanwhile."""

from hypothesis import given
from hypothesis import strategies as st
from sim.disk import SimDisk

from epochmq.broker.timer.reading import SlotReading
from epochmq.store.timer.files import Link, TimerFiles
from epochmq.store.timer.layout import DEFAULT, DELETE, ROLL
from epochmq.store.timer.log import TimerLog
from epochmq.store.timer.wheel import Wheel

WALL = 1_700_000_000_000


def made() -> TimerFiles:
    return TimerFiles(Wheel(SimDisk(), 64 * 32), TimerLog(SimDisk(), 52 * 10), 1000)


def add(files: TimerFiles, count: int, magic: int = DEFAULT) -> list[int]:
    return files.add([Link(WALL, magic, n, 10, 7, WALL + n) for n in range(count)], WALL)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 7)), min_size=1, max_size=12))
def test_in_pieces(steps: list[tuple[int, int]]) -> None:
    files = made()
    wanted: list[int] = []
    reading = SlotReading(files, WALL)
    over = False
    for join, pieces in steps:
        wanted += add(files, join)
        over = reading.read(pieces)
        if over:
            break
    while not over:
        over = reading.read(3)
    assert sorted(position for _, position in reading.units()) == wanted


def test_cancellations_are_named() -> None:
    files = made()
    add(files, 2)
    (delete,) = add(files, 1, DEFAULT | DELETE)
    add(files, 1, DEFAULT | DELETE | ROLL)
    reading = SlotReading(files, WALL)
    assert reading.read(100)
    assert reading.deletes == [delete]
    assert len(list(reading.units())) == 4


def test_an_empty_slot() -> None:
    reading = SlotReading(made(), WALL)
    assert reading.read(1)
    assert list(reading.units()) == []
