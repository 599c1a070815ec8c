"""Units turned into views of the log: with the native code and without it the same."""

from dataclasses import replace
from random import Random

import pytest
from sim.kernel.disk import SimDisk
from tests.store.world import HOST, SMALL, draft

from epochmq.model.record import decode_all
from epochmq.native import library
from epochmq.store.adjacent_records import AdjacentRecords
from epochmq.store.consume_queue import ConsumeQueue
from epochmq.store.draft import PRE_BLANK, UNIT, UNIT_BYTES, Draft
from epochmq.store.store import Store

WALL = 1_700_000_000_000


@pytest.mark.skipif(library.library() is None, reason=library.which())
@pytest.mark.parametrize("topics", [1, 2, 3], ids=["side by side", "apart", "further apart"])
def test_with_native_code_and_without_it(topics: int) -> None:
    rng = Random(f"neighbours {topics}")
    store = Store.open(SimDisk(), SMALL, HOST, WALL)
    while len(store._log.segments) < 3 or store._log.end % SMALL.commit_log_file_bytes < 2000:
        store.append([draft(0, rng, f"T{n}") for n in range(topics)], WALL)
    queue = store._queues.get("T0", 0)
    units = queue.units(0, queue.next)
    count = len(units) // UNIT_BYTES
    native, plain = AdjacentRecords(store._log), AdjacentRecords(store._log)
    plain._native = None
    for _ in range(300):
        first = rng.randrange(count)
        some = bytearray(units[first * UNIT_BYTES :][: rng.randint(1, count) * UNIT_BYTES])
        for hole in range(len(some) // UNIT_BYTES):
            if rng.random() < 0.05:
                some[hole * UNIT_BYTES : (hole + 1) * UNIT_BYTES] = PRE_BLANK
        room = rng.choice([0, 1, 500, 2000, 1 << 30])
        found = native.find(queue, first, bytes(some), room)
        wanted = plain.find(queue, first, bytes(some), room)
        assert not found.changed
        assert b"".join(found.chunks) == b"".join(wanted.chunks)
        assert found[1:] == wanted[1:]
        assert len(found.chunks) <= found.records
    offset, size, _ = UNIT.unpack_from(units, 2 * UNIT_BYTES)
    assert found_with(native, queue, units, UNIT.pack(offset, size + 1, 0)) == (2, True)
    assert found_with(native, queue, units, UNIT.pack(offset + 1, size, 0)) == (2, True)
    assert found_with(native, queue, units, UNIT.pack(offset, 1, 0)) == (2, True)
    assert found_with(native, queue, units, UNIT.pack(offset, -1, 0)) == (2, True)
    assert found_with(native, queue, units, UNIT.pack(offset, 1 << 30, 0)) == (2, True)


def found_with(
    native: AdjacentRecords, queue: ConsumeQueue, units: bytes, third: bytes
) -> tuple[int, bool]:
    """What is found when the third unit is another: how many records, and whether one changed."""
    some = units[: 2 * UNIT_BYTES] + third + units[3 * UNIT_BYTES :]
    found = native.find(queue, 0, some, 1 << 40)
    return found.passed, found.changed


@pytest.mark.skipif(library.library() is None, reason=library.which())
@pytest.mark.parametrize(("body", "chunks"), [(0, 1), (3_000, 1), (17_000, 8)])
def test_many_short_chunks_are_copied_into_one(body: int, chunks: int) -> None:
    options = replace(SMALL, commit_log_file_bytes=1 << 20)
    store = Store.open(SimDisk(), options, HOST, WALL)
    for number in range(8):
        for topic in ("T", "other"):
            store.append([Draft(topic, 0, b"%d" % number * body, b"", 0, born_host=HOST)], WALL)
    store.tick(0, WALL)
    found = store.read_queue("T", 0, 0, 32, 1 << 30)
    assert (found.count, len(found.chunks)) == (8, chunks)
    bodies = [message.body for chunk in found.chunks for message in decode_all(bytes(chunk))]
    assert bodies == [b"%d" % number * body for number in range(8)]


@pytest.mark.skipif(library.library() is None, reason=library.which())
@pytest.mark.parametrize("file_bytes", [4096, 1 << 20], ids=["several files", "one file"])
def test_copies_can_be_left_out(file_bytes: int) -> None:
    store = Store.open(SimDisk(), replace(SMALL, commit_log_file_bytes=file_bytes), HOST, WALL)
    for number in range(60):
        for topic in ("T", "other"):
            store.append([Draft(topic, 0, b"%d" % number * 20, b"", 0, born_host=HOST)], WALL)
    store.tick(0, WALL)
    copied = store.read_queue("T", 0, 0, 60, 1 << 30)
    views = store.read_queue("T", 0, 0, 60, 1 << 30, may_copy=False)
    assert b"".join(copied.chunks) == b"".join(views.chunks)
    assert any(isinstance(chunk.obj, bytes) for chunk in copied.chunks)
    assert len(views.chunks) == views.count == 60
    assert not any(isinstance(chunk.obj, bytes) for chunk in views.chunks)
