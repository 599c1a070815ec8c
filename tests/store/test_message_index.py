"""The index over several files: order, hashes, crashes."""

from dataclasses import replace

from sim.kernel.disk import SimDisk
from tests.store.world import SMALL

from epochmq.store.message_index import FOLDER, Index

T0 = 1_700_000_000_000


def made(disk: SimDisk, items: int = 24, **load: object) -> Index:
    disk.make_dir(FOLDER)
    index = Index(disk, replace(SMALL, index_items=items))
    index.load(**{"clean": True, "synced_wall_ms": 0, **load})  # type: ignore[arg-type]
    return index


def fill(index: Index, count: int, start: int = 0) -> None:
    index.add([("T", (f"k{n}", "all"), n * 100, T0 + n * 1000) for n in range(start, count)])
    index.write_items()


def settle(index: Index) -> None:
    for step in index.sync_steps():
        step()
    index.sync_done(failed=False)


def test_finds_newest_first_across_files() -> None:
    index = made(SimDisk())
    fill(index, 50)
    assert len(index.files) == 5
    assert index.find("T", "all", 100, 0, 1 << 60) == [n * 100 for n in range(49, -1, -1)]
    assert index.find("T", "all", 3, 0, 1 << 60) == [4900, 4800, 4700]
    assert index.find("T", "k7", 9, 0, 1 << 60) == [700]
    assert index.find("U", "k7", 9, 0, 1 << 60) == []
    assert index.find("T", "all", 9, T0 + 10_000, T0 + 11_000) == [1100, 1000]
    assert (index.last_offset, index.last_update()) == (4900, (T0 + 49_000, 4900))
    assert [offset for offset, _hash in index.items()][:4] == [0, 0, 100, 100]


def test_written_and_read_again() -> None:
    disk = SimDisk()
    index = made(disk)
    fill(index, 30)
    settle(index)
    assert all(file._slots is None for file in index.files[:-1])
    assert index.find("T", "k3", 9, 0, 1 << 60) == [300]
    index.close()
    again = made(disk, clean=False, synced_wall_ms=T0 + 29_000)
    assert again.find("T", "all", 100, 0, 1 << 60) == [n * 100 for n in range(29, -1, -1)]
    fill(again, 40, 30)
    assert len(again.find("T", "all", 100, 0, 1 << 60)) == 40


def test_after_a_crash_unsynced_files_are_made_again() -> None:
    disk = SimDisk()
    index = made(disk)
    fill(index, 30)
    settle(index)
    again = Index(disk, replace(SMALL, index_items=24))
    assert again.load(clean=False, synced_wall_ms=T0 + 15_000) == 1100
    assert again.last_offset == 1100
    assert len(disk.list(FOLDER)) == 3, "the checkpoint still counts on them"
    again.remove_stale()
    assert len(disk.list(FOLDER)) == 1


def test_a_message_whose_keys_are_in_two_files_is_indexed_again() -> None:
    """The second of its keys was missing for ever if a crash came before the second file's sync."""
    disk = SimDisk()
    index = made(disk)
    fill(index, 12)
    assert [file.count for file in index.files] == [24, 2]
    index.sync_steps()[0]()
    again = Index(disk, replace(SMALL, index_items=24))
    assert again.load(clean=False, synced_wall_ms=1 << 60) == again.last_offset == 1100


def test_a_file_without_a_header_goes() -> None:
    disk = SimDisk()
    index = made(disk)
    fill(index, 3)
    disk.open(f"{FOLDER}/0", create_size=0)
    again = Index(disk, replace(SMALL, index_items=24))
    # Nothing is indexed any more, whatever the checkpoint says: all has to be indexed again.
    assert again.load(clean=False, synced_wall_ms=1 << 60) == 0
    again.remove_stale()
    assert (again.files, disk.list(FOLDER)) == ([], [])
    assert (again.last_offset, again.last_update()) == (-1, (0, 0))


def test_slots_beyond_the_header_lead_back() -> None:
    disk = SimDisk()
    index = made(disk)
    fill(index, 5)
    settle(index)
    fill(index, 9, 5)
    steps = index.sync_steps()
    steps[0]._header = steps[0]._header[:0]  # the crash comes before the header
    steps[0]()
    again = made(disk, clean=False, synced_wall_ms=1 << 60)
    assert again.last_offset == 400
    fill(again, 9, 5)
    assert again.find("T", "all", 100, 0, 1 << 60) == [n * 100 for n in range(8, -1, -1)]


def test_a_failed_sync_writes_everything_again() -> None:
    disk = SimDisk()
    index = made(disk)
    fill(index, 5)
    index.sync_steps()
    index.sync_done(failed=True)
    settle(index)
    assert made(disk).find("T", "k2", 9, 0, 1 << 60) == [200]


def test_cut_and_expire() -> None:
    disk = SimDisk()
    index = made(disk)
    fill(index, 50)
    assert index.cut(10_000) is None
    assert index.cut(1200) == 1100
    assert index.last_offset == 1100 or index.last_offset < 1200
    fill(index, 50, 12)
    index.expire(2000)
    assert index.files[0].last_offset >= 2000
    settle(index)


def test_nothing_to_add() -> None:
    index = made(SimDisk())
    index.add([("T", (), 0, 0)])
    assert (index.files, index.sync_steps()) == ([], [])


def test_a_broken_clock_does_not_stop_it() -> None:
    index = made(SimDisk())
    index.add([("T", ("a",), 0, 1 << 62), ("T", ("b",), 1, -5), ("T", ("c",), 2, T0)])
    assert index.find("T", "c", 9, 0, 1 << 63) in ([2], [])


def test_many_topics() -> None:
    index = made(SimDisk(), items=20_000)
    index.add([(f"T{n}", ("k",), n, T0) for n in range(5000)])
    assert index.find("T4999", "k", 9, 0, 1 << 60) == [4999]
