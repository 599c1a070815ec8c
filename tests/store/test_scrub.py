"""The search for damage, and repairs from a replica: only by what was written, nothing else."""

from dataclasses import replace

import pytest
from sim.kernel.disk import SimDisk
from tests.store.replicas import REPLICATED, WALL, fill, log_bytes, opened, ship

from epochmq.base.errors import DiskFailed
from epochmq.model.crc import crc32
from epochmq.model.log_blocks import digest
from epochmq.store import scrub
from epochmq.store.checksums import Block, BlockVerdict, Computed
from epochmq.store.scrub import BLOCK_BYTES, CheckedBlock, WantedRange
from epochmq.store.store import Store

OPTIONS = replace(REPLICATED, commit_log_file_bytes=3 * BLOCK_BYTES)


def replicas(*, checksums: bool = True) -> tuple[Store, Store]:
    """A master after a restart, its log over two files, and a follower with the same log."""
    disk = SimDisk()
    master, follower = opened(disk, OPTIONS), opened(None, OPTIONS)
    while master.pointers.appended < 4 * BLOCK_BYTES:
        fill(master, 50, seed=master.pointers.appended)
    master.limit_confirm(master.pointers.appended)
    ship(master, follower)
    follower.limit_confirm(follower.pointers.appended)
    master.close(WALL)
    if not checksums:
        disk.remove("checksums")
    return opened(disk.kill(), OPTIONS), follower


def flip(store: Store, at: int, bit: int = 0) -> None:
    segment = store._log.find(at)
    assert segment is not None
    byte = segment.file.read(at - segment.start, 1)[0]
    segment.file.write(at - segment.start, bytes([byte ^ 1 << bit]))


def search_all(store: Store) -> None:
    rounds = store.scrub.rounds
    while store.scrub.rounds == rounds:
        store.scrub.search(2 * BLOCK_BYTES)
        store.chores.run_all()


def offer(store: Store, wanted: WantedRange, data: bytes) -> str:
    told: list[str] = []
    store.scrub.repair(wanted, data, "a test", told.append)
    store.chores.run_all()
    (reason,) = told
    return reason


def bytes_of(store: Store, start: int, end: int) -> bytes:
    return bytes(store.slice(start, end - start))


@pytest.mark.parametrize("place", [4, 30, 95, 700, BLOCK_BYTES + 5, 3 * BLOCK_BYTES + 99])
def test_a_flipped_bit_is_found_and_repaired(place: int) -> None:
    master, follower = replicas()
    right = log_bytes(follower)
    flip(master, place, place % 8)
    search_all(master)
    (wanted,) = master.scrub.wanted()
    assert wanted.damaged.start <= place < wanted.damaged.end
    assert not master.slice(wanted.damaged.start, 10)
    data = bytes_of(follower, wanted.start, wanted.end)
    wrong = bytearray(data)
    wrong[place - wanted.start] ^= 1 << place % 8 ^ 255  # damaged in the same place
    assert "checksum" in offer(master, wanted, bytes(wrong))
    assert "only" in offer(master, wanted, data[:-1])
    assert master.damage.ranges
    assert offer(master, wanted, data) == ""
    assert (master.damage.ranges, master.damage.repaired) == ([], 1)
    assert log_bytes(master) == right
    assert len(master._disk.list("cut")) == 1
    search_all(master)
    assert master.damage.found == 1


def test_without_a_checksum_the_record_decides() -> None:
    master, follower = replicas(checksums=False)
    ((at, size, _),) = follower.units("T0", 0, 2, 1)
    right = log_bytes(follower)
    flip(master, at + 91)
    assert "damaged" in master.read_queue("T0", 0, 2, 1, 1).reason
    (wanted,) = master.scrub.wanted()
    assert (wanted.damaged.start, wanted.damaged.end) == (at, at + size)
    data = bytearray(bytes_of(follower, wanted.start, wanted.end))
    for place, why in ((at + 91, "no sound record"), (at - 1, "differs at")):
        data[place - wanted.start] ^= 2
        assert why in offer(master, wanted, bytes(data))
        data[place - wanted.start] ^= 2
    assert offer(master, wanted, bytes(data)) == ""
    assert log_bytes(master) == right


def test_the_search_goes_round_below_what_is_confirmed() -> None:
    master, _ = replicas()
    flip(master, master.pointers.appended - 5)
    master.scrub.search(BLOCK_BYTES)
    assert master.scrub.is_busy
    master.chores.run_all()
    assert (master.scrub.position, master.damage.found) == (BLOCK_BYTES, 0)
    search_all(master)
    search_all(master)
    assert (master.scrub.rounds, master.damage.found) == (2, 1)
    assert master.scrub.statistics()["scrub_unknown_bytes"] == 0
    empty = opened(None, OPTIONS)
    empty.scrub.search(1)
    assert not empty.scrub.is_busy


def test_digests_of_all_blocks_on_request() -> None:
    master, follower = replicas(checksums=False)
    flip(master, 2 * BLOCK_BYTES + 7)
    seen: list[CheckedBlock] = []
    master.scrub.search(1 << 30, seen.extend)
    master.chores.run_all()
    assert sum(one.size for one in seen) == master.pointers.confirmed
    same = [digest([follower.slice(one.start, one.size)]) == one.digest for one in seen]
    assert same == [True, True, False, True, *([True] * (len(seen) - 4))]
    assert master.damage.found == 0
    assert master.checksums.covered == OPTIONS.commit_log_file_bytes == 3 * BLOCK_BYTES
    master.scrub.give_checksums([seen[0], seen[3]])
    assert master.checksums.verify(0) is BlockVerdict.OK
    assert (
        master.checksums.verify(3 * BLOCK_BYTES) is BlockVerdict.UNKNOWN
    )  # its own turn is to come
    master.checksums.invalidate(master.pointers.appended)
    master.scrub.give_checksums(seen[1:2])  # read before the log was cut
    assert master.checksums.verify(BLOCK_BYTES) is BlockVerdict.UNKNOWN


def test_a_block_that_cannot_be_read_is_damaged_also_without_checksum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    master, _ = replicas(checksums=False)
    segment = master._log.segments[0]
    read = segment.file.read

    def fails(at: int, size: int) -> bytes:
        if at == BLOCK_BYTES:
            raise DiskFailed("Input/output error")
        return read(at, size)

    monkeypatch.setattr(segment.file, "read", fails)
    monkeypatch.setattr(segment.file, "fileno", lambda: 1)
    master.scrub.search(1 << 30, lambda _seen: None)
    master.chores.run_all()
    assert [one[:2] for one in master.damage.ranges] == [(BLOCK_BYTES, 2 * BLOCK_BYTES)]


def test_what_was_cut_or_deleted_meanwhile_is_no_damage() -> None:
    master, follower = replicas()
    flip(master, 700)
    search_all(master)
    (wanted,) = master.scrub.wanted()
    master.damage.clear(0, 1 << 60)
    assert offer(master, wanted, bytes_of(follower, wanted.start, wanted.end)) == ""
    assert master.damage.repaired == 0


def mend(store: Store, wanted: WantedRange) -> str:
    told: list[str] = []
    store.scrub.mend(wanted, told.append)
    store.chores.run_all()
    (reason,) = told
    return reason


@pytest.mark.parametrize("place", [2, 13, 30, 95, BLOCK_BYTES + 5, 3 * BLOCK_BYTES + 99])
def test_one_bit_is_mended_without_a_replica(place: int) -> None:
    master, follower = replicas()
    flip(master, place, place % 8)
    search_all(master)
    (wanted,) = master.scrub.wanted()
    assert mend(master, wanted) == ""
    assert log_bytes(master) == log_bytes(follower)
    assert (master.damage.ranges, master.damage.repaired) == ([], 1)


def test_a_checksum_of_damaged_bytes_does_not_make_a_record_sound() -> None:
    """The bytes changed before the checksum of their block was computed from them."""
    master, _ = replicas()
    flip(master, 95, 1)  # in a body: a record has no checksum of its other bytes
    segment = master._log.find(0)
    assert segment is not None
    changed = Block(0, BLOCK_BYTES, BLOCK_BYTES, crc32(segment.file.read(0, BLOCK_BYTES)))
    search_all(master)
    (wanted,) = master.scrub.wanted()
    master.checksums.forget(0, BLOCK_BYTES)
    master.checksums.record(Computed([(changed, BLOCK_BYTES)]), master.checksums.generation)
    assert master.checksums.verify(0) is BlockVerdict.OK
    assert "a record is not sound" in mend(master, wanted)
    assert len(master.damage.ranges) == 1


def test_more_than_one_bit_is_not() -> None:
    master, follower = replicas()
    flip(master, 700, 1)
    flip(master, 705, 3)
    search_all(master)
    (wanted,) = master.scrub.wanted()
    assert "more than one bit" in mend(master, wanted)
    assert len(master.damage.ranges) == 1
    assert offer(master, wanted, bytes_of(follower, wanted.start, wanted.end)) == ""
    unknown, _ = replicas(checksums=False)
    assert "no checksum" in mend(unknown, wanted)


@pytest.mark.parametrize("place", [700, BLOCK_BYTES + 5, 3 * BLOCK_BYTES + 99])
def test_a_copy_that_is_damaged_elsewhere_in_the_block_helps(place: int) -> None:
    master, follower = replicas()
    right = log_bytes(follower)
    for bit in (0, 3, 5):
        flip(master, place, bit)
    search_all(master)
    (wanted,) = master.scrub.wanted()
    copy = bytearray(bytes_of(follower, wanted.start, wanted.end))
    copy[3000:3100] = bytes(100)
    assert offer(master, wanted, bytes(copy)) == ""
    assert (master.damage.ranges, master.damage.repaired) == ([], 1)
    assert log_bytes(master) == right


def test_a_combination_with_an_unsound_record_is_refused() -> None:
    """The checksum was computed over damaged bytes: it does not make them right."""
    master, follower = replicas()
    ((at, _, _),) = follower.units("T0", 0, 2, 1)
    flip(master, at + 95, 1)
    flip(master, at + 95, 2)
    block = master.checksums.block_at(at)
    segment = master._log.find(at)
    assert segment is not None
    block.crc = crc32(segment.file.read(block.start - segment.start, block.covered))
    flip(master, at + 600)
    copy = bytearray(bytes_of(follower, block.start, block.stop))
    copy[at + 95 - block.start] ^= 6
    copy[50] ^= 1
    assert scrub._merged(segment, [block], block.start, bytes(copy)) == bytes(copy)


def test_without_a_checksum_nothing_is_combined() -> None:
    master, follower = replicas(checksums=False)
    ((at, _, _),) = follower.units("T0", 0, 2, 1)
    flip(master, at + 91)
    assert "damaged" in master.read_queue("T0", 0, 2, 1, 1).reason
    (wanted,) = master.scrub.wanted()
    copy = bytearray(bytes_of(follower, wanted.start, wanted.end))
    copy[at - 5 - wanted.start] ^= 2
    assert "differs at" in offer(master, wanted, bytes(copy))
