"""Whole brokers over loopback: roles, joining, leaving, sync flush, restarts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from epochmq.replication.replication_service import AckStatus, StaleEpoch
from epochmq.runtime.streams import StreamSockets

from .brokers import OPTIONS, LiveBroker, until

Make = Callable[..., LiveBroker]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    made: list[LiveBroker] = []

    def one(number: int, *args: object, **more: object) -> LiveBroker:
        made.append(LiveBroker(tmp_path, number, *args, **more))  # type: ignore[arg-type]
        return made[-1]

    yield one
    for broker in made:
        if not broker.store.closed:
            await broker.stop()


async def pair(make: Make, **more: object) -> tuple[LiveBroker, LiveBroker]:
    """Master 1 and follower 2, both in the set."""
    a, b = await make(1, **more).start(), await make(2, **more).start()
    await a.lead(1)
    await b.follow(1, a)
    await until(lambda: a.set_epoch == 2)
    assert a.proposals[-1].members == frozenset({1, 2})
    return a, b


async def test_what_is_written_arrives_and_is_acknowledged(make: Make) -> None:
    a, b = await pair(make)
    a.write(200)
    assert await a.acked() is AckStatus.ACKED
    assert b.bytes() == a.bytes()
    assert a.store.pointers.readable == a.end
    await until(lambda: b.store.pointers.readable == b.end)
    assert a.replication.refusal() is None


async def test_a_follower_catches_up_over_many_files(make: Make) -> None:
    a = await make(1).start()
    await a.lead(1)
    for _ in range(20):
        a.write(200)
    assert a.end > 10 * a.store.file_bytes
    b = await make(2).start()
    await b.follow(1, a)
    await until(lambda: b.end == a.end)
    assert b.bytes() == a.bytes()
    await until(lambda: a.set_epoch == 2)


async def test_sync_flush_counts_devices(make: Make) -> None:
    a, b = await pair(make, options=replace(OPTIONS, sync_before_ack=True), sync_flush=True)
    a.write(20)
    assert await a.acked() is AckStatus.ACKED
    assert a.store.pointers.synced == a.end
    assert b.store.pointers.synced == b.end == a.end


async def test_the_master_moves_and_the_old_one_follows(make: Make) -> None:
    a, b = await pair(make)
    a.write(50)
    assert await a.acked() is AckStatus.ACKED
    await b.replication.stop()
    a.write(5)  # nobody has this
    await b.replication.start("127.0.0.1", 0)
    b.port = b.replication._server.port  # type: ignore[union-attr]
    await b.lead(2, 1, 2)
    b.write(10)
    await a.follow(2, b)
    assert await b.acked() is AckStatus.ACKED
    assert a.bytes() == b.bytes()
    assert [e[:2] for e in a.replication.node.epochs.entries][-1][0] == 2
    with pytest.raises(StaleEpoch):
        await a.replication.become_master(1, frozenset({1}), 1)


async def test_a_follower_that_goes_leaves_the_set_and_may_come_back(make: Make) -> None:
    a, b = await pair(make)
    await b.replication.stop()
    a.write(5)
    assert await a.acked() is AckStatus.ACKED  # once the set is {1}
    assert a.proposals[-1].members == frozenset({1})
    await b.replication.start("127.0.0.1", 0)
    await b.follow(1, a)
    await until(lambda: a.proposals[-1].members == frozenset({1, 2}))
    a.write(5)
    assert await a.acked() is AckStatus.ACKED
    assert b.bytes() == a.bytes()


async def test_a_follower_joins_under_steady_load(make: Make) -> None:
    a = await make(1).start()
    await a.lead(1)
    running = True

    async def load() -> None:
        while running:
            a.write(5)
            await asyncio.sleep(0)

    task = asyncio.create_task(load())
    b = await make(2).start()
    await b.follow(1, a)
    await until(lambda: a.set_epoch >= 2)
    running = False
    await task
    assert await a.acked() is AckStatus.ACKED


async def test_a_fenced_master_acknowledges_nothing(make: Make) -> None:
    a, _b = await pair(make)
    a.replication.fence("the lease ran out")
    assert a.replication.refusal() is AckStatus.FENCED
    assert await a.acked() is AckStatus.FENCED
    a.replication.unfence()
    a.write(1)
    assert await a.acked() is AckStatus.ACKED
    a.replication.lease(lambda _now: False)
    a.write(1)
    assert await a.acked() is AckStatus.FENCED


async def test_how_many_replicas_a_send_needs_may_change(make: Make) -> None:
    a, b = await pair(make, options=replace(OPTIONS, all_ack=False))
    await b.replication.stop()
    a.write(1)
    assert await a.acked() is AckStatus.ACKED
    a.replication.change_options(
        replace(OPTIONS, all_ack=False, in_sync_replicas=2, min_in_sync_replicas=2)
    )
    a.write(1)
    assert await a.acked(timeout_ms=100) is AckStatus.TIMEOUT
    await until(lambda: a.replication.refusal() is AckStatus.NOT_ENOUGH)


async def test_sends_meet_their_deadline(make: Make) -> None:
    a = await make(1, replace(OPTIONS, first_link_grace_ms=60_000)).start()
    await a.lead(1, 1, 2)
    a.write(1)
    assert await a.acked(timeout_ms=100) is AckStatus.TIMEOUT


async def test_a_broker_that_is_no_master_has_no_followers(make: Make) -> None:
    a, b = await make(1).start(), await make(2).start()
    await b.follow(1, a)
    await until(lambda: not a.replication._server.wires)  # type: ignore[union-attr]
    await a.lead(1)
    await until(lambda: a.set_epoch == 2)


async def test_the_same_master_again_is_no_news(make: Make) -> None:
    a, b = await pair(make)
    session = b.replication.node.follower.session  # type: ignore[union-attr]
    await b.follow(1, a)
    assert b.replication.node.follower.session == session  # type: ignore[union-attr]
    await b.replication.become_follower(1, 1, None, False)
    assert b.replication._peer_task is None


async def test_strangers_cost_their_connection_only(make: Make) -> None:
    a, b = await pair(make)
    loop = asyncio.get_running_loop()
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", bytes(64), b"\xff" * 64, b"\0\0\0\2" + bytes(8)):
        sock = await StreamSockets().connect("127.0.0.1", a.port, 1000)
        await loop.sock_sendall(sock, garbage)
        assert await loop.sock_recv(sock, 100) == b""
        sock.close()
    a.write(1)
    assert await a.acked() is AckStatus.ACKED
    assert b.bytes() == a.bytes()


async def test_an_address_that_is_none(make: Make) -> None:
    b = await make(2).start()
    await b.replication.become_follower(1, 1, "nonsense", False)
    assert "nonsense" in b.troubles[0]


async def test_what_administrators_see(make: Make) -> None:
    a, b = await pair(make)
    a.write(3)
    await a.acked()
    info = a.replication.ha_info()
    assert info["master"] is True
    assert info["inSyncSlaveNums"] == 1
    (link,) = info["haConnectionInfo"]  # type: ignore[misc]
    assert link["slaveAckOffset"] == a.end
    assert link["inSync"] is True
    client = b.replication.ha_info()["haClientRuntimeInfo"]
    assert client["activated"] is True  # type: ignore[index]
    assert a.replication.statistics()["released"] == 1
    assert b.replication.statistics()["received_bytes"] == a.end
