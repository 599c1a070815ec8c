"""A disk that refuses every change after a kill."""

from collections.abc import Callable
from pathlib import Path

import pytest

from epochmq.base.errors import DiskFailed
from epochmq.testing.killable_disk import KillableDisk


def test_after_a_kill_nothing_changes_and_everything_can_be_read(tmp_path: Path) -> None:
    disk = KillableDisk(str(tmp_path))
    disk.write_file("table", b"old")
    file = disk.open("log", create_size=8)
    file.write(0, b"1234")
    lock = disk.lock("lock")
    disk.kill()
    changes: list[Callable[[], object]] = [
        lambda: file.write(4, b"5678"),
        lambda: file.truncate(2),
        lambda: file.allocate(0, 64),
        file.sync,
        lambda: disk.write_file("table", b"new"),
        lambda: disk.rename("table", "other"),
        lambda: disk.remove("table"),
        lambda: disk.make_dir("folder"),
        lambda: disk.open("log").write(0, b"x"),
    ]
    for change in changes:
        with pytest.raises(DiskFailed, match="killed by a test"):
            change()
    assert file.read(0, 8) == b"1234\0\0\0\0"
    assert disk.read_file("table") == b"old"
    assert sorted(disk.list("")) == ["lock", "log", "table"]
    file.close()
    lock.release()
    again = KillableDisk(str(tmp_path))
    again.lock("lock").release()
    again.write_file("table", b"new")
