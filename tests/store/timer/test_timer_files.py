"""Wheel and log together, against lists in a dict; cut and torn wherever a crash may."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sim.kernel.disk import PowerCut, SimDisk
from tests.tiers import examples

from epochmq.store.timer.timer_files import SlotLink, TimerFiles
from epochmq.store.timer.timer_log import FOLDER, TimerLog
from epochmq.store.timer.wheel import DEFAULT, FILE, TimerDamaged, Wheel

WALL = 1_700_000_000_000
LOG_BYTES = 52 * 4 + 30


def made(disk: SimDisk) -> TimerFiles:
    return TimerFiles(Wheel(disk, 64 * 32), TimerLog(disk, LOG_BYTES), 1000)


def opened(disk: SimDisk, position: int) -> TimerFiles:
    files = made(disk)
    files.open(position)
    return files


def link(seconds: int, offset: int) -> SlotLink:
    return SlotLink(WALL + seconds * 1000, DEFAULT, offset, 100, 7, WALL + seconds * 1000 + 1)


def offsets(files: TimerFiles, seconds: int) -> list[int]:
    """What hangs in a slot, oldest first."""
    return [unit.offset for _, unit in files.walk(WALL + seconds * 1000)][::-1]


def contents(files: TimerFiles) -> dict[int, list[int]]:
    return {s: offsets(files, s) for s in range(20) if files.count(WALL + s * 1000)}


def test_messages_hang_in_their_slots() -> None:
    files = opened(SimDisk(), 0)
    files.add([link(5, 1), link(7, 2), link(5, 3)], WALL)
    files.add([link(5, 4)], WALL + 100)
    assert contents(files) == {5: [1, 3, 4], 7: [2]}
    assert files.count(WALL + 5999) == 3
    (position, unit), *_ = files.walk(WALL + 7000)
    assert files.unit(position) == unit
    assert (unit.write_wall_ms, unit.delay_ms) == (WALL, 7000)
    files.clear([WALL + 5000, WALL + 6000])
    files.clear([])
    assert contents(files) == {7: [2]}


def test_a_delay_wider_than_its_field() -> None:
    files = opened(SimDisk(), 0)
    far = SlotLink(WALL - (1 << 32), DEFAULT, 1, 100, 7, WALL)
    files.add([far], WALL)
    ((_, unit),) = files.walk(far.slot_ms)
    assert unit.write_wall_ms + unit.delay_ms == far.slot_ms
    files.rewind(0)
    assert files.count(far.slot_ms) == 0


moves = st.lists(
    st.one_of(
        st.lists(st.integers(0, 9), min_size=1, max_size=6),
        st.sampled_from(["mark", "rewind", "reopen", "clear"]),
    ),
    max_size=25,
)


@given(moves)
def test_going_back_and_opening_again_keep_what_was_before(steps: list[list[int] | str]) -> None:
    disk = SimDisk()
    files = opened(disk, 0)
    model: dict[int, list[int]] = {}
    marked: tuple[int, dict[int, list[int]]] = (0, {})
    number = 0
    for step in steps:
        if isinstance(step, list):
            links = [link(seconds, number + n) for n, seconds in enumerate(step)]
            files.add(links, WALL + number)
            for n, seconds in enumerate(step):
                model.setdefault(seconds, []).append(number + n)
            number += len(step)
        elif step == "mark":
            marked = (files.log.end, {s: list(slot) for s, slot in model.items()})
        elif step == "clear":
            files.clear([WALL])
            model.pop(0, None)
            marked[1].pop(0, None)
        else:
            if step == "rewind":
                files.rewind(marked[0])
            else:
                files.close()
                files = opened(disk, marked[0])
            model = {s: list(slot) for s, slot in marked[1].items()}
        assert contents(files) == model


@settings(max_examples=examples(60))
@given(st.integers(0, 200), st.integers(0, 1 << 30))
def test_after_a_power_cut_it_is_as_vouched_for_or_damaged(at: int, seed: int) -> None:
    """Whatever of the later writes got through: the state at the last sync, or an error."""
    disk = SimDisk()
    files = opened(disk, 0)
    rng = Random(seed)
    kept: tuple[int, dict[int, list[int]]] = (0, {})
    number = 0
    disk.stop_at = disk.operations + at
    try:
        for _ in range(12):
            links = [link(rng.randrange(10), number + n) for n in range(rng.randint(1, 4))]
            files.add(links, WALL)
            number += len(links)
            if rng.randrange(3) == 0:
                end, now = files.log.end, contents(files)
                files.sync_point()()
                kept = (end, now)
    except PowerCut:
        pass
    try:
        again = opened(disk.crash(seed), kept[0])
        found = contents(again)
    except TimerDamaged:
        return
    assert found == kept[1]


def test_a_broken_chain_is_damage() -> None:
    disk = SimDisk()
    files = opened(disk, 0)
    files.add([link(5, n) for n in range(3)], WALL)
    path = f"{FOLDER}/{0:020d}"
    second = files.unit(52)
    disk.open(path).write(52, second._replace(previous=60).encode())  # points forward
    with pytest.raises(TimerDamaged, match="breaks at 52"):
        offsets(files, 5)
    disk.open(path).write(52, second._replace(previous=-1).encode())  # ends too early
    with pytest.raises(TimerDamaged):
        offsets(files, 5)
    with pytest.raises(TimerDamaged):
        opened(disk, 52)


def test_old_log_files_are_deleted_and_a_reset_forgets_all() -> None:
    disk = SimDisk()
    files = opened(disk, 0)
    for n in range(3):
        files.add([link(n, 4 * n + m) for m in range(4)], WALL + n * 1000)
    files.clean(WALL)
    assert len(disk.list(FOLDER)) == 3
    files.clean(WALL + 1500)
    assert len(disk.list(FOLDER)) == 1
    assert TimerFiles.exist(disk)
    end = files.log.end
    files.reset(end)
    assert (files.count(WALL + 2000), disk.exists(FILE), disk.list(FOLDER)) == (0, False, [])
    assert files.log.end > end
    assert not TimerFiles.exist(disk)
