"""Checksums of the pages of an index file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim.kernel.disk import SimDisk

from epochmq.store.index_checksums import (
    FOLDER,
    PAGE,
    IndexDamaged,
    PageChecksums,
    checksums_path,
)

PATH = f"{FOLDER}/f"


def written(size: int) -> tuple[SimDisk, bytes]:
    disk = SimDisk()
    data = bytes(n * 7 % 251 for n in range(size))
    disk.open("f", create_size=size).write(0, data)
    PageChecksums.of(disk.open("f"), size).write(disk, PATH)
    return disk, data


def known(disk: SimDisk) -> PageChecksums:
    found = PageChecksums.read(disk, PATH)
    assert found is not None
    return found


@given(
    st.integers(1, 3 * PAGE), st.integers(0, 3 * PAGE), st.integers(0, 3 * PAGE), st.integers(0, 7)
)
def test_each_flipped_bit_is_seen_where_it_is(size: int, at: int, start: int, bit: int) -> None:
    disk, data = written(size)
    at, start = at % size, start % size
    known(disk).check(disk.open("f"), 0, size)
    disk.open("f").write(at, bytes([data[at] ^ 1 << bit]))
    sums = known(disk)
    if start // PAGE == at // PAGE:
        for _ in range(2):
            with pytest.raises(IndexDamaged, match="f is damaged between byte"):
                sums.check(disk.open("f"), start, start + 1)
    else:
        sums.check(disk.open("f"), start, start + 1)


def test_bytes_behind_the_end_are_not_checked() -> None:
    disk, _ = written(100)
    sums = known(disk)
    disk.open("f").write(100, b"more")
    sums.check(disk.open("f"), 90, 104)
    sums.check(disk.open("f"), 5 * PAGE, 6 * PAGE)


def test_damaged_checksums_count_as_none() -> None:
    disk, _ = written(PAGE + 1)
    kept = disk.read_file(PATH)
    assert kept is not None
    flipped = [
        kept[:at] + bytes([kept[at] ^ 1 << bit]) + kept[at + 1 :]
        for at in range(len(kept))
        for bit in range(8)
    ]
    for data in [b"", kept[:-1], kept + b"\0", *flipped]:
        disk.write_file(PATH, data)
        assert PageChecksums.read(disk, PATH) is None
    disk.remove(PATH)
    assert PageChecksums.read(disk, PATH) is None


def test_where_they_are() -> None:
    assert checksums_path("index/20231114221320000") == "indexChecksums/20231114221320000"
