"""Checksums beside the log: every bit counts, cuts take them back, what is missing is no error."""

from dataclasses import replace
from random import Random

import pytest
from sim.kernel.disk import SimDisk
from tests.store.world import HOST, SMALL, World, draft

from epochmq.base.errors import DiskFull
from epochmq.base.ports import File
from epochmq.model.record import HEAD, encode
from epochmq.store import checksums
from epochmq.store.checksums import FOLDER, BlockVerdict
from epochmq.store.damaged_ranges import DamagedRange
from epochmq.store.file_records import FileRecords
from epochmq.store.store import Store
from epochmq.store.written_blocks import BLOCK_BYTES

WALL = 1_700_000_000_000
OPTIONS = replace(SMALL, commit_log_file_bytes=4 * BLOCK_BYTES)


def filled(size: int, seed: int = 1) -> World:
    """A store with `size` bytes of messages at least, all of them synced."""
    world = World(OPTIONS)
    store = world.open()
    rng = Random(seed)
    while store.pointers.appended < size:
        world.append([draft(len(world.sent) + number, rng) for number in range(20)])
    world.sync()
    return world


def tick(world: World) -> None:
    """Long enough for everything that is due now and then."""
    world.pass_time(1000)
    world.tick()


def flip(disk: SimDisk, path: str, bit: int) -> None:
    inode = disk.inode_at(path)
    assert inode is not None
    inode.data[bit >> 3] ^= 1 << (bit & 7)


def path_of(offset: int) -> tuple[str, int]:
    """(log file, position in it)"""
    start = offset - offset % OPTIONS.commit_log_file_bytes
    return f"commitlog/{start:020d}", offset - start


def test_every_block_gets_its_checksum_in_passing() -> None:
    world = filled(9 * BLOCK_BYTES)
    store = world.store
    assert store is not None
    assert store.checksums.covered == 0
    for _ in range(3):
        tick(world)
    assert store.checksums.covered == store.pointers.synced
    for offset in range(0, store.pointers.appended, BLOCK_BYTES):
        assert store.checksums.verify(offset) is BlockVerdict.OK
    assert store.checksums.verify(store.pointers.appended + BLOCK_BYTES) is BlockVerdict.UNKNOWN


def test_what_is_not_synced_has_none() -> None:
    world = filled(BLOCK_BYTES // 2)
    store = world.store
    assert store is not None
    synced = store.pointers.synced
    world.append([draft(1 << 20, Random(2))])
    store.tick(world.now, world.wall)  # its chores are not run: nothing is synced by them
    steps, found = store.checksums.steps(store._flusher.whole_synced, partial=True)
    for step in steps:
        step()
    assert [(block.start, size) for block, size in found.blocks] == [(0, synced)]


def test_any_bit_of_any_part_of_a_record_is_found() -> None:
    world = filled(BLOCK_BYTES + 5000)
    store = world.store
    assert store is not None
    tick(world)
    rng = Random(3)
    for _ in range(300):
        offset = rng.randrange(store.pointers.appended)
        path, at = path_of(offset)
        bit = at * 8 + rng.randrange(8)
        flip(world.disk, path, bit)
        assert store.checksums.verify(offset) is BlockVerdict.WRONG
        flip(world.disk, path, bit)
        assert store.checksums.verify(offset) is BlockVerdict.OK


def test_any_bit_of_an_entry_makes_its_block_unknown() -> None:
    world = filled(BLOCK_BYTES + 5000)
    assert world.store is not None
    world.store.close(world.wall)
    for bit in range(2 * 12 * 8):
        disk = world.disk.kill()
        flip(disk, f"{FOLDER}/{0:020d}", bit)
        store = Store.open(disk, OPTIONS, HOST, world.wall)
        verdicts = [store.checksums.verify(offset) for offset in (0, BLOCK_BYTES)]
        expected = [BlockVerdict.OK, BlockVerdict.OK]
        expected[bit // 96] = BlockVerdict.UNKNOWN
        assert verdicts == expected, bit


@pytest.mark.parametrize("data", [b"", b"x", bytes(36), None])
def test_a_damaged_or_missing_file_is_made_again(data: bytes | None) -> None:
    world = filled(BLOCK_BYTES + 5000)
    assert world.store is not None
    world.store.close(world.wall)
    path = f"{FOLDER}/{0:020d}"
    world.disk.remove(path)
    if data is not None:
        world.disk.write_file(path, data)
    store = world.open()
    assert store.checksums.verify(0) is BlockVerdict.UNKNOWN
    tick(world)
    assert store.checksums.verify(0) is BlockVerdict.OK
    store.close(world.wall)
    assert world.open().checksums.verify(0) is BlockVerdict.OK


def test_a_clean_stop_leaves_nothing_without_a_checksum() -> None:
    world = filled(BLOCK_BYTES + 5000)
    assert world.store is not None
    end = world.store.pointers.appended
    world.store.close(world.wall)
    disk = world.disk.crash(1)
    store = Store.open(disk, OPTIONS, HOST, world.wall)
    assert store.checksums.covered == end


def test_damage_is_not_covered_up_by_a_longer_checksum() -> None:
    world = filled(BLOCK_BYTES // 2)
    store = world.store
    assert store is not None
    tick(world)
    flip(world.disk, path_of(0)[0], 99)
    world.append([draft(1 << 20, Random(2))])
    world.sync()
    tick(world)
    assert store.checksums.verify(0) is BlockVerdict.WRONG
    assert [(one.start, one.reason) for one in store.damage.ranges] == [
        (0, "the bytes do not agree with their checksum")
    ]


def reads_blocks_again(world: World) -> Store:
    """The store of `world`, which no longer knows what it wrote: as after a cut of the log."""
    store = world.store
    assert store is not None
    store._log.written.clear()
    return store


def test_bytes_that_changed_before_their_first_checksum_get_none() -> None:
    """Whatever part of a record changes whose damage a record shows: lengths, place, body."""
    world = filled(2 * BLOCK_BYTES)
    assert world.store is not None
    places = sorted(world.placed)
    rng = Random(5)
    for number, at in enumerate([4, 7, 9, 30, HEAD.size - 1, HEAD.size + 3]):
        case = filled(2 * BLOCK_BYTES)
        store = reads_blocks_again(case)
        start = rng.choice([place for place in places if place < BLOCK_BYTES - 2000])
        flip(case.disk, path_of(0)[0], (start + at) * 8 + number)
        for _ in range(2):
            tick(case)
        (damaged,) = store.damage.ranges
        assert damaged.start == start, at
        assert store.checksums.verify(start) is BlockVerdict.UNKNOWN
        assert store.checksums.verify(BLOCK_BYTES) is BlockVerdict.OK
        assert store.checksums.covered > BLOCK_BYTES


def test_a_body_full_of_records_is_not_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may know where its message will be, and write bytes that look like a record."""
    monkeypatch.setattr(checksums, "BLOCKS_A_STEP", 1)
    monkeypatch.setattr(checksums, "LEAD_BYTES", 1000)
    world = filled(1000)
    store = reads_blocks_again(world)
    at = store.pointers.appended + HEAD.size
    body = bytearray()
    while len(body) < 2 * BLOCK_BYTES:
        body += encode(b"T", b"x" * 200, b"", 0, 0, 0, at + len(body), 0, 1, HOST, 2, HOST, 0, 0)
        body += b"between"
    message = draft(1 << 20, Random(2))
    message.body = bytes(body)
    world.append([message])
    world.sync()
    seen: list[int] = []
    look = FileRecords.bad

    def watched(self: FileRecords, low: int, high: int, lead: int = 0) -> list[DamagedRange]:
        found = look(self, low, high, lead) if lead else look(self, low, high)
        seen.append(len(found))
        return found

    monkeypatch.setattr(FileRecords, "bad", watched)
    for _ in range(3):
        tick(world)
    assert any(seen), "no search with a short lead was mistaken"
    assert store.damage.ranges == []
    for offset in range(0, store.pointers.appended, BLOCK_BYTES):
        assert store.checksums.verify(offset) is BlockVerdict.OK


def test_a_clean_stop_reports_what_changed_before_its_first_checksum() -> None:
    world = filled(BLOCK_BYTES + 5000)
    store = reads_blocks_again(world)
    flip(world.disk, path_of(0)[0], (sorted(world.placed)[3] + HEAD.size) * 8)
    store.close(world.wall)
    assert [one.start for one in store.damage.ranges] == [sorted(world.placed)[3]]


@pytest.mark.parametrize("power_cut", [False, True])
def test_a_cut_takes_checksums_back_at_every_crash_point(power_cut: bool) -> None:
    """No crash leaves an entry that the bytes written at its place later do not have."""
    operation = 0
    while True:
        world = filled(6 * BLOCK_BYTES)
        store = world.store
        assert store is not None
        for _ in range(2):
            tick(world)
        marks = sorted(world.placed)
        end = marks[len(marks) // 2]
        operation += 1
        world.disk.stop_at = world.disk.operations + operation
        try:
            store.truncate(end, "test", operator=True)
            done = True
        except BaseException:
            done = False
        disk = world.disk.crash(operation) if power_cut else world.disk.kill()
        again = Store.open(disk, OPTIONS, HOST, world.wall)
        assert again.pointers.appended >= end
        other = World(OPTIONS, disk)
        other.store, other.wall = again, world.wall
        rng = Random(operation)
        other.append([draft(1 << 20 | number, rng) for number in range(400)])
        again.sync()
        for _ in range(2):
            tick(other)
        for offset in range(0, again.pointers.appended, BLOCK_BYTES):
            allowed = (BlockVerdict.OK, BlockVerdict.UNKNOWN) if power_cut else (BlockVerdict.OK,)
            assert again.checksums.verify(offset) in allowed, (operation, offset)
        assert again.damage.ranges == []
        if done:
            break
    assert operation > 5


def test_checksums_go_with_their_log_file() -> None:
    world = filled(9 * BLOCK_BYTES)
    store = world.store
    assert store is not None
    for _ in range(3):
        tick(world)
    assert len(world.disk.list(FOLDER)) == 3
    store.retention.adopt(replace(OPTIONS, disk_forcibly_ratio=-1.0, delete_batch=1))
    world.pass_time(20_000)
    world.tick()
    assert world.disk.list(FOLDER) == world.disk.list("commitlog")[: len(world.disk.list(FOLDER))]
    assert len(world.disk.list(FOLDER)) == 2


def test_checksums_of_a_log_that_was_taken_away_are_deleted() -> None:
    """Else they would call the messages of the next log damaged."""
    world = filled(2 * BLOCK_BYTES)
    for _ in range(3):
        tick(world)
    disk = world.disk
    assert world.store is not None
    world.store.close(world.wall)
    assert disk.list(FOLDER)
    for folder in ("commitlog", "consumequeue", "index"):
        for path in [path for path in disk._files if path.startswith(f"{folder}/")]:
            disk.remove(path)
    disk.remove("checkpoint")
    store = Store.open(disk, OPTIONS, HOST, WALL)
    assert not disk.list(FOLDER)
    rng = Random(7)
    store.append([draft(number, rng) for number in range(20)], WALL)
    store.sync()
    store.close(WALL)
    assert Store.open(disk, OPTIONS, HOST, WALL).pointers.appended == store.pointers.appended


def test_blocks_that_were_written_whole_are_not_read() -> None:
    world = filled(6 * BLOCK_BYTES)
    store = world.store
    assert store is not None
    limit = store.pointers.synced
    assert not store.checksums.record_written(limit)
    assert store.checksums.covered >= 3 * BLOCK_BYTES  # the last one of a file has a blank
    for offset in range(0, store.checksums.covered, BLOCK_BYTES):
        assert store.checksums.verify(offset) is BlockVerdict.OK


def test_a_cut_forgets_what_was_computed_while_it_was_written() -> None:
    world = filled(3 * BLOCK_BYTES)
    store = world.store
    assert store is not None
    store.checksums.invalidate_step(BLOCK_BYTES)
    assert store.checksums.covered == 0
    store.checksums.record_written(store.pointers.synced)
    assert store.checksums.covered == 0
    assert store._log.written.first is None


def test_a_disk_that_refuses_the_entries_does_not_hold_a_clean_stop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As many entries as one call writes are waiting: asking again would never end."""
    monkeypatch.setattr(checksums, "BLOCKS_AT_ONCE", 2)
    world = filled(6 * BLOCK_BYTES)
    store = world.store
    assert store is not None

    def refused(path: str, *, create_size: int = 0) -> File:
        raise DiskFull("no space")

    monkeypatch.setattr(store.checksums._disk, "open", refused)
    store.checksums.cover(store.pointers.synced)
    assert store.checksums.covered == 0
    assert "checksums of the log cannot be written" in caplog.text
