"""Where recovery begins, what it repairs, what it reports."""

from dataclasses import replace

import pytest
from sim.kernel.disk import SimDisk
from tests.store.world import HOST, SMALL, everything

from epochmq.base.errors import DiskFull, SyncFailed
from epochmq.store.damage import LogDamaged
from epochmq.store.draft import Draft
from epochmq.store.options import StoreOptions
from epochmq.store.store import Store

WALL = 1_700_000_000_000
OPTIONS = replace(SMALL, index=False)


def draft(number: int, topic: str = "T") -> Draft:
    body = b"%04d" % number * 100
    return Draft(topic, number % 2, body, b"KEYS\x01k%d\x02" % number, 0, (f"k{number}",),
                 born_host=HOST)  # fmt: skip


def filled(count: int = 100, options: StoreOptions = OPTIONS) -> tuple[SimDisk, Store]:
    disk = SimDisk()
    store = Store.open(disk, options, HOST, WALL)
    for number in range(count):
        store.append([draft(number)], WALL + number * 1000)
        store.sync()
        store.tick(number * 1000, WALL + number * 1000)
        store.chores.run_all()
    return disk, store


def reopened(disk: SimDisk, options: StoreOptions = OPTIONS) -> Store:
    return Store.open(disk, options, HOST, WALL)


def test_an_empty_directory() -> None:
    disk = SimDisk()
    store = reopened(disk)
    assert (store.recovered.clean, store.recovered.records, store.pointers.appended) == (True, 0, 0)
    again = reopened(disk.kill())
    assert (again.recovered.clean, again.recovered.reason) == (False, "empty log")


def test_a_log_whose_files_are_gone_is_damaged() -> None:
    disk, store = filled(10)
    store.close(WALL)
    disk.remove("commitlog")
    with pytest.raises(LogDamaged, match="all files are missing"):
        reopened(disk)


def test_queues_without_a_log_go() -> None:
    disk, store = filled(10)
    store.close(WALL)
    for path in ("commitlog", "checkpoint"):
        disk.remove(path)
    assert reopened(disk).topics() == []
    assert not disk.exists("consumequeue")


def test_a_clean_stop_reads_the_last_file_only() -> None:
    disk, store = filled()
    store.close(WALL)
    found = reopened(disk).recovered
    assert (found.clean, found.records < 9, found.reason) == (True, True, "no record")
    assert found.last_wall_ms == WALL + 99_000


def test_a_crash_reads_what_the_checkpoint_does_not_vouch_for() -> None:
    disk, store = filled()
    again = reopened(disk.kill())
    assert 5 <= again.recovered.records < 30
    assert again.pointers.appended == store.pointers.appended
    assert again.verify().problems == []


def test_units_that_a_clean_stop_lost_are_derived() -> None:
    disk, store = filled(20)
    store.close(WALL)
    disk.remove("consumequeue/T/1")
    path = "consumequeue/T/0/" + "0" * 20
    disk.open(path).write(20 * 7, bytes(60))
    again = reopened(disk)
    assert again.queue_bounds("T", 0) == (0, 10)


@pytest.mark.parametrize("gone", ["200", "400", "600"])
def test_a_missing_old_queue_file_makes_all_queues_again(gone: str) -> None:
    disk, _store = filled()
    disk = disk.kill()
    disk.remove("consumequeue/T/0/" + gone.zfill(20))
    again = reopened(disk)
    assert again.recovered.rebuilt
    assert again.verify().problems == []
    assert len(list(everything(again))) == 100


def test_a_missing_queue_makes_all_queues_again() -> None:
    disk, _store = filled()
    disk = disk.kill()
    disk.remove("consumequeue/T/1")
    again = reopened(disk)
    assert again.recovered.rebuilt
    assert len(list(everything(again))) == 100


def test_a_queue_whose_old_units_expired_goes_on_where_it_was() -> None:
    disk, store = filled(options=replace(OPTIONS, disk_forcibly_ratio=0.0))
    store.append([draft(7, "New")], WALL + 200_000)
    for _ in range(30):
        store.append([draft(8)], WALL + 200_000)
    low_high = store.queue_bounds("T", 0)
    again = reopened(disk.kill())
    assert not again.recovered.rebuilt
    assert again.queue_bounds("T", 0) == low_high
    assert again.queue_bounds("New", 1) == (0, 1)
    assert again.verify().problems == []


def test_a_log_that_lost_its_end_after_a_clean_stop() -> None:
    disk, store = filled(30)
    store.close(WALL)
    last = disk.list("commitlog")[-1]
    disk.open(f"commitlog/{last}").write(600, b"\xff\xff")
    before = disk.contents()
    with pytest.raises(LogDamaged, match="body checksum is wrong, T/1 offset 12"):
        reopened(disk)
    assert disk.contents() == before


def test_a_replica_cuts_a_damaged_log_keeps_all_of_it_and_counts_as_unclean() -> None:
    options = replace(OPTIONS, replicated=True)
    disk, store = filled(30, options)
    end = store.pointers.appended
    store.limit_confirm(end)
    store.close(WALL)
    last = disk.list("commitlog")[-1]
    disk.open(f"commitlog/{last}").write(600, b"\xff\xff")
    again = reopened(disk, options)
    found = again.recovered
    assert (found.clean, found.reason) == (False, "body checksum is wrong")
    assert len(found.damages) == 1
    assert found.cut.offset == found.damages[0].start == again.pointers.appended
    assert found.lost_confirmed == found.cut.size == end - again.pointers.appended
    assert again.verify().problems == []
    assert reopened(disk.crash(1), options).pointers.appended == again.pointers.appended


def test_a_replica_without_space_for_what_it_must_cut_stays_as_it_is() -> None:
    options = replace(OPTIONS, replicated=True)
    disk, store = filled(30, options)
    store.limit_confirm(store.pointers.appended)
    store.close(WALL)
    last = disk.list("commitlog")[-1]
    disk.open(f"commitlog/{last}").write(600, b"\xff\xff")
    log = [data for path, data in disk.contents().items() if path.startswith("commitlog")]
    disk.quota_bytes = 0
    with pytest.raises(DiskFull):
        reopened(disk, options)
    assert [d for path, d in disk.contents().items() if path.startswith("commitlog")] == log


@pytest.mark.parametrize("checksums", [True, False])
def test_damage_in_an_old_file_is_not_hidden(checksums: bool) -> None:
    """Without a checkpoint, checksums still say what was on the device."""
    disk, _store = filled()
    disk = disk.kill()
    disk.remove("checkpoint")
    if not checksums:
        disk.remove("checksums")
    disk.open("commitlog/" + "4096".zfill(20)).write(600, b"\xff\xff")
    if checksums:
        with pytest.raises(LogDamaged):
            reopened(disk)
        return
    again = reopened(disk)
    cut = again.recovered.cut
    assert 4096 <= cut.offset < 8192
    assert f"0-{again.pointers.appended}.log" in disk.list("cut")
    assert len(disk.list("cut")) > 5


def test_an_extra_zero_file_is_accepted() -> None:
    disk, store = filled(30)
    end = store.pointers.appended
    store.close(WALL)
    last = int(disk.list("commitlog")[-1])
    disk.open(f"commitlog/{last + 4096:020d}", create_size=4096)
    again = reopened(disk)
    assert again.pointers.appended == end
    assert len(disk.list("commitlog")) == last // 4096 + 1


def test_an_index_beyond_the_log_is_made_again() -> None:
    options = replace(SMALL, index_items=200)
    disk, store = filled(60, options)
    store.close(WALL)
    last = disk.list("commitlog")[-1]
    disk.open(f"commitlog/{last}").write(4, b"\0\0\0\0")
    for path in ("checkpoint", "checksums"):
        disk.remove(path)
    disk.write_file("abort", b"1")
    again = reopened(disk, options)
    assert again.verify().problems == []
    lost = again.query_index("T", "k59", 9, 0, 1 << 60).records
    kept = again.query_index("T", "k3", 9, 0, 1 << 60).records
    assert (len(lost), len(kept)) == (0, 1)


@pytest.mark.parametrize("kept", [0, 1, 3])
@pytest.mark.parametrize("also", ["", "checkpoint", "checksums"])
def test_index_files_that_a_clean_stop_lost_are_made_again(kept: int, also: str) -> None:
    # Messages of several log files: keys were looked for in the last 4 MiB of the log only.
    options = replace(SMALL, message_bytes_max=400, index_items=100)
    disk, store = filled(400, options)
    store.close(WALL)
    for name in disk.list("index")[kept:]:
        disk.remove(f"index/{name}")
    if also:
        disk.remove(also)
    again = reopened(disk, options)
    counts = [len(again.query_index("T", f"k{n}", 9, 0, 1 << 60).records) for n in range(400)]
    assert counts == [1] * 400
    assert again.verify().problems == []


def test_messages_without_keys_do_not_make_recovery_read_everything() -> None:
    disk = SimDisk()
    options = replace(SMALL, queue_sync_interval_ms=1000, index_sync_interval_ms=1000)
    store = Store.open(disk, options, HOST, WALL)
    for number in range(100):
        store.append(
            [Draft("T", 0, b"%04d" % number * 100, b"", born_host=HOST)], WALL + number * 1000
        )
        store.sync()
        store.tick(number * 1000, WALL)
        store.chores.run_all()
    assert reopened(disk.kill(), options).recovered.records < 30


def test_a_clock_that_went_back_is_not_trusted() -> None:
    disk, store = filled(40)
    for number in range(40, 60):  # an hour back, nothing of it reaches the queues' files
        store.append([draft(number)], WALL - 3_600_000)
    store.sync()
    again = reopened(disk.crash(3))
    assert len(list(everything(again))) == 60
    assert again.verify().problems == []


def test_a_clock_that_went_back_while_the_store_was_stopped_lowers_the_claims() -> None:
    """Else messages stored by the new clock would count as synced before they are."""
    disk, store = filled()
    store.close(WALL)
    assert store._checkpoint.safe_wall_ms() > WALL - 60_000
    again = Store.open(disk, OPTIONS, HOST, WALL - 60_000)
    assert again._checkpoint.safe_wall_ms() < WALL - 60_000


@pytest.mark.parametrize("replicated", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_what_a_failed_sync_left_in_the_cache_is_written_again(seed: int, replicated: bool) -> None:
    """fsyncgate: the pages count as clean, so a sync after the restart would write nothing."""
    options = replace(OPTIONS, replicated=replicated)
    disk, store = filled(30, options)
    store.append([draft(number) for number in range(30, 50)], WALL + 30_000)
    disk.sync_fails = lambda path: path.startswith("commitlog")
    with pytest.raises(SyncFailed):
        store.sync()
    assert store.fenced is not None
    again = disk.kill()  # the process is started again, the cache lives
    store = reopened(again, options)
    end = store.pointers.synced
    store.append([draft(50)], WALL + 60_000)
    store.sync()
    assert store.pointers.synced > end > 50 * 400
    cold = reopened(again.crash(seed), options)
    assert cold.pointers.appended == store.pointers.synced
    assert cold.verify().problems == []


def test_what_the_checkpoint_calls_synced_is_not_written_again() -> None:
    disk, _store = filled(100)
    again = disk.kill()
    written: list[str] = []
    again.on_operation = lambda _number, what: written.append(what)
    reopened(again)
    log = [what for what in written if what.startswith("write commitlog")]
    assert 1 <= sum(int(what.rpartition("+")[2]) for what in log) < 3 * 4096


def test_an_index_file_that_a_failed_sync_left_short_is_made_again() -> None:
    """The device never got its size; a power cut then leaves as much of it as was written later."""
    options = replace(SMALL, index_items=200)
    disk, _store = filled(20, options)
    disk = disk.kill()
    name = disk.list("index")[-1]
    disk.open(f"index/{name}").truncate(524)
    again = reopened(disk, options)
    assert again.verify().problems == []
    assert len(again.query_index("T", "k19", 9, 0, 1 << 60).records) == 1
