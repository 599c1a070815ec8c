"""Cutting a running store: what follows the log, what a crash may leave, what waits for it."""

from dataclasses import replace
from random import Random

import pytest
from sim.kernel.disk import PowerCut, SimDisk
from tests.store.replicas import REPLICATED, WALL, fill, log_bytes, opened, shown
from tests.store.world import draft, everything, state

from epochmq.base.errors import EnvironmentFault
from epochmq.base.safeguards import Safeguards
from epochmq.model.record import decode
from epochmq.store.draft import Appended
from epochmq.store.epochs import EpochEntry
from epochmq.store.options import StoreOptions
from epochmq.store.store import Store

MODES = {
    "async": REPLICATED,
    "sync": replace(REPLICATED, sync_flush=True),
    "zeros": replace(REPLICATED, sync_flush=True, zero_fill=True),
    "transient": replace(REPLICATED, transient_pool=True),
    "sparse": replace(REPLICATED, preallocate=False),
}


def settled(disk: SimDisk, options: StoreOptions, count: int = 30) -> tuple[Store, list[Appended]]:
    """Everything written, synced and claimed by the checkpoint; ten are confirmed."""
    store = opened(disk, options)
    # Most are older than the checkpoint's margin: recovery believes that they are on the device.
    placed = fill(store, count, step_ms=1000)
    store.sync()
    store.limit_confirm(placed[10].offset)
    for now in range(0, 1000, 50):
        store.tick(now, WALL + count * 1000 + now)
        store.chores.run_all()
    return store, placed


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("first", [10, 14, 29])
def test_a_crash_at_any_operation_leaves_it_whole_or_cut(mode: str, first: int) -> None:
    """INV-13, INV-16, H13: and never anything of what was cut once it had returned."""
    operation = 0
    done = False
    while not done:
        operation += 1
        disk = SimDisk()
        store, placed = settled(disk, MODES[mode])
        whole, point = log_bytes(store), placed[first].offset
        disk.stop_at = disk.operations + operation
        seen: list[str] = []
        disk.on_operation = lambda _number, what, seen=seen: seen.append(what)  # type: ignore[misc]
        try:
            store.truncate(point, "a new master")
            done = True
            disk.stop_at = None
        except PowerCut:
            pass
        writing = seen[-1].startswith("write commitlog")
        for seed in range(6 if writing else 3):
            after = disk.crash(f"{mode}{seed}") if seed else disk.kill()
            again = opened(after, MODES[mode])
            end = again.pointers.appended
            assert point <= end <= len(whole)
            assert log_bytes(again) == whole[:end]
            assert not done or end == point
            assert again.verify().problems == []
            assert again.recovered.lost_confirmed == 0
            before = state(again)
            assert state(opened(after.crash("again"), MODES[mode])) == before
            go_on(again, after, point, MODES[mode])
    assert operation > 3


def go_on(store: Store, disk: SimDisk, point: int, options: StoreOptions) -> None:
    """Cut it again, write other messages of the same sizes: the old ones stay away."""
    store.truncate(point, "again")
    rng = Random("other")
    store.append([draft(500 + n, rng) for n in range(2)], WALL + 90_000)
    store.sync()
    end = store.pointers.appended
    later = opened(disk.crash("later"), options)
    assert later.pointers.appended == end
    later.limit_confirm(None)
    bodies = [decode(record).body for *_, record in everything(later)]
    assert sum(body.startswith((b"500:", b"501:")) for body in bodies) == 2
    assert later.verify().problems == []


def test_without_the_safeguard_the_tail_comes_back() -> None:
    """S05, rocketmq#10666: what the simulator must find."""
    disk = SimDisk()
    store = opened(disk, safeguards=Safeguards(durable_truncation_first=False))
    placed = fill(store, 4)
    store.sync()
    store.truncate(placed[2].offset, "in memory")
    assert store.pointers.appended == placed[2].offset
    assert opened(disk.kill()).pointers.appended > placed[2].offset


def test_a_sync_on_its_way_says_nothing_about_what_comes_next() -> None:
    store = opened(options=MODES["sync"])
    placed = fill(store, 6)
    told: list[bool] = []
    store.when_synced(placed[5].offset, told.append)
    offset, call = store.sync_point()
    call()
    store.truncate(placed[3].offset, "cut")
    assert told == [False]
    fill(store, 6, seed=2)
    store.synced_to(offset)
    assert store.pointers.synced == placed[3].offset
    store.sync()
    assert store.pointers.synced == store.pointers.appended


def test_a_chore_on_its_way_claims_nothing() -> None:
    disk = SimDisk()
    store = opened(disk)
    placed = fill(store, 12)
    for now in range(0, 200, 20):
        store.tick(now, WALL + now)
    assert len(store.chores) > 0
    store.truncate(placed[4].offset, "cut")
    store.chores.run_all()
    assert store._checkpoint.queues_wall_ms <= WALL + 4
    assert store.fenced is None


def test_the_transient_pool_is_cut_too() -> None:
    store = opened(options=MODES["transient"])
    placed = fill(store, 6)
    assert store.transferable == 0
    assert len(store.slice(0, 10)) == 0
    cut = store.truncate(placed[4].offset, "never sent")
    assert (cut.count, store.pointers.appended) == (2, placed[4].offset)
    assert store.verify().problems == []


def test_a_damaged_tail_makes_all_queues_be_looked_at() -> None:
    disk = SimDisk()
    store = opened(disk)
    placed = fill(store, 8)
    segment = store._log.segments[0]
    segment.file.write(placed[2].offset + 4, b"\1\2\3\4")
    cut = store.truncate(placed[1].offset, "cut", epochs=[EpochEntry(7, 0)])
    assert (cut.count, cut.epochs) == (1, (7,))
    store.limit_confirm(None)
    assert store.verify().problems == []
    assert sum(high for _, high in shown(store).values()) == 1


def test_what_was_cut_at_one_place_twice_is_kept_twice() -> None:
    disk = SimDisk()
    store = opened(disk)
    for seed in (1, 2):
        fill(store, 3, seed=seed)
        store.truncate(0, "deposed")
    assert disk.list("cut") == ["0-0.1.log", "0-0.log"]


def test_what_is_cut_is_kept_whole_however_large() -> None:
    disk = SimDisk()
    store, placed = settled(disk, MODES["sync"])
    before = log_bytes(store)[placed[10].offset :]
    store.limit_confirm(placed[12].offset)
    cut = store.truncate(placed[10].offset, "unclean", operator=True)
    assert len(cut.kept) > 1
    assert b"".join(disk.read_file(path) or b"" for path in cut.kept) == before
    assert cut.below_confirmed == placed[12].offset - placed[10].offset
    assert "of them confirmed" in str(cut)


def test_what_comes_after_an_unclean_cut_is_not_confirmed_at_once() -> None:
    store = opened()
    placed = fill(store, 10)
    store.limit_confirm(placed[9].offset)
    store.truncate(placed[2].offset, "unclean", operator=True)
    fill(store, 10, seed=2)
    assert store.pointers.confirmed == placed[2].offset


def test_a_failed_sync_fences() -> None:
    disk = SimDisk()
    store = opened(disk)
    placed = fill(store, 3)
    disk.sync_fails = lambda path: path.startswith("commitlog")
    with pytest.raises(EnvironmentFault):
        store.truncate(placed[1].offset, "cut")
    assert store.fenced


@pytest.mark.parametrize("mode", MODES)
def test_the_event_loop_neither_syncs_nor_deletes_and_does_little_at_a_time(mode: str) -> None:
    """F8: the log, the queues and the index of many topics are cut between turns of the loop."""
    disk = SimDisk()
    store = opened(disk, MODES[mode])
    topics = tuple(f"T{number}" for number in range(120))
    placed = fill(store, 400, topics=topics[:3])
    rng = Random("more")
    for number, topic in enumerate(topics * 2):
        (result,) = store.append([draft(5000 + number, rng, topic)], WALL + 400 + number)
        assert isinstance(result, Appended)
    store.sync()
    store.limit_confirm(store.pointers.appended)  # all keys are in the index
    for now in range(0, 1000, 50):
        store.tick(now, WALL + 1000 + now)
        store.chores.run_all()
    steps = store.cutting(placed[50].offset, "unclean", operator=True)
    turns: list[list[str]] = [[]]
    disk.on_operation = lambda _number, what: turns[-1].append(what)
    while (step := next(steps, None)) is not None:
        turns.append([])
        step()
        turns[-1] = []
    assert len(turns) > len(topics) // 16
    for turn in turns:
        assert len(turn) <= 3 * 16, turn
        assert not [what for what in turn if what.startswith(("sync", "remove"))], turn
    assert store.verify().problems == []
    assert store.query_index("T1", "k5001", 10, 0, 1 << 60).records == []
