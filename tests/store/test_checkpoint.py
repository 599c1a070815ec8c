"""The checkpoint file's bytes, and that it claims nothing new after a clock went back."""

import pytest
from sim.disk import SimDisk

from epochmq.base.errors import StoreDamaged
from epochmq.store.checkpoint import Checkpoint


def test_bytes_are_upstreams_and_the_rest_is_kept() -> None:
    disk = SimDisk()
    disk.open("checkpoint", create_size=4096).write(40, b"theirs")
    checkpoint = Checkpoint(disk)
    checkpoint.load()
    checkpoint.log_wall_ms, checkpoint.queues_wall_ms = 0x0102, 0x0304
    checkpoint.index_wall_ms, checkpoint.master_flushed_offset = 0x0506, 0x0708
    checkpoint.confirmed = 0x090A
    checkpoint.write()
    checkpoint.sync()
    checkpoint.close()
    data = disk.read_file("checkpoint") or b""
    assert len(data) == 4096
    assert data[:40] == b"".join(bytes((0, 0, 0, 0, 0, 0, 2 * i + 1, 2 * i + 2)) for i in range(5))
    assert data[40:46] == b"theirs"


def test_safe_time_is_the_older_one_less_three_seconds() -> None:
    disk = SimDisk()
    first = Checkpoint(disk)
    first.load()
    assert first.safe_wall_ms() == 0
    first.log_wall_ms, first.queues_wall_ms = 10_000, 9_000
    first.write()
    again = Checkpoint(disk)
    again.load()
    assert again.safe_wall_ms() == 6_000


def test_unchanged_fields_are_not_written() -> None:
    disk = SimDisk()
    checkpoint = Checkpoint(disk)
    checkpoint.load()
    before = disk.operations
    checkpoint.write()
    assert disk.operations == before


def test_clock_back_lowers_every_claim() -> None:
    checkpoint = Checkpoint(SimDisk())
    checkpoint.log_wall_ms = checkpoint.queues_wall_ms = checkpoint.index_wall_ms = 9_000
    checkpoint.clock_back(5_000)
    assert checkpoint.safe_wall_ms() == 2_000
    assert checkpoint.index_wall_ms == 5_000
    checkpoint.write()  # before load there is no file to write to
    checkpoint.sync()


def test_a_crash_while_it_was_made_counts_as_absent() -> None:
    disk = SimDisk()
    disk.open("checkpoint", create_size=0)
    checkpoint = Checkpoint(disk)
    checkpoint.load()
    assert checkpoint.confirmed == 0


def test_a_short_file_is_refused() -> None:
    disk = SimDisk()
    disk.open("checkpoint", create_size=10)
    with pytest.raises(StoreDamaged, match="10 bytes"):
        Checkpoint(disk).load()
