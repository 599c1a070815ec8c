"""Slices of work between appends: what becomes durable, and when."""

from dataclasses import replace

from sim.kernel.disk import SimDisk
from tests.store.world import HOST, SMALL

from epochmq.base.errors import DiskFull
from epochmq.store.draft import Draft
from epochmq.store.housekeeping import QUEUES_A_TICK, Every
from epochmq.store.store import Store

WALL = 1_700_000_000_000


def test_every() -> None:
    every = Every(100)
    assert [every.due(now) for now in (5, 6, 104, 105, 300, 390, 400)] == [
        True,
        False,
        False,
        True,
        True,
        False,
        True,
    ]


def filled(queues: int = 1, **changes: object) -> tuple[SimDisk, Store]:
    disk = SimDisk()
    store = Store.open(disk, replace(SMALL, **changes), HOST, WALL)  # type: ignore[arg-type]
    for queue_id in range(queues):
        draft = Draft("T", queue_id, b"x", b"KEYS\x01k\x02", 0, ("k",), born_host=HOST)
        store.append([draft], WALL)
    return disk, store


def test_many_queues_are_written_in_slices() -> None:
    disk, store = filled(QUEUES_A_TICK * 3)
    store.tick(0, WALL)
    assert len(disk.list("consumequeue/T")) == QUEUES_A_TICK
    for now in range(3):
        store.tick(now, WALL)
    assert len(disk.list("consumequeue/T")) == QUEUES_A_TICK * 3


def test_queues_count_as_synced_only_after_their_chore() -> None:
    disk, store = filled(3)
    for now in range(0, 100, 20):
        store.tick(now, WALL)
    assert store._checkpoint.queues_wall_ms == 0
    store.chores.run_all()
    assert store._checkpoint.queues_wall_ms == WALL
    assert store._checkpoint.index_wall_ms == WALL
    assert not store.needs_sync  # the index made the log durable first
    survived = disk.crash(5)
    assert len(survived.list("consumequeue/T")) == 3


def test_the_next_file_is_made_ahead() -> None:
    disk, store = filled()
    store.tick(0, WALL)
    assert len(disk.list("commitlog")) == 1
    store.append([Draft("T", 0, b"x" * 1500, b"", born_host=HOST)], WALL)
    operations: list[str] = []
    disk.on_operation = lambda _number, what: operations.append(what)
    store.tick(1, WALL)
    waits = [what for what in operations if what.startswith(("sync", "allocate"))]
    assert (waits, len(disk.list("commitlog"))) == ([], 1)  # beside the loop
    store.chores.run_all()
    assert len(disk.list("commitlog")) == 2
    operations.clear()
    store.append([Draft("T", 0, b"x" * 3000, b"", born_host=HOST)], WALL)
    assert [what for what in operations if not what.startswith("write commitlog")] == []


def test_no_space_in_a_tick_is_tried_again() -> None:
    disk, store = filled(3, preallocate=False)
    disk.quota_bytes = store._disk.usage()[0] - store._disk.usage()[1]
    store.tick(0, WALL)
    assert store.disk_full
    disk.quota_bytes = 1 << 30
    for now in range(100, 400, 50):
        store.tick(now, WALL)
        store.chores.run_all()
    assert not store.disk_full
    assert store.verify().problems == []
    store.close(WALL)
    assert not disk.exists("abort")


def test_a_chore_without_space_keeps_its_claims_back() -> None:
    disk, store = filled(3)
    store.tick(0, WALL)
    free = disk.quota_bytes
    disk.quota_bytes = 0
    store.chores.run_all()
    assert store._checkpoint.index_wall_ms in (0, WALL)
    disk.quota_bytes = free
    for now in range(200, 900, 50):
        store.tick(now, WALL)
        store.chores.run_all()
    assert store._checkpoint.index_wall_ms == WALL
    assert len(store.query_index("T", "k", 9, 0, 1 << 60).records) == 3


def test_a_clock_that_goes_back_lowers_the_checkpoint_at_once() -> None:
    disk, store = filled()
    for now in range(0, 200, 20):
        store.tick(now, WALL)
        store.chores.run_all()
    store.append([Draft("T", 0, b"x", b"", born_host=HOST)], WALL - 60_000)
    assert store._checkpoint.safe_wall_ms() == WALL - 63_000
    kept = disk.crash(0).read_file("checkpoint") or b""
    assert int.from_bytes(kept[8:16]) == WALL - 60_000
    assert DiskFull
