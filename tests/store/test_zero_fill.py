"""A file of zeros made ahead joins the log by a rename, or not at all."""

from dataclasses import replace

from sim.disk import SimDisk
from tests.store.world import HOST, SMALL

from epochmq.base.errors import DiskFull
from epochmq.store.draft import Draft
from epochmq.store.store import Store
from epochmq.store.zero_fill import PATH

OPTIONS = replace(SMALL, zero_fill=True)
WALL = 1_700_000_000_000


def filled(size: int = 2000) -> tuple[SimDisk, Store]:
    disk = SimDisk()
    store = Store.open(disk, OPTIONS, HOST, WALL)
    put(store, size)
    store.tick(0, WALL)
    return disk, store


def put(store: Store, size: int) -> None:
    store.append([Draft("T", 0, b"x" * size, b"", born_host=HOST)], WALL)


def test_it_joins_the_log_when_it_is_whole() -> None:
    disk, store = filled()
    store.tick(1, WALL)
    assert (disk.list("prealloc"), len(disk.list("commitlog"))) == (["next"], 1)
    store.chores.run_all()
    assert (disk.list("prealloc"), len(disk.list("commitlog"))) == ([], 2)
    assert store._log.ready is not None
    put(store, 3000)
    assert (store._log.ready, store.queue_bounds("T", 0)) == (None, (0, 2))
    store.close(WALL)
    assert not disk.exists("prealloc")


def test_a_log_in_a_hurry_makes_its_own() -> None:
    disk, store = filled()
    put(store, 3000)
    store.tick(2, WALL)
    store._log.make_ready()
    store.chores.run_all()
    assert not disk.exists(PATH)
    put(store, 3000)
    assert store.verify().problems == []


def test_a_failure_leaves_nothing() -> None:
    disk, store = filled()

    def fail() -> None:
        raise DiskFull("full")

    chore = next(c for c in store.chores._waiting if c.name == "zeros")
    chore.steps.appendleft(fail)
    store.chores.run_all()
    assert not disk.exists(PATH)
    store.tick(100, WALL)
    assert disk.exists(PATH)  # begun anew


def test_a_crash_in_between_is_no_damage() -> None:
    disk, store = filled()
    (store.chores.next_step() or (lambda: None))()
    again = Store.open(disk.kill(), OPTIONS, HOST, WALL)
    put(again, 3000)
    again.tick(0, WALL)
    again.close(WALL)
