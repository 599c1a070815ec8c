"""The files of the timer log: places, blanks, cuts, gaps."""

import pytest
from sim.kernel.disk import SimDisk

from epochmq.store.timer.timer_log import FOLDER, TimerLog
from epochmq.store.timer.wheel import BLANK, BLANK_MAGIC, TimerDamaged

BYTES = 52 * 3 + 20
"""Three units and a blank in a file."""


def unit(number: int) -> bytes:
    return bytes([number]) * 52


def filled(disk: SimDisk, count: int) -> tuple[TimerLog, list[int]]:
    log = TimerLog(disk, BYTES)
    places = log.places(count)
    log.append([unit(n) for n in range(count)], places)
    return log, places


def test_units_do_not_cross_files() -> None:
    disk = SimDisk()
    log, places = filled(disk, 7)
    assert places == [0, 52, 104, 176, 228, 280, 352]
    assert disk.list(FOLDER) == [f"{n:020d}" for n in (0, 176, 352)]
    assert [log.read(at) for at in places] == [unit(n) for n in range(7)]
    file = disk.open(f"{FOLDER}/{0:020d}")
    assert BLANK.unpack(file.read(156, 16)) == (20, 0, BLANK_MAGIC)
    assert (log.start, log.end) == (0, 404)
    assert log.first_files() == [(0, 104), (176, 280)]
    assert [file.path for file in log.pop_unsynced()] == [
        f"{FOLDER}/{n:020d}" for n in (0, 176, 352)
    ]
    assert log.pop_unsynced() == []


def test_a_rest_too_small_for_a_blank_is_left() -> None:
    log = TimerLog(SimDisk(), 52 + 10)
    places = log.places(2)
    log.append([unit(1), unit(2)], places)
    assert places == [0, 62]
    assert log.read(62) == unit(2)


@pytest.mark.parametrize("end", [0, 52, 104, 156, 176, 228, 352, 404])
def test_it_can_be_cut_and_goes_on(end: int) -> None:
    disk = SimDisk()
    log, places = filled(disk, 7)
    log.cut(end)
    kept = [at for at in places if at < end]
    assert log.end == end
    with pytest.raises(TimerDamaged):
        log.read(max(end, 0))
    more = log.places(1)
    log.append([unit(9)], more)
    log.close()
    again = TimerLog(disk, BYTES)
    again.open(log.end)
    again.cut(log.end)
    assert [again.read(at)[0] for at in [*kept, *more]] == [*range(len(kept)), 9]


def test_old_files_go() -> None:
    disk = SimDisk()
    log, places = filled(disk, 7)
    log.drop_first()
    assert (log.start, disk.list(FOLDER)) == (176, [f"{n:020d}" for n in (176, 352)])
    with pytest.raises(TimerDamaged):
        log.read(52)
    again = TimerLog(disk, BYTES)
    again.open(404)
    assert again.start == 176
    assert again.read(places[3]) == unit(3)
    for position in (175, 529):
        with pytest.raises(TimerDamaged, match="without a gap"):
            TimerLog(disk, BYTES).open(position)


def test_what_is_not_its_own_is_damage() -> None:
    disk = SimDisk()
    filled(disk, 7)
    with pytest.raises(TimerDamaged, match="is not a file of the timer log"):
        TimerLog(disk, BYTES - 1).open(0)
    disk.open(f"{FOLDER}/{0:020d}").truncate(BYTES - 1)
    with pytest.raises(TimerDamaged, match=f"has not {BYTES} bytes"):
        TimerLog(disk, BYTES).open(0)
    disk.remove(f"{FOLDER}/{0:020d}")
    disk.remove(f"{FOLDER}/{352:020d}")
    disk.open(f"{FOLDER}/{528:020d}", create_size=BYTES)
    with pytest.raises(TimerDamaged, match="without a gap"):
        TimerLog(disk, BYTES).open(600)
    with pytest.raises(TimerDamaged, match="without a gap"):
        TimerLog(SimDisk(), BYTES).open(52)


def test_a_new_beginning_is_behind_everything_before() -> None:
    disk = SimDisk()
    log, _ = filled(disk, 7)
    log.reset(52)
    assert (log.start, log.end, disk.list(FOLDER)) == (4 * BYTES, 4 * BYTES, [])
    stranger = TimerLog(disk, BYTES)
    disk.open(f"{FOLDER}/{5 * BYTES:020d}", create_size=1)
    stranger.reset(0)
    assert stranger.end == 7 * BYTES
