"""Cutting the log: later files, zeros, the bytes kept aside."""

from dataclasses import replace

from sim.kernel.disk import SimDisk
from tests.store.world import SMALL

from epochmq.store.commit_log import CommitLog
from epochmq.store.log_end import end_log, kept_bytes


def filled(quota: int = 1 << 30) -> tuple[SimDisk, CommitLog]:
    disk = SimDisk(quota)
    disk.make_dir("commitlog")
    log = CommitLog(disk, replace(SMALL, preallocate=False))
    for letter in b"abc":
        log.roll()
        log.write(bytes([letter]) * 3000)
    log.close()
    again = CommitLog(disk, replace(SMALL, preallocate=False))
    again.load()
    return disk, again


def test_cut_in_the_middle() -> None:
    disk, log = filled()
    cut = end_log(disk, log, 5000)
    assert (cut.offset, cut.size) == (5000, 8192 - 5000 - (8192 - 7096) + 8 + 3000)
    assert (log.end, log.active_end, len(log.segments)) == (5000, 8192, 2)
    after = disk.crash(0).contents()
    assert after["commitlog/" + "4096".zfill(20)] == b"b" * 904 + bytes(4096 - 904)
    assert disk.list("cut") == ["0-5000.log", "0-8192.log"]
    assert (disk.read_file("cut/0-8192.log") or b"") == b"c" * 3000
    assert kept_bytes(disk) == cut.size


def test_nothing_behind_the_end() -> None:
    disk, log = filled()
    cut = end_log(disk, log, 8192 + 3000)
    assert (cut.size, disk.exists("cut"), log.end) == (0, False, 11192)


def test_at_a_files_start_that_file_stays() -> None:
    disk, log = filled()
    end_log(disk, log, 8192)
    assert (log.end, log.active_end) == (8192, 12288)
    assert bytes(log.segments[-1].view) == bytes(4096)


def test_no_space_to_keep_them() -> None:
    disk, log = filled()
    disk.quota_bytes = 0
    cut = end_log(disk, log, 10_000)
    assert (cut.offset, cut.size) == (10_000, 1192)
    assert log.end == 10_000
