"""Exports from real masters: everything confirmed, nothing beyond, over failovers, uncounted."""

import asyncio
import select
import socket
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.replication.brokers import OPTIONS, LiveBroker, until

from epochmq.base.errors import EnvironmentFault, NotReachable, StoreDamaged
from epochmq.replication.replication_service import AckStatus
from epochmq.spark import log_export
from epochmq.spark.log_export import LogExport
from epochmq.spark.log_learner import EpochStart, Home

from .exporting import BROKER, all_of, export_of, home_of, joined

Make = Callable[..., LiveBroker]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    made: list[LiveBroker] = []

    def one(number: int, *args: object) -> LiveBroker:
        made.append(LiveBroker(tmp_path, number, *args))  # type: ignore[arg-type]
        return made[-1]

    yield one
    for broker in made:
        if not broker.store.closed:
            await broker.stop()


async def master(make: Make, writes: int = 10) -> LiveBroker:
    broker = await make(1).start()
    await broker.lead(1)
    for _ in range(writes):
        broker.write(100)
    return broker


async def test_an_export_is_the_log_in_order_with_epochs(make: Make) -> None:
    broker = await master(make)
    middle = broker.end
    await broker.lead(4)
    broker.write(50)
    export = export_of(broker)
    ranges = await all_of(export)
    assert joined(ranges) == broker.bytes()
    assert (export.began, export.offset, export.end) == (0, broker.end, broker.end)
    assert {r.epoch for r in ranges if r.end <= middle} == {1}
    assert {r.epoch for r in ranges if r.offset >= middle} == {4}
    assert not any(r.offset < middle < r.end for r in ranges)
    size = broker.store.file_bytes
    assert all(r.offset // size == (r.end - 1) // size for r in ranges)
    assert export.entries == [EpochStart(1, 0), EpochStart(4, middle)]


async def test_nothing_beyond_the_confirmed_offset_is_given(make: Make) -> None:
    """Follower 2 is in the set and gone: what is written now is not confirmed."""
    a = await make(1, replace(OPTIONS, lost_link_grace_ms=60_000)).start()
    b = await make(2).start()
    await a.lead(1)
    await b.follow(1, a)
    await until(lambda: a.set_epoch == 2)
    a.write(100)
    assert await a.acked() is AckStatus.ACKED
    confirmed = a.end
    await b.stop()
    a.write(100)
    assert a.store.pointers.confirmed == confirmed < a.end
    export = export_of(a)
    assert joined(await all_of(export)) == a.bytes()[:confirmed]
    assert export.end == confirmed
    assert joined(await all_of(export_of(a, to=a.end))) == a.bytes()[:confirmed]


async def test_a_learner_is_accepted_and_never_counted(make: Make) -> None:
    broker = await master(make, 1)
    export = export_of(broker)
    ranges = export.ranges()
    await asyncio.to_thread(next, ranges)
    node = broker.replication.node.master
    assert node is not None
    (link,) = node.links.values()
    assert link.hello is not None
    assert link.hello.learner
    broker.write(10)
    assert await broker.acked() is AckStatus.ACKED
    assert node.in_sync.effective == frozenset({1})
    assert broker.proposals == []
    await asyncio.to_thread(lambda: list(ranges))
    await until(lambda: not node.links)
    assert set(node.in_sync.replicas) == {1}


async def test_two_exports_at_a_time_do_not_end_each_other(make: Make) -> None:
    broker = await master(make)
    exports = [export_of(broker), export_of(broker)]
    running = [export.ranges() for export in exports]
    given = [[await asyncio.to_thread(next, ranges)] for ranges in running]
    node = broker.replication.node.master
    assert node is not None
    assert len(node.links) == 2
    for ranges, pieces in zip(running, given, strict=True):
        pieces += await asyncio.to_thread(list, ranges)
    assert joined(given[0]) == joined(given[1]) == broker.bytes()


async def test_an_export_goes_on_where_an_earlier_one_ended(make: Make) -> None:
    broker = await master(make)
    stop = broker.end
    first = export_of(broker)
    before = joined(await all_of(first))
    broker.write(100)
    second = export_of(broker, first.offset, None, first.entries)
    assert before + joined(await all_of(second)) == broker.bytes()
    assert second.began == stop
    assert await all_of(export_of(broker, broker.end)) == []


async def test_an_upper_bound_is_kept_to_the_byte(make: Make) -> None:
    broker = await master(make, 1)
    assert joined(await all_of(export_of(broker, to=1001))) == broker.bytes()[:1001]


class Relay:
    """Passes on so many bytes of a master's, then hangs up, as a master that dies does."""

    def __init__(self, broker: LiveBroker, count: int) -> None:
        self._to = ("127.0.0.1", broker.port)
        self._left = count
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        near, _ = self._listener.accept()
        with self._listener, near, socket.create_connection(self._to) as far:
            while self._left > 0:
                for sock in select.select([near, far], [], [])[0]:
                    if sock is near:
                        far.sendall(near.recv(65536))
                    else:
                        piece = far.recv(min(self._left, 65536))
                        self._left -= len(piece)
                        near.sendall(piece)


async def test_a_failover_in_the_middle_is_survived(make: Make) -> None:
    a, b = await make(1).start(), await make(2).start()
    await a.lead(1)
    await b.follow(1, a)
    await until(lambda: a.set_epoch == 2)
    for _ in range(10):
        a.write(100)
    assert await a.acked() is AckStatus.ACKED
    end = a.end
    relay = Relay(a, 200_001)
    homes = [home_of(a)._replace(port=relay.port)]
    export = export_of(a, find=lambda: homes[-1])
    ranges = export.ranges()
    given = [await asyncio.to_thread(next, ranges)]
    while export.offset < 190_000:
        given.append(await asyncio.to_thread(next, ranges))
    relay.thread.join(5)
    await a.stop()
    await b.lead(2)
    b.write(20)
    homes.append(home_of(b))
    given += await asyncio.to_thread(lambda: list(ranges))
    assert joined(given) == b.bytes()[:end]
    assert (export.end, export.reconnected) == (end, 1)
    assert export.entries[-1] == EpochStart(2, end)


async def test_another_log_is_noticed_before_a_byte_is_taken(make: Make) -> None:
    broker = await master(make)
    known = [EpochStart(0, 0), EpochStart(1, 500)]
    with pytest.raises(StoreDamaged, match="is not the one that was read up to 1000"):
        await all_of(export_of(broker, 1000, None, known))
    with pytest.raises(StoreDamaged, match="which ends at"):
        await all_of(export_of(broker, broker.end + 1))


async def test_a_master_that_cannot_be_had_is_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_export, "FIRST_CONTACT_S", 0.1)
    export = LogExport(lambda: Home(BROKER, "127.0.0.1", 1, 4096))
    with pytest.raises(NotReachable, match="the export stopped at 0: cannot connect to 127"):
        await all_of(export)


async def test_log_that_is_deleted_there_is_told(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_export, "STARVED_S", 0.0)
    broker = await make(1, replace(OPTIONS, heartbeat_ms=50)).start()
    await broker.lead(1)
    for _ in range(10):
        broker.write(100)
    start = broker.store.pointers.start = 2 * broker.store.file_bytes
    with pytest.raises(EnvironmentFault, match="has deleted what comes next"):
        await all_of(export_of(broker, start - 4096))
