"""An index file's bytes are upstream's."""

import pytest
from sim.kernel.disk import SimDisk

from epochmq.base.errors import StoreDamaged
from epochmq.model.tags import java_hash
from epochmq.store.index_file import HEADER, ITEM, IndexFile, file_bytes, file_name

T0 = 1_700_000_000_000


def test_sizes_and_names() -> None:
    assert file_bytes(5_000_000, 20_000_000) == 420_000_040
    assert len(file_name(T0)) == 17
    assert file_name(T0 + 7)[-3:] == "007"
    assert file_name(1 << 62)[:4] == "9998"
    assert file_name(-1)[:2] in ("19", "20")


def test_layout() -> None:
    disk = SimDisk()
    file = IndexFile(disk, "f", 4, 8, create=True)
    key = java_hash("T#k") & 0x7FFFFFFF
    file.put([key], [(1000, T0)])
    file.put([key + 4], [(2000, T0 + 2500)])
    file.put([3], [(3000, T0 - 99_000)])
    file.put([3], [(4000, T0 + (1 << 45))])
    file.write_items()
    file.sync_steps()()
    data = disk.read_file("f") or b""
    assert HEADER.unpack_from(data) == (T0, T0 + (1 << 45), 1000, 4000, 2, 5)
    slots = [int.from_bytes(data[40 + 4 * n : 44 + 4 * n]) for n in range(4)]
    assert (slots[key % 4], slots[3]) == (2, 4) if key % 4 != 3 else True
    items = [ITEM.unpack_from(data, 40 + 16 + 20 * n) for n in range(5)]
    assert items[0] == (0, 0, 0, 0)
    assert items[1] == (key, 1000, 0, 0)
    assert items[2] == (key + 4, 2000, 2, 1)
    assert items[3][2] == 0
    assert items[4][2:] == (0x7FFFFFFF, 3)
    file.close()


def test_wrong_sizes_and_counts() -> None:
    disk = SimDisk()
    disk.open("f", create_size=99)
    with pytest.raises(StoreDamaged, match="maxHashSlotNum"):
        IndexFile(disk, "f", 4, 8, create=False)
    made = disk.open("g", create_size=file_bytes(4, 8))
    made.write(36, b"\x7f\xff\xff\xff")
    assert IndexFile(disk, "g", 4, 8, create=False).count == 1


def found(file: IndexFile, key_hash: int) -> list[int]:
    """Log offsets of all items with this hash, newest first."""
    return [offset for offset in file.walk(key_hash, 0, 1 << 60) if offset >= 0]


def test_a_chain_that_bites_its_tail_ends() -> None:
    disk = SimDisk()
    file = IndexFile(disk, "f", 1, 8, create=True)
    for offset in range(3):
        file.put([7], [(offset, T0)])
    file.write_items()
    file.sync_steps()()
    file.close()
    raw = disk.open("f")
    raw.write(44 + 20 * 1 + 16, (3).to_bytes(4))  # the oldest item leads to the newest
    again = IndexFile(disk, "f", 1, 8, create=False)
    assert found(again, 7) == [2, 1, 0]
    raw.write(40, (99).to_bytes(4))
    raw.write(44 + 20 * 3 + 16, (3).to_bytes(4))
    again = IndexFile(disk, "f", 1, 8, create=False)
    again.repair_slots()
    assert found(again, 7) == []


def test_a_sync_writes_the_slots_of_when_it_was_asked_for() -> None:
    """The step runs beside the loop, which goes on putting keys."""
    disk = SimDisk()
    file = IndexFile(disk, "f", 4, 8, create=True)
    file.put([1], [(1000, T0)])
    step = file.sync_steps()
    file.put([1], [(2000, T0)])
    step()
    data = disk.read_file("f") or b""
    assert HEADER.unpack_from(data)[5] == 2
    assert int.from_bytes(data[44:48]) == 1
    assert found(file, 1) == [2000, 1000]
    file.sync_steps()()
    data = disk.read_file("f") or b""
    assert int.from_bytes(data[44:48]) == 2
    file.close()
