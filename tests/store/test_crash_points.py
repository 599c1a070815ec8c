"""Every disk operation of a scripted workload is the last one before a power cut (INV-16/17)."""

from dataclasses import replace
from functools import partial
from random import Random

import msgspec
import pytest
from sim.kernel.disk import SimDisk
from tests.store.world import (
    BATCH_TOPICS,
    BOOT,
    HOST,
    SMALL,
    TOPICS,
    World,
    crash_at,
    draft,
    has_batch_queues,
    script,
    state,
)
from tests.tiers import choose

from epochmq.store.store import Store

MODES = {
    "async": SMALL,
    "sync": replace(SMALL, sync_flush=True),
    "zeros": replace(SMALL, sync_flush=True, zero_fill=True),
    "transient": replace(SMALL, transient_pool=True),
    "sparse": replace(SMALL, preallocate=False, sync_flush=True),
    "batches": SMALL,
}


@pytest.mark.parametrize(("mode", "seed"), [(mode, seed) for seed, mode in enumerate(MODES)])
def test_any_crash_point_recovers(mode: str, seed: int) -> None:
    options = MODES[mode]
    step = choose(sample=5, soak=1)
    operation = -(seed % step)
    topics = BATCH_TOPICS if mode == "batches" else TOPICS
    run = partial(script, seed=seed, topics=topics)
    while world := crash_at(operation := operation + step, run, options):
        for cut in range(2):
            place = f"seed {seed} operation {operation} cut {cut}"
            disk = world.disk.crash(f"{seed}.{operation}.{cut}") if cut else world.disk.kill()
            boot = "another" if cut else BOOT
            world.store = Store.open(disk, options, HOST, world.wall, has_batch_queues, boot=boot)
            try:
                world.check()
            except AssertionError as error:
                raise AssertionError(f"{place}: {error}") from error
            before = state(world.store)
            again = Store.open(disk.kill(), options, HOST, world.wall, has_batch_queues)
            assert state(again) == before, f"{place}: a second recovery differs"
            disk = disk.crash("again")
            after_cut = Store.open(disk, options, HOST, world.wall, has_batch_queues)
            assert state(after_cut) == before, f"{place}: recovery was not durable"
            second_life(after_cut, disk, place)
    assert operation > 100


@pytest.mark.parametrize("seed", range(choose(sample=4, soak=40)))
def test_a_power_cut_during_recovery_loses_no_key_or_unit(seed: int) -> None:
    """Recovery deletes derived files and makes them again; a second cut may leave neither."""
    before = World(SMALL)
    script(before, seed=1000 + seed, steps=90)

    def recover(world: World) -> None:
        world.boot = "second"
        world.open()

    operation = 0
    while world := crash_at(
        operation := operation + 1, recover, SMALL, before.disk.crash(f"{seed}")
    ):
        for cut in range(2):
            disk = world.disk.crash(f"{seed}.{operation}.{cut}")
            again = World(SMALL, disk)
            again.boot = "third"
            again.wall, again.sent, again.promised = before.wall, before.sent, before.promised
            again.open()
            try:
                again.check()
            except AssertionError as error:
                raise AssertionError(f"seed {seed} operation {operation}: {error}") from error
    assert operation > 10


def second_life(store: Store, disk: SimDisk, place: str) -> None:
    """What was cut must not come back behind new messages (rocketmq#10666)."""
    rng = Random(place)
    store.append([draft(7_000_000 + number, rng) for number in range(2)], 1 << 42)
    store.sync()
    end = store.pointers.appended
    later = Store.open(disk.crash("later"), store.options, HOST, 1 << 42, has_batch_queues)
    assert later.pointers.appended == end, f"{place}: cut messages came back"


def test_a_cut_message_of_the_same_size_stays_away() -> None:
    rng = Random(1)
    world = World(SMALL)
    store = world.open()
    first = draft(9, rng, "T")
    drafts = [msgspec.structs.replace(first, body=b"%d" % number * 9) for number in range(4)]
    store.append(drafts[:1], world.wall)
    store.sync()
    store.append(drafts[1:3], world.wall)
    disk = world.disk.kill()
    inode = disk._files["commitlog/" + "0" * 20]
    size = int.from_bytes(inode.data[:4], "big")
    inode.data[size : size + 4] = bytes(4)  # the second record is lost, the third is there
    inode.durable[:] = inode.data
    inode.waiting.clear()
    store = Store.open(disk, SMALL, HOST, world.wall, has_batch_queues)
    assert (store.pointers.appended, store.recovered.cut.size) == (size, 2 * size)
    store.append(drafts[3:], world.wall)
    store.sync()
    later = Store.open(disk.crash(0), SMALL, HOST, world.wall, has_batch_queues)
    assert later.pointers.appended == 2 * size
    assert later.queue_bounds("T", drafts[0].queue_id) == (0, 2)
