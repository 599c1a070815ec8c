"""What comes from the disk is not believed unseen: every bit of units and of records, EIO."""

import os
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from sim.kernel.disk import SimDisk, SimFile
from tests.store.world import HOST, SMALL, has_batch_queues, inner_batch

from epochmq.base.errors import DiskFailed
from epochmq.model.record import body_span, decode_all, offset_at
from epochmq.model.tags import tags_code
from epochmq.native import library
from epochmq.runtime.disk import RealDisk
from epochmq.store.draft import Draft
from epochmq.store.read import GetStatus
from epochmq.store.store import Store

WALL = 1_700_000_000_000
OPTIONS = replace(SMALL, commit_log_file_bytes=4096, checkpoint_interval_ms=10)
COUNT = 6


def one(topic: str, number: int) -> Draft:
    tag = "AB"[number % 2]
    properties = f"TAGS\x01{tag}\x02KEYS\x01k{number}\x02".encode()
    body = b"%04d" % number * (3 + number % 3)
    made = Draft(topic, number % 2, body, properties, tags_code(tag), born_host=HOST)
    return inner_batch(made, number % 3 + 1) if has_batch_queues(topic) else made


def stopped(topic: str, *, checksums: bool = True) -> SimDisk:
    """A store with `COUNT` messages in two queues, after a clean stop."""
    disk = SimDisk()
    store = opened(disk)
    for number in range(COUNT):
        store.append([one(topic, number)], WALL + number)
    store.close(WALL)
    if not checksums:
        disk.remove("checksums")
    return disk


def opened(disk: SimDisk) -> Store:
    return Store.open(disk, OPTIONS, HOST, WALL, has_batch_queues)


def wanted_with(topic: str, accept: int | None) -> list[int]:
    return [n for n in range(COUNT) if accept is None or one(topic, n).tags_code == accept]


def bodies(store: Store, topic: str, accept: int | None = None) -> list[int]:
    """All messages of both queues, read one after the other until a read brings none."""
    found = []
    for queue_id in range(2):
        offset = 0
        while offset < store.queue_bounds(topic, queue_id)[1]:
            result = store.read_queue(
                topic, queue_id, offset, 2, 1 << 20, None if accept is None else accept.__eq__
            )
            store.chores.run_all()
            assert result.next_offset > offset, result
            offset = result.next_offset
            for chunk in result.chunks:
                found += [int(message.body[:4]) for message in decode_all(chunk)]
    return sorted(found)


def flipped(disk: SimDisk, path: str, bit: int) -> SimDisk:
    copy = disk.kill()
    file = copy.open(path)
    byte = file.read(bit // 8, 1)[0]
    file.write(bit // 8, bytes([byte ^ 1 << bit % 8]))
    return copy


@pytest.mark.parametrize("topic", ["T", "Batch"])
def test_every_bit_of_every_unit(topic: str) -> None:
    disk = stopped(topic)
    root, unit_bytes = ("consumequeue", 20) if topic == "T" else ("batchconsumequeue", 46)
    rebuilt = 0
    wanted = {accept: wanted_with(topic, accept) for accept in (tags_code("A"), None)}
    for queue_id in range(2 if topic == "T" else 1):
        path = f"{root}/{topic}/{queue_id}/{0:020d}"
        bits = COUNT // 2 * unit_bytes * 8
        for bit in range(bits + unit_bytes * 8):  # with zeros behind the last unit
            store = opened(flipped(disk, path, bit))
            for accept, numbers in wanted.items():
                assert bodies(store, topic, accept) == numbers, (queue_id, bit)
            rebuilt += bit < bits and (store.damage.units_rebuilt > 0 or store.recovered.rebuilt)
            assert store.damage.found == 0
            assert store.verify().problems == [], (queue_id, bit)
            store._release()
        assert rebuilt == bits * (queue_id + 1)


@pytest.mark.parametrize("checksums", [True, False], ids=["checksums", "none"])
@pytest.mark.parametrize("topic", ["T", "Batch"])
def test_every_bit_of_every_record(topic: str, checksums: bool) -> None:
    """A changed record is never handed out; all others are, if only its body's checksum tells."""
    disk = stopped(topic, checksums=checksums)
    sound = opened(disk.kill())
    records = {
        (q, offset): bytes(chunk)
        for q in range(2)
        for offset, chunk in records_of(sound, topic, q).items()
    }
    bodies_at = []
    for place in records.values():
        start, stop = body_span(place, 0)
        bodies_at += range(offset_at(place, 0) + start, offset_at(place, 0) + stop)
    for at in range(sound.pointers.appended):
        for bit in range(8) if topic == "T" and at < 120 else (at % 8,):
            store = opened(disk.kill())
            segment = store._log.segments[0]
            byte = segment.file.read(at, 1)[0]
            segment.file.write(at, bytes([byte ^ 1 << bit]))
            found = {(q, n): c for q in range(2) for n, c in records_of(store, topic, q).items()}
            changed = [place for place, chunk in found.items() if records[place] != chunk]
            lost = records.keys() - found.keys()
            if checksums:
                assert not changed, (at, bit)
                assert lost
            elif at in bodies_at:
                assert not changed, (at, bit)
                assert len(lost) == 1
            else:
                assert len(lost) + len(changed) <= 1, (at, bit)
            assert len(store.damage.ranges) == bool(lost), (at, bit)
            store._release()


def records_of(store: Store, topic: str, queue_id: int) -> dict[int, bytes]:
    """Records that are handed out, by queue offset; damaged ones are stepped over."""
    found = {}
    offset = 0
    while offset < store.queue_bounds(topic, queue_id)[1]:
        result = store.read_queue(topic, queue_id, offset, 1, 1)
        store.chores.run_all()
        if result.status is GetStatus.DAMAGED:
            assert result.next_offset == offset
            assert "damaged" in result.reason
            offset += 1
            continue
        if result.status is GetStatus.FOUND:
            found[offset] = bytes(result.chunks[0])
        offset = max(result.next_offset, offset + 1)
    return found


def test_by_offset_and_by_key_too() -> None:
    disk = stopped("T")
    store = opened(disk)
    store._log.segments[0].file.write(100, b"!")
    assert store.message_at(0) is None
    assert store.query_index("T", "k0", 9, 0, 1 << 60).records == []
    assert not store.slice(0, 1000)
    assert store.file_of(0) is None
    assert store.store_time("T", 0, 0) == -1


class Unreadable(SimDisk):
    """Raises EIO for reads of the log that touch `bad`."""

    bad: range = range(0)

    def open(self, path: str, *, create_size: int | None = None) -> SimFile:
        return UnreadableFile(self, path, super().open(path, create_size=create_size)._inode)


class UnreadableFile(SimFile):
    def read(self, offset: int, size: int) -> bytes:
        disk = self._disk
        assert isinstance(disk, Unreadable)
        if self.path.startswith("commitlog") and set(disk.bad) & set(range(offset, offset + size)):
            raise DiskFailed(f"cannot read {self.path}: Input/output error")
        return super().read(offset, size)

    def view(self) -> memoryview:
        return memoryview(bytes(self._inode.data))


def test_a_page_that_cannot_be_read_fails_that_read() -> None:
    disk = Unreadable()
    disk.__dict__.update(vars(stopped("T").kill()))
    store = opened(disk)
    disk.bad = range(200, 201)
    result = store.read_queue("T", 0, 0, 9, 1 << 20)
    assert result.status is GetStatus.DAMAGED
    assert "Input/output error" in result.reason
    assert store.message_at(0) is None
    # It was read again, whatever helped: the record is there.
    disk.bad = range(0)
    store.damage.clear(0, 1 << 60)
    assert bodies(store, "T") == list(range(COUNT))


def test_a_log_file_that_somebody_shortens(tmp_path: Path) -> None:
    """Neither old nor new records kill the process; what is left is read."""
    options = replace(OPTIONS, commit_log_file_bytes=256 * 1024)
    disk = RealDisk(str(tmp_path))
    store = Store.open(disk, options, HOST, WALL)
    for number in range(60):
        store.append([msgspec.structs.replace(one("T", number), body=b"%04d" % number * 500)], WALL)
    path = tmp_path / "commitlog" / f"{0:020d}"
    unit = store._queues.get("T", 0).unit(20)
    assert unit is not None
    os.truncate(path, unit[0] // 4096 * 4096)
    store.tick(2000, WALL)
    found = []
    offset = 0
    while (result := store.read_queue("T", 0, offset, 4, 1 << 20)).status is GetStatus.FOUND:
        found += [int(m.body[:4]) for chunk in result.chunks for m in decode_all(chunk)]
        offset = result.next_offset
    assert found == list(range(0, 40, 2))[: len(found)]
    assert len(found) >= 19
    assert result.status is GetStatus.DAMAGED
    assert "shortened" in result.reason
    store._release()


HEAD_BYTES = [*range(8), *range(12, 16), *range(20, 36)]
"""Of a record: size, magic number, queue, queue offset, log offset."""


@pytest.mark.skipif(library.library() is None, reason="no native code: ADR 0071")
@pytest.mark.parametrize("accept", [None, tags_code("A")], ids=["all", "tag"])
@pytest.mark.parametrize("topic", ["T", "Batch"])
def test_every_bit_of_a_head_that_changes_under_a_running_store(
    topic: str, accept: int | None
) -> None:
    """What this process wrote and checked may be read from the device again, and be rotten then."""
    wanted = wanted_with(topic, accept)
    for changed in (3, 4):
        for bit in [byte * 8 + bit for byte in HEAD_BYTES for bit in range(8)]:
            store = opened(SimDisk())
            for number in range(COUNT):
                store.append([one(topic, number)], WALL + number)
            assert read_all(store, topic, accept) == sorted(wanted, key=lambda n: n % 2)
            place = sorted(records_of(store, topic, changed % 2).items())[changed // 2][1]
            at = offset_at(place, 0)
            segment = store._log.segments[0]
            byte = segment.file.read(at + bit // 8, 1)[0]
            segment.file.write(at + bit // 8, bytes([byte ^ 1 << bit % 8]))
            found = read_all(store, topic, accept)
            before = [n for n in wanted if n % 2 != changed % 2 or n < changed]
            if changed in wanted:
                assert sorted(found) == before, bit
                assert [one.start for one in store.damage.ranges] == [at], bit
            else:
                assert set(before) <= set(found) <= set(wanted), bit
            store._release()


def read_all(store: Store, topic: str, accept: int | None) -> list[int]:
    """The messages of both queues up to their damage, asked for twice there."""
    found = []
    for queue_id in range(2):
        offset, refused = 0, 0
        while offset < store.queue_bounds(topic, queue_id)[1] and refused < 2:
            result = store.read_queue(
                topic, queue_id, offset, 4, 1 << 20, None if accept is None else accept.__eq__
            )
            store.chores.run_all()
            refused += result.status is GetStatus.DAMAGED
            assert (result.next_offset > offset) is (result.status is not GetStatus.DAMAGED)
            offset = result.next_offset
            for chunk in result.chunks:
                found += [int(message.body[:4]) for message in decode_all(chunk)]
    return found
