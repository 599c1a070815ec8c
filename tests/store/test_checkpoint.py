"""The checkpoint file's bytes, and that it claims nothing new after a clock went back."""

import pytest
from sim.kernel.disk import SimDisk

from epochmq.base.errors import StoreDamaged
from epochmq.store.checkpoint import Checkpoint, WriterMark, stored_confirm, stored_mark


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


def marked() -> tuple[SimDisk, Checkpoint]:
    disk = SimDisk()
    checkpoint = Checkpoint(disk)
    checkpoint.load()
    checkpoint.log_wall_ms, checkpoint.queues_wall_ms, checkpoint.index_wall_ms = 7000, 6000, 5000
    checkpoint.master_flushed_offset, checkpoint.confirmed = 400, 300
    checkpoint.mark = WriterMark(clean=True, start=100, end=900, boot="a boot")
    checkpoint.write()
    checkpoint.sync()
    return disk, checkpoint


def fields(checkpoint: Checkpoint) -> tuple[int, ...]:
    walls = (checkpoint.log_wall_ms, checkpoint.queues_wall_ms, checkpoint.index_wall_ms)
    return *walls, checkpoint.master_flushed_offset, checkpoint.confirmed


def test_any_flipped_bit_is_mended() -> None:
    """One of confirmPhyOffset would show what was not confirmed."""
    disk, before = marked()
    for bit in range(1200 * 8):
        inode = disk.inode_at("checkpoint")
        assert inode is not None
        inode.data[bit >> 3] ^= 1 << (bit & 7)
        checkpoint = Checkpoint(disk)
        checkpoint.load()
        assert (checkpoint.mark, checkpoint.foreign) == (before.mark, False), bit
        assert fields(checkpoint) == fields(before), bit
        assert (stored_mark(disk), stored_confirm(disk)) == (before.mark, 300), bit
        inode.data[bit >> 3] ^= 1 << (bit & 7)


def test_what_another_program_wrote_counts_without_the_mark() -> None:
    """RocketMQ and older versions write the five fields alone."""
    disk, before = marked()
    disk.open("checkpoint").write(0, (9_123_456).to_bytes(8, "big"))
    checkpoint = Checkpoint(disk)
    checkpoint.load()
    assert (checkpoint.mark, checkpoint.foreign) == (None, True)
    assert fields(checkpoint) == (9_123_456, *fields(before)[1:])


def test_a_cut_lowers_what_the_mark_claims() -> None:
    _disk, checkpoint = marked()
    checkpoint.lower_end(1000)
    assert checkpoint.mark == WriterMark(clean=True, start=100, end=900, boot="a boot")
    checkpoint.lower_end(500)
    assert checkpoint.mark == WriterMark(clean=False, start=100, end=500, boot="a boot")


def test_a_log_that_is_cut_claims_nothing_of_the_index() -> None:
    """The cut deletes index files, which may have begun long before it."""
    checkpoint = Checkpoint(SimDisk())
    checkpoint.load()
    checkpoint.index_wall_ms = 5_000
    checkpoint.lower_end(100)
    assert checkpoint.index_wall_ms == 0
