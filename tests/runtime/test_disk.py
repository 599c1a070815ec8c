"""The real disk on a real directory."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from epochmq.base.errors import (
    DiskFailed,
    DiskFull,
    OutOfResources,
    StoreInUse,
    SyncFailed,
    UsageError,
)
from epochmq.runtime import disk as module
from epochmq.runtime.descriptors import open_count
from epochmq.runtime.disk import RealDisk


@pytest.fixture
def disk(tmp_path: Path) -> RealDisk:
    return RealDisk(str(tmp_path / "root"))


def test_a_file_is_written_read_and_viewed(disk: RealDisk) -> None:
    file = disk.open("a/b/f", create_size=8192)
    view = file.view()
    file.write(10, b"hello")
    file.write(100, memoryview(b"x" * 5))
    assert bytes(view[10:15]) == b"hello"
    assert (file.size, file.read(10, 5), file.read(8190, 99)) == (8192, b"hello", b"\0\0")
    assert view.readonly
    file.sync()
    disk.sync_dir("a/b")
    assert file.path.endswith("/a/b/f")
    file.close()
    file.close()
    assert bytes(view[10:15]) == b"hello"  # a reader's view outlives the file
    again = disk.open("a/b/f")
    assert again.read(10, 5) == b"hello"
    again.close()


def test_creating_keeps_what_is_there(disk: RealDisk) -> None:
    disk.open("f", create_size=4).write(0, b"abcd")
    assert disk.open("f", create_size=6).read(0, 9) == b"abcd\0\0"


def test_growing_cutting_and_reserving(disk: RealDisk) -> None:
    file = disk.open("f", create_size=0)
    assert bytes(file.view()) == b""
    file.write(0, b"abc")
    assert (file.size, bytes(file.view())) == (3, b"abc")
    file.truncate(2)
    assert (file.size, bytes(file.view())) == (2, b"ab")
    file.allocate(0, 4096)
    assert (file.size, file.read(0, 2)) == (4096, b"ab")


def test_data_ranges_leave_holes_out(disk: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk.open("f", create_size=1 << 20)
    file.write(600_000, b"x")
    ranges = file.data_ranges()
    assert sum(start <= 600_000 < stop for start, stop in ranges) == 1
    assert disk.open("empty", create_size=0).data_ranges() == []

    def cannot_tell(*_: object) -> int:
        raise OSError(errno.EINVAL, "")

    monkeypatch.setattr(module.os, "lseek", cannot_tell)
    assert file.data_ranges() == [(0, 1 << 20)]


def test_small_files_are_replaced_whole(disk: RealDisk) -> None:
    assert disk.read_file("c/f") is None
    disk.write_file("c/f", b"one", backup=True)
    disk.write_file("c/f", b"two", backup=True)
    assert (disk.read_file("c/f"), disk.read_file("c/f.bak")) == (b"two", b"one")
    assert disk.list("c") == ["f", "f.bak"]


def test_a_new_folder_is_on_the_device_with_its_first_file(
    disk: RealDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut takes it away, and the file in it, synced as that is (INV-31)."""
    disk.write_file("first", b"1")
    synced: list[str] = []
    real = RealDisk._sync_dir

    def watched(full: str) -> None:
        synced.append(os.path.basename(full))
        real(full)

    monkeypatch.setattr(RealDisk, "_sync_dir", staticmethod(watched))
    disk.write_file("a/b/f", b"2")
    assert synced == ["root", "a", "b"]
    disk.write_file("a/b/f", b"3")
    assert synced == ["root", "a", "b", "b"]


def test_the_tree(disk: RealDisk) -> None:
    disk.make_dir("x/y")
    disk.write_file("x/y/f", b"1")
    assert disk.is_dir("x/y")
    assert not disk.is_dir("x/y/f")
    assert (disk.list("x"), disk.list("none"), disk.list("x/y/f")) == (["y"], [], [])
    assert disk.size("x/y/f") == 1
    assert disk.modified_wall_ms("x/y/f") > 1_600_000_000_000
    disk.rename("x/y/f", "x/y/g")
    assert disk.exists("x/y/g")
    disk.remove("x/y/g")
    disk.remove("x")
    disk.remove("x")
    assert not disk.exists("x")
    total, free = disk.usage()
    assert 0 < free <= total


@pytest.mark.parametrize("path", ["../f", "a/../../f", "/etc/passwd"])
def test_paths_stay_inside(disk: RealDisk, path: str) -> None:
    with pytest.raises(UsageError, match="leads out"):
        disk.open(path, create_size=1)


def test_errors_name_file_and_reason(disk: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DiskFailed, match="none: No such file"):
        disk.open("none")
    with pytest.raises(DiskFailed, match="cannot look at"):
        disk.size("none")
    with pytest.raises(DiskFailed, match="cannot rename"):
        disk.rename("none", "other")
    with pytest.raises(SyncFailed, match="cannot sync directory"):
        disk.sync_dir("none")
    file = disk.open("f", create_size=10)

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module.os, "pwrite", fail)
    with pytest.raises(DiskFull, match="No space"):
        file.write(0, b"x")
    monkeypatch.setattr(module.os, "fdatasync", fail)
    with pytest.raises(SyncFailed, match="cannot sync"):
        file.sync()
    monkeypatch.setattr(module.os, "fsync", fail)
    with pytest.raises(SyncFailed):
        disk.write_file("g", b"1")
    monkeypatch.setattr(module.os, "posix_fallocate", fail)
    with pytest.raises(DiskFull):
        file.allocate(0, 10)


def test_short_writes_are_finished(disk: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk.open("f", create_size=0)
    real = os.pwrite
    monkeypatch.setattr(module.os, "pwrite", lambda fd, data, at: real(fd, bytes(data)[:3], at))
    file.write(0, b"0123456789")
    assert file.read(0, 99) == b"0123456789"
    monkeypatch.setattr(module.os, "pwrite", lambda _fd, _data, _at: 0)
    with pytest.raises(DiskFull):
        file.write(0, b"x")


def test_short_reads_are_finished(disk: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk.open("f", create_size=0)
    file.write(0, b"0123456789")
    real = os.pread
    monkeypatch.setattr(module.os, "pread", lambda fd, size, at: real(fd, min(size, 3), at))
    assert file.read(0, 99) == b"0123456789"


def test_a_root_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(DiskFailed, match="cannot make directory"):
        RealDisk(str(tmp_path / "f" / "root"))


def test_one_holder_in_this_process(disk: RealDisk) -> None:
    lock = disk.lock("lock")
    with pytest.raises(StoreInUse, match="in use"):
        disk.lock("lock")
    lock.release()
    lock.release()
    disk.lock("lock").release()


HOLDER = """
import sys
from epochmq.runtime.disk import RealDisk
lock = RealDisk(sys.argv[1]).lock("lock")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.process
def test_one_holder_between_processes(disk: RealDisk) -> None:
    command = [sys.executable, "-c", HOLDER, disk.root]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(StoreInUse, match="another process"):
            disk.lock("lock")
        child.kill()
    disk.lock("lock").release()


def test_a_part_of_the_tree_may_lie_elsewhere(tmp_path: Path) -> None:
    disk = RealDisk(str(tmp_path / "root"), elsewhere={"log": str(tmp_path / "other")})
    disk.write_file("log/a/b", b"there")
    disk.write_file("logs", b"here")
    assert (tmp_path / "other" / "a" / "b").read_bytes() == b"there"
    assert (tmp_path / "root" / "logs").read_bytes() == b"here"
    assert disk.list("log") == ["a"]
    total, free = disk.usage()
    assert 0 <= free <= total
    with pytest.raises(UsageError):
        disk.read_file("log/../../x")


_SHORT = [errno.EMFILE, errno.ENFILE, errno.ENOMEM]


@pytest.mark.parametrize("number", _SHORT)
def test_want_of_descriptors_or_memory_is_no_failure_of_the_disk(
    disk: RealDisk, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.open("folder/f", create_size=10)
    mapped = disk.open("folder/f")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    for name in ("open", "listdir", "pwrite", "pread"):
        monkeypatch.setattr(module.os, name, refuse)
    monkeypatch.setattr(module.mmap, "mmap", refuse)
    calls: list[Callable[[], object]] = [
        lambda: disk.open("folder/f"),
        lambda: disk.open("new/g", create_size=10),
        lambda: disk.list("folder"),
        lambda: disk.write_file("h", b"x"),
        lambda: disk.sync_dir("folder"),
        lambda: disk.lock("lock"),
        lambda: mapped.write(0, b"x"),
        lambda: mapped.read(0, 1),
        mapped.view,
    ]
    for call in calls:
        with pytest.raises(OutOfResources):
            call()
    monkeypatch.undo()
    assert disk.list("folder") == ["f"]


def test_a_file_that_cannot_be_made_leaves_no_descriptor_behind(
    disk: RealDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOMEM, "no memory")

    before = open_count()
    monkeypatch.setattr(module.os, "ftruncate", refuse)
    with pytest.raises(OutOfResources):
        disk.open("f", create_size=10)
    assert open_count() == before


def test_what_is_not_in_memory_is_known_and_can_be_brought_there(disk: RealDisk) -> None:
    size = 1 << 20
    file = disk.open("f", create_size=size)
    file.write(0, os.urandom(size))
    file.sync()
    assert file.is_in_memory(0, size)
    os.posix_fadvise(file.fileno(), 0, size, os.POSIX_FADV_DONTNEED)
    if file.is_in_memory(0, size):
        pytest.skip("this file system keeps files in memory (tmpfs)")
    assert file.is_in_memory(size, 10)  # nothing to wait for
    thread = Thread(target=file.prefetcher([(0, 5_000), (300_000, size)]))
    thread.start()
    thread.join(30)
    assert file.is_in_memory(0, 5_000)
    assert file.is_in_memory(300_001, size)
    call = file.prefetcher([(0, size), (size + 5, size + 9)])
    file.close()
    before = open_count()
    call()
    disk.remove("f")
    call()
    assert open_count() == before
