"""The facade: what the broker relies on."""

from dataclasses import replace

import pytest
from sim.kernel.disk import BLOCK, SimDisk, SimFile
from tests.store.world import HOST, SMALL

from epochmq.base.errors import DiskFailed, StoreDamaged, StoreInUse, SyncFailed
from epochmq.base.ports import Buffer
from epochmq.model.record import decode
from epochmq.store.draft import Appended, Draft, PutStatus
from epochmq.store.read import GetStatus
from epochmq.store.store import Store

WALL = 1_700_000_000_000


def plain(number: int = 0, topic: str = "T", queue_id: int = 0, size: int = 20) -> Draft:
    body = (b"%d:" % number).ljust(size, b".")
    return Draft(topic, queue_id, body, b"", 0, (), born_host=HOST)


def opened(disk: SimDisk | None = None, **changes: object) -> Store:
    options = replace(SMALL, **changes)  # type: ignore[arg-type]
    return Store.open(disk or SimDisk(), options, HOST, WALL)


def bodies(store: Store, topic: str = "T", queue_id: int = 0, offset: int = 0) -> list[bytes]:
    found = store.read_queue(topic, queue_id, offset, 1000, 1 << 30)
    result = []
    for chunk in found.chunks:
        while len(chunk):
            message = decode(chunk)
            result.append(message.body)
            chunk = chunk[message.size :]
    return result


def test_append_and_read() -> None:
    store = opened()
    arrived: list[object] = []
    store.arrivals = arrived.append
    results = store.append([plain(0), plain(1), plain(2, queue_id=1)], WALL)
    assert [(r.queue_offset, r.store_wall_ms) for r in results if isinstance(r, Appended)] == [
        (0, WALL),
        (1, WALL),
        (0, WALL),
    ]
    assert arrived == [[("T", 0, 2), ("T", 1, 1)]]
    assert bodies(store) == [plain(0).body, plain(1).body]
    assert (store.queue_bounds("T", 0), store.queue_bounds("no", 0)) == ((0, 2), (0, 0))
    assert (store.topics(), store.queues("T"), store.queues("no")) == (["T"], [0, 1], [])
    first = results[0]
    assert isinstance(first, Appended)
    record = store.message_at(first.offset, first.size)
    assert record is not None
    assert decode(record).body == plain(0).body
    assert store.statistics()["put_count"] == 3
    assert store.writable


def test_rolls_over_files_and_reads_across_them() -> None:
    store = opened()
    drafts = [plain(number, size=300) for number in range(60)]
    assert all(isinstance(r, Appended) for r in store.append(drafts, WALL))
    assert bodies(store) == [draft.body for draft in drafts]
    assert store.statistics()["log_files"] == 6


def test_sync_flush_shows_only_what_is_synced() -> None:
    store = opened(sync_flush=True)
    arrived: list[object] = []
    told: list[bool] = []
    store.arrivals = arrived.append
    woken: list[int] = []
    store.on_append = lambda: woken.append(1)
    placed = store.append([plain()], WALL)[0]
    assert isinstance(placed, Appended)
    store.when_synced(placed.offset + placed.size, told.append)
    assert (arrived, told, store.queue_bounds("T", 0)) == ([], [], (0, 0))
    assert (store.message_at(0), store.needs_sync, store.flush_due(0)) == (None, True, True)
    offset, call = store.sync_point()
    store.append([plain(1)], WALL)
    call()
    store.synced_to(offset)
    assert (arrived, told, store.queue_bounds("T", 0)) == ([[("T", 0, 1)]], [True], (0, 1))
    assert len(woken) == 2
    store.when_synced(offset, told.append)
    assert told == [True, True]


def test_a_failed_sync_fences_for_good() -> None:
    disk = SimDisk()
    store = opened(disk, sync_flush=True)
    told: list[bool] = []
    store.append([plain()], WALL)
    store.when_synced(1, told.append)
    disk.sync_fails = lambda path: path.startswith("commitlog")
    with pytest.raises(SyncFailed):
        store.sync()
    disk.sync_fails = lambda _path: False
    assert told == [False]
    assert store.append([plain()], WALL) == [PutStatus.SERVICE_NOT_AVAILABLE]
    assert store.append_batch([plain()], WALL) is PutStatus.SERVICE_NOT_AVAILABLE
    store.synced_to(1 << 40)
    store.when_synced(1, told.append)
    assert told == [False, False]
    assert not store.flush_due(10**9)
    store.tick(0, WALL)
    store.close(WALL)
    assert disk.exists("abort")
    assert store.queue_bounds("T", 0) == (0, 0)


def test_a_write_error_that_is_no_lack_of_space_fences() -> None:
    store = opened()
    store.append([plain()], WALL)

    class Broken(SimFile):
        def write(self, offset: int, data: Buffer) -> None:
            raise DiskFailed("I/O error")

    store._log.segments[-1].file.__class__ = Broken
    assert store.append([plain()], WALL) == [PutStatus.SERVICE_NOT_AVAILABLE]
    assert store.fenced == "I/O error"


@pytest.mark.parametrize("preallocate", [True, False])
def test_disk_full_refuses_serves_and_resumes(preallocate: bool) -> None:
    disk = SimDisk(quota_bytes=12 * BLOCK)
    store = opened(disk, preallocate=preallocate, index=False)
    now = 0
    sent = 0
    for _ in range(100):
        result = store.append([plain(sent, size=900)], WALL)[0]
        if isinstance(result, PutStatus):
            break
        sent += 1
        now += 50
        store.tick(now, WALL)
    assert isinstance(result, PutStatus)
    assert result in (PutStatus.CREATE_MAPPED_FILE_FAILED, PutStatus.SERVICE_NOT_AVAILABLE)
    assert store.disk_full
    assert not store.writable
    assert store.append([plain()], WALL) == [PutStatus.SERVICE_NOT_AVAILABLE]
    assert bodies(store) == [plain(number, size=900).body for number in range(sent)]
    store.tick(now + 50, WALL)
    assert store.disk_full
    disk.quota_bytes += 8 * BLOCK
    store.tick(now + 100, WALL)
    assert not store.disk_full
    assert isinstance(store.append([plain(sent, size=900)], WALL)[0], Appended)
    assert len(bodies(store)) == sent + 1
    assert store.verify().problems == []
    again = Store.open(disk.kill(), store.options, HOST, WALL)
    assert again.queue_bounds("T", 0) == (0, sent + 1)


@pytest.mark.parametrize("batch", [False, True])
def test_a_roll_counts_though_the_write_behind_it_fails(batch: bool) -> None:
    """INV-11: the blank is in the log, and the next sync takes it in."""
    disk = SimDisk(quota_bytes=12 * BLOCK)
    store = opened(disk, preallocate=False, index=False, commit_log_file_bytes=2 * BLOCK)
    store.append([plain(size=900)], WALL)
    store._log.make_ready()
    disk.quota_bytes = disk._used() + BLOCK  # the blank fits, the record does not
    run = [plain(number, size=900) for number in range(8)]
    append = store.append_batch if batch else store.append
    assert append(run, WALL) != []
    pointers = store.pointers
    assert store._log.end == pointers.appended == 2 * BLOCK
    store.sync()
    pointers.check_order()
    assert pointers.synced == pointers.appended == pointers.confirmed
    disk.quota_bytes = 1 << 30
    store.tick(100, WALL)
    assert isinstance(store.append([plain()], WALL)[0], Appended)
    assert store.verify().problems == []


def test_what_was_refused_never_comes_back() -> None:
    disk = SimDisk(quota_bytes=6 * BLOCK)
    store = opened(disk, preallocate=False, index=False, commit_log_file_bytes=1 << 16)
    run = [plain(number, size=900) for number in range(30)]
    results = store.append(run, WALL)
    assert set(results) == {PutStatus.SERVICE_NOT_AVAILABLE}
    for after in (disk.kill(), disk.crash(1)):
        assert Store.open(after, store.options, HOST, WALL).pointers.appended == 0


def test_above_the_warning_level_writes_are_refused() -> None:
    disk = SimDisk(quota_bytes=100 * BLOCK)
    store = opened(disk, disk_warning_ratio=0.5)
    store.append([plain()], WALL)
    filler = disk.open("filler", create_size=0)
    filler.write(0, bytes(60 * BLOCK))
    store.tick(100, WALL)
    assert not store.writable
    disk.remove("filler")
    store.tick(200, WALL)
    assert store.writable


def test_batch_is_all_or_nothing_in_one_file() -> None:
    store = opened()
    store.append([plain(size=3000)], WALL)
    placed = store.append_batch([plain(number, size=300) for number in range(5)], WALL)
    assert isinstance(placed, list)
    assert placed[0].offset == 4096
    assert store.append_batch([plain(size=1000)] * 4, WALL) is PutStatus.MESSAGE_ILLEGAL
    bad = plain(topic="a/b")
    assert store.append_batch([plain(), bad], WALL) is PutStatus.MESSAGE_ILLEGAL
    assert store.append_batch([plain(topic="New")], WALL) == [
        Appended(placed[-1].offset + placed[-1].size, 114, 0, WALL)
    ]
    assert store.queue_bounds("T", 0) == (0, 6)


def test_transient_pool_shows_only_what_is_committed() -> None:
    disk = SimDisk()
    store = opened(disk, transient_pool=True, transient_pool_bytes=1000)
    store.append([plain()], WALL)
    assert (store.queue_bounds("T", 0), store.message_at(0)) == ((0, 0), None)
    assert store.statistics()["transient_bytes"] == 112
    store.tick(1000, WALL)
    assert (store.queue_bounds("T", 0), bodies(store)) == ((0, 1), [plain().body])
    store.append([plain(size=950)], WALL)  # more than the pool holds
    assert store.queue_bounds("T", 0) == (0, 2)
    store.append([plain(number, size=500) for number in range(20)], WALL)
    store.close(WALL)
    assert opened(disk).queue_bounds("T", 0) == (0, 22)


def test_a_full_transient_pool_may_answer_busy() -> None:
    store = opened(transient_pool=True, transient_pool_bytes=1000, transient_fail_fast=True)
    assert isinstance(store.append([plain(size=1000)], WALL)[0], Appended)
    assert store.append([plain()], WALL) == [PutStatus.OS_PAGE_CACHE_BUSY]
    store.tick(1000, WALL)
    assert isinstance(store.append([plain()], WALL)[0], Appended)


def test_transient_pool_waits_for_space() -> None:
    disk = SimDisk(quota_bytes=5 * BLOCK)
    store = opened(disk, transient_pool=True, preallocate=False, commit_log_file_bytes=1 << 16)
    store.append([plain(number, size=900) for number in range(30)], WALL)
    store.tick(1000, WALL)
    assert (store.disk_full, store.queue_bounds("T", 0)) == (True, (0, 0))
    disk.quota_bytes = 1 << 20
    store.tick(2000, WALL)
    assert (store.disk_full, store.queue_bounds("T", 0)) == (False, (0, 30))


def test_confirm_limit_bounds_readers() -> None:
    store = opened()
    store.limit_confirm(0)
    placed = store.append([plain()], WALL)[0]
    assert isinstance(placed, Appended)
    assert store.queue_bounds("T", 0) == (0, 0)
    store.limit_confirm(placed.size)
    assert (store.queue_bounds("T", 0), store.pointers.confirmed) == ((0, 1), placed.size)
    store.limit_confirm(None)
    store.append([plain()], WALL)
    assert store.queue_bounds("T", 0) == (0, 2)


def test_async_flush_by_interval_and_pages() -> None:
    store = opened(flush_interval_ms=100, flush_thorough_interval_ms=1000, flush_least_pages=1)
    assert not store.flush_due(0)
    store.append([plain(size=3000), plain(size=3000)], WALL)
    assert store.flush_due(0)
    store.sync()
    store.append([plain()], WALL)
    assert not store.flush_due(50)
    assert store.flush_due(100)  # the thorough flush is due for the first time
    store.sync()
    store.append([plain()], WALL)
    assert not store.flush_due(300)
    assert store.flush_due(1200)


def test_async_flush_at_the_next_interval_when_somebody_waits() -> None:
    """What is saved behind the log (offsets, levels) is not older for being little (INV-29)."""
    store = opened(flush_interval_ms=100, flush_thorough_interval_ms=1000, flush_least_pages=1)
    assert not store.flush_due(0)
    store.append([plain()], WALL)
    assert store.flush_due(100)  # the thorough one
    store.sync()
    store.append([plain()], WALL)
    told: list[bool] = []
    store.when_synced(store.pointers.appended, told.append)
    assert not store.flush_due(150)
    assert store.flush_due(200)
    store.sync()
    assert told == [True]
    store.append([plain()], WALL)
    assert not store.flush_due(300)


def test_locked_while_open() -> None:
    disk = SimDisk()
    store = opened(disk)
    with pytest.raises(StoreInUse):
        opened(disk)
    store.close(WALL)
    store.close(WALL)
    opened(disk)


def test_a_store_that_cannot_be_opened_is_let_go() -> None:
    disk = SimDisk()
    store = opened(disk)
    store.append([plain(size=3000)] * 3, WALL)
    store.close(WALL)
    with pytest.raises(StoreDamaged, match="mappedFileSizeCommitLog"):
        opened(disk, commit_log_file_bytes=8192)
    with pytest.raises(StoreDamaged, match="mappedFileSizeConsumeQueue"):
        opened(disk, consume_queue_file_bytes=400)
    disk.open("index/20200101000000000", create_size=7)
    with pytest.raises(StoreDamaged, match="maxHashSlotNum"):
        opened(disk)
    disk.remove("index/20200101000000000")
    disk.remove("commitlog/" + "4096".zfill(20))
    with pytest.raises(StoreDamaged, match="is missing before"):
        opened(disk)


def test_clean_stop_leaves_no_extra_file_and_no_abort() -> None:
    disk = SimDisk()
    store = opened(disk)
    store.append([plain(size=2000)], WALL)
    store.tick(0, WALL)
    store.chores.run_all()
    assert disk.list("commitlog") == ["0".zfill(20), "4096".zfill(20)]
    assert disk.exists("abort")
    store.close(WALL)
    assert disk.list("commitlog") == ["0".zfill(20)]
    assert not disk.exists("abort")
    assert (disk.size("checkpoint"), disk.list("consumequeue/T")) == (4096, ["0"])
    again = opened(disk)
    assert (again.recovered.clean, again.recovered.records) == (True, 1)
    assert again.append([plain()], WALL)[0] == Appended(2091 + 1, 112, 1, WALL)


def test_a_stop_without_space_is_not_clean() -> None:
    disk = SimDisk()
    store = opened(disk, preallocate=False)
    store.append([plain()], WALL)
    disk.quota_bytes = 0
    store.close(WALL)
    assert disk.exists("abort")
    disk.quota_bytes = 1 << 30
    assert opened(disk).queue_bounds("T", 0) == (0, 1)


def test_offsets_by_time() -> None:
    store = opened()
    for number in range(30):
        store.append([plain(number, size=200)], WALL + number * 100)
    find = store.offset_by_time
    assert (find("T", 0, 0), find("T", 0, WALL + 500), find("T", 0, WALL + 501)) == (0, 5, 6)
    assert (find("T", 0, 1 << 60), find("no", 0, 0)) == (30, 0)
    assert find("T", 0, WALL + 550, upper=True) == 5
    assert (find("T", 0, 0, upper=True), find("T", 0, 1 << 60, upper=True)) == (0, 29)
    assert (store.store_time("T", 0, 7), store.store_time("T", 0, 30)) == (WALL + 700, -1)
    assert (store.store_time("no", 0, 0), store.earliest_time()) == (-1, WALL)
    assert opened().earliest_time() == -1


def test_store_time_does_not_go_back_a_little_but_follows_a_large_step() -> None:
    disk = SimDisk()
    store = opened(disk)
    times = []
    for wall in (WALL, WALL - 1000, WALL + 5, WALL - 60_000, WALL - 59_000):
        result = store.append([plain()], wall)[0]
        assert isinstance(result, Appended)
        times.append(result.store_wall_ms)
    assert times == [WALL, WALL, WALL + 5, WALL - 60_000, WALL - 59_000]


def test_delete_topic_and_start_again() -> None:
    disk = SimDisk()
    store = opened(disk)
    for topic in ("A", "B"):
        store.append([plain(number, topic=topic) for number in range(5)], WALL)
    store.tick(0, WALL)
    store.delete_topic("A")
    store.delete_topic("none")
    assert store.read_queue("A", 0, 0, 1, 1).status is GetStatus.NO_MATCHED_LOGIC_QUEUE
    recreated = store.append([plain(9, topic="A")], WALL)[0]
    assert isinstance(recreated, Appended)
    assert recreated.queue_offset == 0
    assert store.clean_unused({"A"}) == ["B"]
    assert store.topics() == ["A"]
    assert store.verify().problems == []
    again = Store.open(disk.kill(), store.options, HOST, WALL)  # nothing is synced: all is derived
    assert bodies(again, "A") == [plain(9).body]


def test_a_log_without_queues_is_derived_whole() -> None:
    disk = SimDisk()
    store = opened(disk)
    store.append([plain(number, queue_id=number % 3) for number in range(100)], WALL)
    store.close(WALL)
    disk.remove("consumequeue")
    again = opened(disk)
    assert [again.queue_bounds("T", queue) for queue in range(3)] == [(0, 34), (0, 33), (0, 33)]
    assert again.verify().problems == []
