"""One log file."""

import pytest
from sim.kernel.disk import SimDisk
from tests.store.world import SMALL

from epochmq.base.errors import SyncFailed
from epochmq.store.segment import Segment


def test_a_new_file_is_durable_at_once() -> None:
    disk = SimDisk()
    disk.make_dir("log")
    disk.sync_dir("")
    segment = Segment.create(disk, "log", 4096, 4096, reserve=True)
    segment.write(4100, b"x")
    assert bytes(segment.view[4:5]) == b"x"
    assert (segment.start, segment.end) == (4096, 8192)
    assert disk.crash(1).size("log/" + "4096".zfill(20)) == SMALL.commit_log_file_bytes
    view = segment.view
    segment.close()
    assert bytes(view[4:5]) == b"x"
    again = Segment.load(disk, "log", "4096".zfill(20), 4096)
    assert bytes(again.view[4:5]) == b"x"


def test_a_file_that_cannot_be_made_durable_is_removed() -> None:
    disk = SimDisk()
    disk.sync_fails = lambda path: path == "log"
    with pytest.raises(SyncFailed):
        Segment.create(disk, "log", 0, 4096, reserve=False)
    assert disk.list("log") == []
