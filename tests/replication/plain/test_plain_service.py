"""Plain brokers over loopback."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.replication.brokers import until
from tests.store.replicas import fill, log_bytes
from tests.store.world import HOST, SMALL

from epochmq.replication.ack_policy import AckStatus
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.plain.plain_service import PlainReplication
from epochmq.runtime.clock import RealClock
from epochmq.runtime.disk import RealDisk
from epochmq.runtime.streams import StreamSockets
from epochmq.store.store import Store

OPTIONS = ReplicationOptions(in_sync_replicas=2, reconnect_ms=20)
STORE = replace(SMALL, commit_log_file_bytes=64 * 1024)


class Live:
    def __init__(self, root: Path) -> None:
        self.clock = RealClock()
        self.store = Store.open(RealDisk(str(root)), STORE, HOST, self.clock.wall_ms())
        self.troubles: list[str] = []
        self.replication = PlainReplication(
            self.store,
            OPTIONS,
            self.clock,
            on_trouble=self.troubles.append,
            sockets=StreamSockets(),
        )

    def write(self, count: int, seed: int) -> None:
        fill(self.store, count, seed)
        self.replication.appended()

    async def acked(self) -> AckStatus:
        future: asyncio.Future[AckStatus] = asyncio.get_running_loop().create_future()
        deadline = self.clock.now_ms() + 5000
        self.replication.when_acked(self.store.pointers.appended, deadline, future.set_result)
        return await future


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[tuple[Live, Live]]:
    made = Live(tmp_path / "master"), Live(tmp_path / "slave")
    yield made
    for live in made:
        await live.replication.stop()
        live.store.close(0)


async def test_a_sync_master_and_its_slave(two: tuple[Live, Live]) -> None:
    master, slave = two
    port = await master.replication.start("127.0.0.1", 0)
    await slave.replication.start("127.0.0.1", 0)
    await master.replication.become_master(sync=True)
    master.write(100, 1)
    await slave.replication.become_slave(f"127.0.0.1:{port}")
    assert await master.acked() is AckStatus.ACKED
    await slave.replication.become_slave(f"127.0.0.1:{port}")  # no news
    master.write(100, 2)
    assert await master.acked() is AckStatus.ACKED
    assert log_bytes(slave.store) == log_bytes(master.store)
    assert master.replication.refusal() is None
    info = master.replication.ha_info()
    assert info["inSyncSlaveNums"] == 1
    assert info["haConnectionInfo"][0]["inSync"] is True  # type: ignore[index]
    seen = slave.replication.ha_info()["haClientRuntimeInfo"]
    assert isinstance(seen, dict)
    assert seen["activated"] is True
    wall = slave.replication._clock.wall_ms()
    assert wall - 60_000 < seen["lastWriteTimestamp"] <= wall
    assert wall - 60_000 < seen["lastReadTimestamp"] <= wall


async def test_a_slave_waits_for_its_masters_address_and_for_the_master(
    two: tuple[Live, Live],
) -> None:
    master, slave = two
    port = await master.replication.start("127.0.0.1", 0)
    await slave.replication.become_slave(None)
    await slave.replication.become_slave(f"127.0.0.1:{port}")
    await asyncio.sleep(0.05)  # it is sent away as long as there is no master
    await master.replication.become_master(sync=False)
    master.write(10, 1)
    assert await master.acked() is AckStatus.ACKED
    await until(lambda: slave.store.pointers.appended == master.store.pointers.appended)
    master.replication.fence("stop")
    assert await master.acked() is AckStatus.FENCED
