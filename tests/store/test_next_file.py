"""A file made ahead joins the log by a rename, or not at all."""

from dataclasses import replace

import pytest
from sim.kernel.disk import SimDisk
from tests.store.replicas import REPLICATED, fill, opened
from tests.store.world import HOST, SMALL

from epochmq.base.errors import DiskFull
from epochmq.store.draft import Draft
from epochmq.store.next_file import CHORE, PATH
from epochmq.store.store import Store

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

    chore = next(c for c in store.chores._waiting if c.name == CHORE)
    chore.steps.appendleft(fail)
    store.chores.run_all()
    assert not disk.exists(PATH)
    store.tick(100, WALL)
    assert disk.exists(PATH)  # begun again


def test_a_crash_in_between_is_no_damage() -> None:
    disk, store = filled()
    (store.chores.next_step() or (lambda: None))()
    again = Store.open(disk.kill(), OPTIONS, HOST, WALL)
    put(again, 3000)
    again.tick(0, WALL)
    again.close(WALL)


def test_a_log_in_a_hurry_makes_the_name_durable_itself() -> None:
    """A file whose name a power cut may take holds no messages that count as synced."""
    disk, store = filled()
    store.tick(1, WALL)
    while store._log.ready is None:
        (store.chores.next_step() or (lambda: None))()
    operations: list[str] = []
    disk.on_operation = lambda _number, what: operations.append(what)
    put(store, 3000)
    assert "sync_dir commitlog" in operations
    store.sync()
    again = Store.open(disk.crash(1), OPTIONS, HOST, WALL)
    assert again.queue_bounds("T", 0) == (0, 2)


def test_a_name_that_cannot_be_synced_fences() -> None:
    disk, store = filled()
    disk.sync_fails = lambda path: path == "commitlog"
    store.chores.run_all()
    assert store.fenced


@pytest.mark.parametrize("zero_fill", [False, True])
def test_a_cut_while_it_is_made(zero_fill: bool) -> None:
    """The file takes the place behind the log's new end, or none."""
    disk = SimDisk()
    options = replace(REPLICATED, zero_fill=zero_fill)
    store = opened(disk, options)
    placed = fill(store, 30)
    store.tick(0, WALL)
    while store.chores.busy(CHORE) and (step := store.chores.next_step()) is not None:
        store.truncate(placed[3].offset, "cut")
        step()
    store.chores.run_all()
    assert store._log.ready is None or store._log.ready.start == store._log.active_end
    fill(store, 30, seed=2)
    store.sync()
    assert opened(disk.crash(1), options).pointers.appended == store.pointers.appended


MOUNTED = ("commitlog",)
"""The folder of the log is a file system of its own."""


def test_a_log_on_a_file_system_of_its_own_gets_its_files_ahead() -> None:
    """The store was fenced once a quarter of the first file was used."""
    disk = SimDisk(mounted=MOUNTED)
    store = Store.open(disk, OPTIONS, HOST, WALL)
    for number in range(6):
        put(store, 2000)
        store.tick(number, WALL)
        store.chores.run_all()
    assert store.fenced is None
    assert store._log.ready is not None
    assert not disk.exists("prealloc/next")
    assert store.verify().problems == []
    store.close(WALL)
    assert [name for name in disk.list("commitlog") if not name.isdecimal()] == []
    again = Store.open(disk, OPTIONS, HOST, WALL)
    assert again.queue_bounds("T", 0) == (0, 6)
    again.close(WALL)


def test_what_a_crash_left_below_the_log_is_removed() -> None:
    disk = SimDisk(mounted=MOUNTED)
    store = Store.open(disk, OPTIONS, HOST, WALL)
    for number in range(3):
        put(store, 2000)
        store.tick(number, WALL)
        store.chores.run_all()
    put(store, 2000)
    store.tick(4, WALL)
    store.sync()
    disk = disk.crash("left")
    again = Store.open(disk, OPTIONS, HOST, WALL)
    again.tick(5, WALL)
    again.chores.run_all()
    again.close(WALL)
    assert [name for name in disk.list("commitlog") if not name.isdecimal()] == []
