"""The asynchronous shell: group commit, chores, fences, clean stop."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from sim.kernel.disk import SimDisk
from tests.store.world import HOST, SMALL

from epochmq.base.errors import DiskFull
from epochmq.store.draft import Appended, Draft, PutStatus
from epochmq.store.options import StoreOptions
from epochmq.store.segment import Segment
from epochmq.store.store import Store
from epochmq.store.store_service import StoreService

T = TypeVar("T")


class Clock:
    """Time that passes by itself, a little with each look."""

    def __init__(self) -> None:
        self.now = 0

    def now_ms(self) -> int:
        self.now += 5
        return self.now

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.now


class Thread:
    """Blocking calls that take a few turns of the loop, or until they are let go."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.calls = 0
        self.running = False

    async def run(self, call: Callable[[], T]) -> T:
        self.calls += 1
        await asyncio.sleep(0)
        await self.gate.wait()
        self.running = True
        try:
            return call()
        finally:
            self.running = False


@asynccontextmanager
async def serving(
    options: StoreOptions, disk: SimDisk | None = None
) -> AsyncIterator[tuple[StoreService, Thread]]:
    thread = Thread()
    service = StoreService(Store.open(disk or SimDisk(), options, HOST, 1), Clock(), thread)
    await service.start()
    try:
        yield service, thread
    finally:
        await service.stop()


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until `condition` holds."""
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("never came true")


def put(service: StoreService) -> "asyncio.Future[bool]":
    placed = service.store.append([Draft("T", 0, b"x", b"", born_host=HOST)], 1)[0]
    assert isinstance(placed, Appended)
    done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    service.store.when_synced(placed.offset + placed.size, done.set_result)
    return done


async def test_one_sync_serves_all_that_came_meanwhile() -> None:
    async with serving(replace(SMALL, sync_flush=True)) as (service, thread):
        assert await put(service)
        thread.gate.clear()
        first = put(service)
        await until(lambda: thread.calls >= 2)
        group = [put(service) for _ in range(10)]
        before = service.store.statistics()["sync_count"]
        thread.gate.set()
        assert await first
        assert all([await one for one in group])
        assert int(service.store.statistics()["sync_count"]) <= int(before) + 3


async def test_asynchronous_flush_syncs_by_and_by() -> None:
    options = replace(SMALL, flush_interval_ms=10, flush_thorough_interval_ms=20)
    async with serving(options) as (service, _thread):
        assert await put(service)


async def test_the_first_file_is_made_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk()
    thread, made = Thread(), Segment.create

    def create(*args: Any, **more: Any) -> Segment:
        assert thread.running
        return made(*args, **more)

    monkeypatch.setattr(Segment, "create", create)
    for calls in (1, 0):  # only an empty log needs one
        thread.calls = 0
        service = StoreService(Store.open(disk, SMALL, HOST, 1), Clock(), thread)
        await service.start()
        assert thread.calls == calls
        put(service).add_done_callback(lambda _f: None)
        await service.stop()


@pytest.mark.parametrize("killed", [False, True])
async def test_a_first_file_is_in_nobodys_way(killed: bool) -> None:
    """A replica's log may have to begin elsewhere, also after a death before its first byte."""
    disk = SimDisk()
    options = replace(SMALL, replicated=True)
    async with serving(options, disk) as (service, _thread):
        store = Store.open(disk.kill(), options, HOST, 1) if killed else service.store
        assert (store.pointers.start, store.pointers.appended) == (0, 0)
        start = 3 * options.commit_log_file_bytes
        store.reset_to(start)
        store.append_raw(start, b"\0\0", 1)
        assert store.pointers.appended == start + 2
        assert disk.list("commitlog") == [f"{start:020d}"] or killed


async def test_a_first_file_that_finds_no_space_does_not_stop_the_start() -> None:
    disk = SimDisk()
    store = Store.open(disk, SMALL, HOST, 1)
    thread = Thread()

    async def full(call: Callable[[], T]) -> T:
        raise DiskFull("no space")

    thread.run = full  # type: ignore[method-assign]
    service = StoreService(store, Clock(), thread)
    await service.start()
    assert store._log.ready is None
    await service.stop()


async def test_chores_reach_the_checkpoint() -> None:
    disk = SimDisk()
    async with serving(SMALL, disk) as (service, _thread):
        put(service).add_done_callback(lambda _f: None)
        await until(lambda: service.store._checkpoint.queues_wall_ms)
    assert not disk.exists("abort")


async def test_a_failed_sync_fences_and_tells() -> None:
    disk = SimDisk()
    async with serving(replace(SMALL, sync_flush=True), disk) as (service, _thread):
        await put(service)
        disk.sync_fails = lambda path: path.startswith("commitlog")
        assert not await put(service)
        assert service.store.fenced
        refused = service.store.append([Draft("T", 0, b"x", b"")], 1)
        assert refused == [PutStatus.SERVICE_NOT_AVAILABLE]
    assert disk.exists("abort")


async def test_a_failed_chore_fences() -> None:
    disk = SimDisk()
    async with serving(SMALL, disk) as (service, _thread):
        put(service).add_done_callback(lambda _f: None)
        disk.sync_fails = lambda path: path.startswith("consumequeue")
        await until(lambda: service.store.fenced)


async def test_a_bug_in_a_tick_fences(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(SMALL) as (service, _thread):

        def broken(_now: int, _wall: int) -> None:
            raise RuntimeError("bug")

        monkeypatch.setattr(service.store, "tick", broken)
        await until(lambda: service.store.fenced)
        assert service.store.fenced == "RuntimeError: bug"
