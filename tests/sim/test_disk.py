"""The simulated disk loses what a real one may lose, and nothing else."""

import pytest
from sim.kernel.disk import BLOCK, PowerCut, SimDisk

from epochmq.base.errors import DiskFailed, DiskFull, StoreInUse, SyncFailed, UsageError


def test_synced_bytes_survive_and_waiting_ones_may_not() -> None:
    disk = SimDisk()
    file = disk.open("d/f", create_size=4096)
    disk.sync_dir("")
    disk.sync_dir("d")
    file.write(0, b"a" * 1024)
    file.sync()
    file.write(1024, b"b" * 2048)
    seen = set()
    for seed in range(60):
        data = disk.crash(seed).contents()["d/f"]
        assert data[:1024] == b"a" * 1024
        lost = [data[at : at + 512] for at in range(1024, 3072, 512)]
        assert all(sector in (b"b" * 512, bytes(512)) for sector in lost)
        seen.add(data)
    assert len(seen) > 4
    assert disk.kill().contents()["d/f"][1024:3072] == b"b" * 2048


def test_entries_wait_for_their_directory() -> None:
    disk = SimDisk()
    disk.open("a/one", create_size=0).sync()
    outcomes = {"a/one" in disk.crash(seed).contents() for seed in range(40)}
    assert outcomes == {True, False}
    disk.sync_dir("")
    disk.sync_dir("a")
    disk.rename("a/one", "a/two")
    assert {tuple(disk.crash(seed).contents()) for seed in range(40)} == {("a/one",), ("a/two",)}
    disk.sync_dir("a")
    disk.remove("a")
    assert {tuple(disk.crash(seed).contents()) for seed in range(40)} == {("a/two",), ()}
    assert not disk.exists("a/two")


def test_write_file_is_atomic_and_durable() -> None:
    disk = SimDisk()
    disk.write_file("f", b"1")
    for stop in range(1, 30):
        trial = disk.kill()
        trial.stop_at = stop
        try:
            trial.write_file("f", b"22", backup=True)
        except PowerCut:
            for seed in range(4):
                assert trial.crash(seed).read_file("f") in (b"1", b"22")
            continue
        assert trial.crash(0).read_file("f") == b"22"
        assert trial.crash(0).read_file("f.bak") == b"1"
        break


def test_power_goes_at_the_asked_operation() -> None:
    disk = SimDisk()
    seen: list[str] = []
    disk.on_operation = lambda _number, what: seen.append(what)
    disk.stop_at = 3
    file = disk.open("f", create_size=100)
    with pytest.raises(PowerCut):
        file.write(0, b"x")
    assert seen == ["create f", "resize f", "write f 0+1"]
    for call in (lambda: file.read(0, 1), lambda: disk.exists("f"), lambda: disk.usage()):
        with pytest.raises(PowerCut):
            call()


def test_space_runs_out_block_by_block() -> None:
    disk = SimDisk(quota_bytes=2 * BLOCK)
    file = disk.open("f", create_size=10 * BLOCK)
    assert disk.usage() == (2 * BLOCK, 2 * BLOCK)
    with pytest.raises(DiskFull):
        file.write(0, b"x" * (3 * BLOCK))
    assert file.read(0, 3 * BLOCK) == b"x" * (2 * BLOCK) + bytes(BLOCK)
    file.write(10, b"y")
    with pytest.raises(DiskFull):
        file.allocate(0, 3 * BLOCK)
    disk.remove("f")
    assert disk.usage() == (2 * BLOCK, 2 * BLOCK)


def test_a_failed_sync_never_becomes_durable() -> None:
    disk = SimDisk()
    file = disk.open("f", create_size=10)
    file.sync()
    disk.sync_dir("")
    file.write(0, b"x")
    disk.sync_fails = lambda path: path == "f"
    with pytest.raises(SyncFailed):
        file.sync()
    disk.sync_fails = lambda path: path == ""
    file.sync()
    with pytest.raises(SyncFailed):
        disk.sync_dir("")
    assert file.read(0, 1) == b"x"
    assert disk.crash(0).contents()["f"] == bytes(10)


def test_files_behave() -> None:
    disk = SimDisk()
    file = disk.open("f", create_size=0)
    disk.wall_ms = 5
    file.write(3, b"abc")
    assert (file.size, file.read(0, 99), bytes(file.view())) == (6, b"\0\0\0abc", b"\0\0\0abc")
    assert (disk.size("f"), disk.modified_wall_ms("f"), file.path) == (6, 5, "f")
    assert file.data_ranges() == [(0, 6)]
    file.truncate(4)
    assert disk.read_file("f") == b"\0\0\0a"
    assert file.view().readonly
    file.close()
    with pytest.raises(DiskFailed):
        file.read(0, 1)
    with pytest.raises(DiskFailed):
        disk.open("none")
    with pytest.raises(DiskFailed):
        disk.size("none")
    with pytest.raises(UsageError):
        disk.open("../f")
    assert disk.read_file("none") is None
    assert disk.list("none") == []


def test_data_ranges_are_blocks() -> None:
    disk = SimDisk()
    file = disk.open("f", create_size=4 * BLOCK)
    file.write(2 * BLOCK + 7, b"x")
    assert file.data_ranges() == [(2 * BLOCK, 3 * BLOCK)]


def test_locks() -> None:
    disk = SimDisk()
    lock = disk.lock("lock")
    with pytest.raises(StoreInUse):
        disk.lock("lock")
    lock.release()
    disk.lock("lock").release()


def test_write_file_without_space_leaves_the_old() -> None:
    disk = SimDisk(quota_bytes=BLOCK)
    disk.write_file("f", b"1")
    with pytest.raises(DiskFull):
        disk.write_file("f", b"2")
    assert disk.contents() == {"f": b"1"}


def test_same_seed_same_loss() -> None:
    disk = SimDisk()
    file = disk.open("f", create_size=1 << 16)
    disk.sync_dir("")
    for at in range(0, 1 << 16, 700):
        file.write(at, bytes([at % 251 + 1]) * 700)
    assert disk.crash(7).contents() == disk.crash(7).contents()
    assert disk.is_dir("")
