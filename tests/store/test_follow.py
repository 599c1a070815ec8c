"""Raw bytes: windows that stay in one file, what is checked, what is believed of clocks."""

from random import Random

import pytest
from sim.kernel.disk import BLOCK, SimDisk
from tests.store.replicas import REPLICATED, WALL, fill, log_bytes, opened, ship
from tests.store.world import draft

from epochmq.base.errors import DiskFull, OurBug, PeerError
from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.model.record import BLANK, MAGIC_BLANK
from epochmq.store.chores import run_steps

SIZE = REPLICATED.commit_log_file_bytes


def test_a_window_ends_where_the_file_does() -> None:
    master, follower = opened(), opened()
    fill(master, 12)
    assert len(follower.raw_space(100)) == 100
    assert len(follower.raw_space(10_000)) == SIZE
    ship(master, follower, upto=SIZE - 3, chunk=4000)
    assert len(follower.raw_space(100)) == 3
    window = follower.raw_space(100)
    window[:] = master.slice(SIZE - 3, 3)
    follower.raw_written(3)
    assert follower.whole_end == SIZE  # the blank at its end is part of the log
    assert len(follower.raw_space(100)) == 100
    assert follower.file_bytes == SIZE


def test_whole_records_only_are_acknowledged() -> None:
    master, follower = opened(), opened()
    placed = fill(master, 4)
    follower.append_raw(0, bytes(master.slice(0, placed[2].offset + 80)))
    assert follower.whole_end == placed[2].offset
    follower.limit_confirm(1 << 40)
    assert follower.pointers.confirmed == placed[2].offset
    assert follower.pointers.appended == placed[2].offset + 80


@pytest.mark.parametrize(
    "tail",
    [
        BLANK.pack(17, MAGIC_BLANK),
        BLANK.pack(90, 0xDAA320A7),
        BLANK.pack(SIZE, 0xDAA320A7),
        bytes(8),
    ],
)
def test_a_head_that_can_become_nothing_is_refused(tail: bytes) -> None:
    master, follower = opened(), opened()
    fill(master, 2)
    ship(master, follower)
    end = follower.whole_end
    with pytest.raises(PeerError):
        follower.append_raw(end, tail)
    with pytest.raises(OurBug, match="damaged bytes are cut before more bytes come"):
        follower.raw_space(1)
    run_steps(follower.cutting_tail("damaged"))
    assert follower.pointers.appended == end


def test_without_the_safeguard_damage_spreads() -> None:
    """S11: what the simulator must find when the check is off."""
    master = opened()
    placed = fill(master, 3)
    data = bytearray(log_bytes(master))
    data[placed[1].offset + 89] ^= 1
    follower = opened(safeguards=Safeguards(crc_on_scan=False))
    follower.append_raw(0, bytes(data))
    assert follower.whole_end == len(data)
    assert SAFE.crc_on_scan


def test_a_full_disk_is_told_and_heals() -> None:
    master, disk = opened(), SimDisk(quota_bytes=40 * BLOCK)
    fill(master, 40)
    follower = opened(disk)
    ship(master, follower, upto=SIZE)
    disk.quota_bytes = 0
    with pytest.raises(DiskFull):
        ship(master, follower)
    assert follower.disk_full
    assert follower.fenced is None
    disk.quota_bytes = 1 << 30
    ship(master, follower)
    assert log_bytes(follower) == log_bytes(master)


def test_a_master_whose_clock_is_behind_lowers_the_claims_first() -> None:
    """Else a recovery would believe that these records are on the device."""
    master, disk = opened(), SimDisk()
    fill(master, 3)
    follower = opened(disk)
    ship(master, follower)
    for now in range(0, 1000, 100):
        follower.tick(now, WALL)
        follower.chores.run_all()
    assert follower._checkpoint.queues_wall_ms >= WALL
    before = disk.operations
    seen: list[str] = []
    disk.on_operation = lambda _number, what: seen.append(what)
    (placed,) = master.append([draft(77, Random(1))], WALL - 60_000)
    ship(master, follower, chunk=5000)
    assert placed is not None
    assert follower._checkpoint.safe_wall_ms() < WALL - 60_000
    assert [what.split()[0:2] for what in seen[:4]] == [
        ["write", "checkpoint"],
        ["write", "checkpoint"],  # the second copy of the mark
        ["sync", "checkpoint"],
        ["write", "commitlog/" + "0" * 20],
    ]
    assert disk.operations > before


def test_a_topic_created_again_starts_its_queue_again() -> None:
    master, follower = opened(), opened()
    fill(master, 9, topics=("T0",) * 3)
    ship(master, follower)
    follower.limit_confirm(master.pointers.appended)
    master.delete_topic("T0")
    fill(master, 9, seed=2, topics=("T0",) * 3)
    master.limit_confirm(None)
    ship(master, follower)
    follower.limit_confirm(1 << 40)
    assert follower.verify().problems == []
    for queue_id in (0, 1):
        assert follower.queue_bounds("T0", queue_id) == master.queue_bounds("T0", queue_id)


def test_a_clean_stop_leaves_no_part_of_a_record() -> None:
    master, disk = opened(), SimDisk()
    placed = fill(master, 3)
    follower = opened(disk)
    ship(master, follower, upto=placed[2].offset + 60)
    follower.close(WALL)
    again = opened(disk)
    assert again.clean_start
    assert (again.pointers.appended, again.recovered.cut.size) == (placed[2].offset, 0)
