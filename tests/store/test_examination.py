"""A second look at a block of a store: what is not sound is reported, also without a checksum."""

import pytest
from tests.store.test_scrub import OPTIONS, flip, replicas

from epochmq.model.log_blocks import digest
from epochmq.store.store import Store
from epochmq.store.written_blocks import BLOCK_BYTES


def look(store: Store, start: int) -> tuple[str, str]:
    """(digest, reason) of the block at `start`."""
    end = min(store.checksums.block_at(start).stop, store.pointers.confirmed)
    examination = store.scrub.examination(start, end)
    assert examination is not None
    examination.run()
    reason = examination.conclude()
    return examination.digest, reason


@pytest.mark.parametrize("checksums", [True, False])
def test_a_store_is_looked_at_block_by_block(checksums: bool) -> None:
    master, follower = replicas(checksums=checksums)
    assert OPTIONS.commit_log_file_bytes == 3 * BLOCK_BYTES
    end = master.pointers.confirmed
    for start in range(0, end, BLOCK_BYTES):
        size = min(BLOCK_BYTES, end - start)
        assert look(master, start) == (digest([follower.slice(start, size)]), "")
    assert master.damage.found == 0
    ((at, size, _),) = follower.units("T0", 0, 2, 1)
    flip(master, at + 91)
    reason = look(master, 0)[1]
    (damaged,) = master.damage.ranges
    if checksums:
        assert "checksum" in reason
        assert (damaged.start, damaged.end) == (0, BLOCK_BYTES)
    else:
        assert reason == "body checksum is wrong"
        assert (damaged.start, damaged.end) == (at, at + size)


def test_a_cut_makes_a_look_void() -> None:
    master, _ = replicas(checksums=False)
    flip(master, 4)
    examination = master.scrub.examination(0, BLOCK_BYTES)
    assert examination is not None
    examination.run()
    master.checksums.invalidate(master.pointers.appended)
    assert "cut" in examination.conclude()
    assert master.damage.found == 0
    for start, end in ((0, 0), (0, BLOCK_BYTES + 1), (1 << 40, (1 << 40) + 1), (9, 2)):
        assert master.scrub.examination(start, end) is None


def test_what_cannot_be_read_is_not_sound() -> None:
    master, _ = replicas()
    examination = master.scrub.examination(0, BLOCK_BYTES)
    assert examination is not None
    master._log.find(0).file.close()  # type: ignore[union-attr]
    examination.run()
    assert examination.conclude()
