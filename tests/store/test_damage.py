"""Damage is told from a torn tail: every bit of a small store, after a clean stop and a crash."""

import os
from dataclasses import replace
from random import Random

import pytest
from sim.kernel.disk import SimDisk
from tests.store.world import HOST, SMALL, everything, has_batch_queues, inner_batch

from epochmq.base.errors import StoreDamaged
from epochmq.model.crc import crc32
from epochmq.store.damage import LogDamaged, flipped_bit
from epochmq.store.draft import Draft
from epochmq.store.options import StoreOptions
from epochmq.store.store import Store

WALL = 1_700_000_000_000
OPTIONS = replace(SMALL, commit_log_file_bytes=2048, index_slots=8, index_items=12)
BOOT = "a boot of the machine"
FLIPS = int(os.environ.get("EPOCHMQ_FLIPS", "3400"))
"""Bits drawn for each kind of stop; 0 for all of them (minutes)."""
Message = tuple[str, int, int, bytes]


def drafts() -> list[Draft]:
    """A few messages of each kind."""
    plain = Draft("T", 0, b"a plain message", b"", born_host=HOST)
    rich = Draft("T", 1, b"rich", b"KEYS\x01k1 k2\x02TAGS\x01A\x02colour\x01red\x02", 65,
                 ("k1", "k2"), born_host=HOST)  # fmt: skip
    delay = b"DELAY\x013\x02REAL_TOPIC\x01T\x02REAL_QID\x010\x02"
    late = Draft("SCHEDULE_TOPIC_XXXX", 2, b"delayed", delay, 7, born_host=HOST)
    half = Draft("RMQ_SYS_TRANS_HALF_TOPIC", 0, b"half", b"TRAN_MSG\x01true\x02", born_host=HOST)
    batch = inner_batch(Draft("Batch", 0, b"three in one", b"KEYS\x01b\x02", 0, ("b",),
                              born_host=HOST), 3)  # fmt: skip
    return [plain, rich, late, half, batch]


def filled(options: StoreOptions = OPTIONS) -> tuple[SimDisk, Store]:
    disk = SimDisk()
    store = Store.open(disk, options, HOST, WALL, has_batch_queues, boot=BOOT)
    for number, draft in enumerate(drafts() * 2):
        store.append([draft], WALL + number * 4000)
        store.sync()
        for now in range(number * 4000, number * 4000 + 400, 100):
            store.tick(now, WALL + now)
            store.chores.run_all()
    return disk, store


def messages(store: Store) -> set[Message]:
    """What readers get."""
    return {(topic, queue, offset, bytes(record)) for topic, queue, offset, record
            in everything(store)}  # fmt: skip


def flip(disk: SimDisk, path: str, bit: int) -> None:
    inode = disk.inode_at(path)
    assert inode is not None
    inode.data[bit >> 3] ^= 1 << (bit & 7)


def bits_of(disk: SimDisk, folders: tuple[str, ...], seed: int) -> list[tuple[str, int]]:
    """(file, bit): all, or as many as asked for."""
    files = [(path, data) for path, data in disk.contents().items() if path.startswith(folders)]
    found = [(path, bit) for path, data in files for bit in range(len(data) * 8)]
    return Random(seed).sample(found, min(FLIPS, len(found))) if FLIPS else found


def is_unit(path: str, data: bytes, at: int) -> bool:
    """Whether the byte is part of a queue's unit."""
    if "consumequeue" not in path:
        return False
    size = 46 if path.startswith("batch") else 20
    return any(data[at - at % size : at - at % size + size])


def outcome(disk: SimDisk, boot: str = BOOT) -> set[Message] | LogDamaged | StoreDamaged:
    try:
        store = Store.open(disk, OPTIONS, HOST, WALL + 60_000, has_batch_queues, boot=boot)
    except StoreDamaged as error:
        return error
    return messages(store)


@pytest.mark.parametrize("stop", ["clean", "killed", "power cut"])
def test_any_bit_of_the_log_stops_the_start_or_changes_nothing(stop: str) -> None:
    disk, store = filled()
    expected = messages(store)
    if stop == "clean":
        store.close(WALL + 40_000)
    disk = disk.kill() if stop == "killed" else disk.crash(3)
    boot = BOOT if stop == "killed" else "another"
    sound = Store.open(disk.kill(), OPTIONS, HOST, WALL + 60_000, has_batch_queues, boot=boot)
    assert messages(sound) == expected
    # Nothing can tell damage from a torn tail behind what was known to be synced: INV-16.
    known = max(sound.pointers.appended if stop != "power cut" else 0, sound.checksums.known_end)
    refused = 0
    for path, bit in bits_of(disk, ("commitlog/",), 1):
        if int(path.rpartition("/")[2]) + bit // 8 >= known:
            continue
        damaged = disk.kill()
        flip(damaged, path, bit)
        before = damaged.contents()
        found = outcome(damaged, boot)
        if isinstance(found, LogDamaged):
            refused += 1
            (damage,) = found.damages
            assert damage.path == path
            assert damage.start <= damage.file_start + bit // 8 < damage.stop, (path, bit)
            assert damaged.contents() == before, "something was changed before the refusal"
        else:
            assert found == expected, (path, bit, found)
    assert refused > FLIPS // 4


@pytest.mark.parametrize("stop", ["clean", "killed", "power cut"])
def test_any_bit_of_other_files_changes_no_message(stop: str) -> None:
    """Queues, index, checkpoint, checksums: all can be derived again, or have a second copy."""
    disk, store = filled()
    expected = messages(store)
    if stop == "clean":
        store.close(WALL + 40_000)
    disk = disk.kill() if stop == "killed" else disk.crash(3)
    boot = BOOT if stop == "killed" else "another"
    folders = ("consumequeue/", "batchconsumequeue/", "index/", "checkpoint", "checksums/")
    sound = disk.contents()
    for path, bit in bits_of(disk, folders, 2):
        if stop == "clean" and is_unit(path, sound[path], bit // 8):
            continue  # units are not derived again then, but checked when they are read
        damaged = disk.kill()
        flip(damaged, path, bit)
        found = outcome(damaged, boot)
        assert found == expected, (path, bit, found)


def test_a_flipped_bit_is_found_by_its_checksum() -> None:
    rng = Random(5)
    for size in (1, 2, 100, 4096):
        data = bytearray(rng.randbytes(size))
        crc = crc32(data)
        for _ in range(50):
            bit = rng.randrange(size * 8)
            data[bit >> 3] ^= 1 << (bit & 7)
            assert flipped_bit(bytes(data), crc) == bit
            data[bit >> 3] ^= 1 << (bit & 7)
    data[0] ^= 3
    assert flipped_bit(bytes(data), crc) is None
    assert flipped_bit(b"", 0) is None
