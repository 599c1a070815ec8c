"""What goes, when, and what never goes."""

from dataclasses import replace

from sim.kernel.disk import BLOCK, SimDisk
from tests.store.world import HOST, SMALL, World, everything

from epochmq.store.draft import Draft
from epochmq.store.store import Store

HOUR = 3_600_000
DAY = 24 * HOUR
NOON = 1_700_000_000_000 - 1_700_000_000_000 % DAY + 12 * HOUR


def filled(**changes: object) -> World:
    base = replace(SMALL, clean_interval_ms=100, delete_when=())
    options = replace(base, **changes)  # type: ignore[arg-type]
    world = World(options, SimDisk(quota_bytes=100 * BLOCK))
    world.wall = NOON
    world.disk.wall_ms = NOON
    world.open()
    for number in range(80):
        world.append(
            [Draft("T", 0, b"%03d" % number * 100, b"KEYS\x01k", 0, ("k",), born_host=HOST)]
        )
    world.sync()
    for _ in range(5):
        world.pass_time(200)
        world.tick()
    return world


def age(world: World) -> Store:
    assert world.store is not None
    for _ in range(3):
        world.pass_time(100)
        world.tick()
    return world.store


def test_nothing_goes_before_its_time() -> None:
    world = filled()
    world.pass_time(71 * HOUR)
    store = age(world)
    assert (store.pointers.start, store.retention.deleted_files) == (0, 0)


def test_old_files_go_at_the_hour() -> None:
    world = filled()
    world.pass_time(73 * HOUR)
    assert age(world).pointers.start == 0  # no hour is set
    world.store.retention.adopt(  # type: ignore[union-attr]
        replace(world.options, delete_when=tuple(range(24)), delete_batch=3)
    )
    world.pass_time(100)
    world.tick()
    store = world.store
    assert store is not None
    assert store.pointers.start == 3 * 4096  # a batch at a time
    store = age(world)
    assert store.statistics()["log_files"] == 1  # never the one being written
    low, high = store.queue_bounds("T", 0)
    assert (low, high) == (70, 80)
    assert [offset for _t, _q, offset, _r in everything(store)] == list(range(70, 80))
    assert store.read_queue("T", 0, 3, 1, 1).next_offset == low
    assert world.disk.list("consumequeue/T/0") == ["1400".zfill(20)]
    assert store.verify().problems == []
    assert len(store.query_index("T", "k", 100, 0, 1 << 50).records) == 10
    again = Store.open(world.disk.kill(), store.options, HOST, world.wall)
    assert again.queue_bounds("T", 0) == (70, 80)
    assert again.pointers.start == store.pointers.start
    again.close(world.wall)


def test_by_hand_at_any_hour() -> None:
    world = filled()
    world.pass_time(73 * HOUR)
    assert world.store is not None
    world.store.retention.by_hand = True
    assert age(world).retention.deleted_files > 0


def test_a_full_disk_deletes_whatever_the_age() -> None:
    world = filled(disk_forcibly_ratio=0.2)
    store = age(world)
    assert store.statistics()["log_files"] == 1


def test_a_filling_disk_deletes_the_expired_at_any_hour() -> None:
    world = filled(disk_used_ratio=0.1)
    assert age(world).pointers.start == 0
    world.pass_time(73 * HOUR)
    assert age(world).statistics()["log_files"] == 1


def test_what_is_not_synced_stays() -> None:
    world = filled(disk_forcibly_ratio=0.0)
    store = world.store
    assert store is not None
    store.pointers.synced = 5000
    assert store.retention._may_go(0, True) is (store.pointers.start < 4096)


def test_views_of_a_deleted_file_stay_readable() -> None:
    world = filled()
    store = world.store
    assert store is not None
    chunk = store.read_queue("T", 0, 0, 1, 1).chunks[0]
    before = bytes(chunk)
    world.pass_time(73 * HOUR)
    store.retention.by_hand = True
    age(world)
    assert store.message_at(0) is None
    assert bytes(chunk) == before


def test_the_start_of_the_log_and_what_was_cut_follow() -> None:
    world = filled(reserved_hours=1, delete_when=(12,))
    store = world.store
    assert store is not None
    before = store.pointers.start
    world.disk.make_dir("cut")
    world.disk.write_file("cut/1-0.log", b"x")
    world.disk._files["cut/1-0.log"].wall_ms = NOON
    assert store.retention.delete_expired(NOON + DAY) > 0
    assert store.pointers.start == store._log.start > before
    assert world.disk.list("cut") == []
