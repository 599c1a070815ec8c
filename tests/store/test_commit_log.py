"""Files in a row: loading, rolling, cutting."""

from dataclasses import replace

import pytest
from sim.kernel.disk import SimDisk
from tests.store.world import SMALL

from epochmq.base.errors import DiskFull, StoreDamaged
from epochmq.store.commit_log import CommitLog

FIRST = "commitlog/" + "0" * 20


def made(disk: SimDisk, **changes: object) -> CommitLog:
    disk.make_dir("commitlog")
    log = CommitLog(disk, replace(SMALL, **changes))  # type: ignore[arg-type]
    log.load()
    return log


def test_grows_file_by_file() -> None:
    disk = SimDisk()
    log = made(disk)
    assert (log.start, log.end, log.active_end, log.find(0)) == (0, 0, 0, None)
    log.roll()
    log.write(b"a" * 1000)
    log.roll()
    log.write(b"b")
    assert (log.end, log.active_end, len(log.segments)) == (4097, 8192, 2)
    assert bytes(log.slice(1000, 8) or b"") == (3096).to_bytes(4) + b"\xcb\xd4\x31\x94"
    assert log.slice(4090, 10) is None
    assert log.slice(9000, 1) is None
    assert [s.start for s in log.between(0, 4096)] == [0]
    assert [s.start for s in log.between(4000, 4097)] == [0, 4096]
    log.close()
    again = made(disk)
    assert (again.end, again.active_end) == (8192, 8192)
    again.cut_files(4000)
    assert (again.end, again.active_end, disk.list("commitlog")) == (4000, 4096, ["0" * 20])


def test_a_file_made_ahead() -> None:
    disk = SimDisk()
    log = made(disk)
    log.roll()
    assert log.make_ready()
    assert not log.make_ready()
    assert len(disk.list("commitlog")) == 2
    log.drop_ready()
    log.drop_ready()
    assert len(disk.list("commitlog")) == 1
    log.make_ready()
    log.close()
    assert made(disk).end == 8192  # accepted; recovery lowers the end


def test_what_is_no_log_file() -> None:
    disk = SimDisk()
    disk.make_dir("commitlog/sub")
    made(disk)
    disk.open("commitlog/x", create_size=4096)
    with pytest.raises(StoreDamaged, match="20 digits"):
        made(disk)
    disk.remove("commitlog/x")
    disk.open("commitlog/" + "5".zfill(20), create_size=4096)
    with pytest.raises(StoreDamaged, match="multiple of 4096"):
        made(disk)
    disk.remove("commitlog/" + "5".zfill(20))
    disk.open(FIRST, create_size=4096)
    disk.open("commitlog/" + "4096".zfill(20), create_size=0)
    assert len(made(disk).segments) == 1
    disk.open(FIRST).truncate(4095)
    with pytest.raises(StoreDamaged, match="4095 bytes"):
        made(disk)


def test_a_gap_between_files() -> None:
    disk = SimDisk()
    for start in (0, 8192):
        disk.open(f"commitlog/{start:020d}", create_size=4096)
    with pytest.raises(StoreDamaged, match="4096 is missing"):
        made(disk)


def test_no_space_for_a_file_leaves_nothing() -> None:
    disk = SimDisk(quota_bytes=0)
    log = made(disk)
    with pytest.raises(DiskFull):
        log.roll()
    assert (log.segments, log.ready, disk.list("commitlog")) == ([], None, [])


def test_refused_bytes_are_wiped() -> None:
    disk = SimDisk(quota_bytes=4096)
    log = made(disk, preallocate=False, commit_log_file_bytes=16384)
    log.roll()
    log.write(b"a" * 100)
    with pytest.raises(DiskFull):
        log.write(b"b" * 8000)
    assert log.end == 100
    assert disk.crash(0).contents()[FIRST][100:] == bytes(16284)


def test_transient_bytes_wait() -> None:
    disk = SimDisk()
    log = made(disk, transient_pool=True)
    log.roll()
    log.write(b"abc")
    assert (log.end, log.committed, disk.read_file(FIRST)) == (3, 0, bytes(4096))
    log.commit()
    log.commit()
    assert (log.committed, (disk.read_file(FIRST) or b"")[:3]) == (3, b"abc")
    log.write(b"d")
    log.roll()
    assert (log.committed, (disk.read_file(FIRST) or b"")[3:4]) == (4096, b"d")
