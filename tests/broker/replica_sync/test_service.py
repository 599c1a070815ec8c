"""Copying over real sockets is shown by tests/broker/membership/test_service.py; here: failures."""

import asyncio

from tests.broker.fake_node import FakeNode

from epochmq.broker.replica_sync.core import ReplicaSync
from epochmq.broker.replica_sync.service import ReplicaSyncService
from epochmq.broker.replica_sync.tables import Tables
from epochmq.runtime.clock import RealClock
from epochmq.runtime.own_host import free_port
from epochmq.runtime.peers import Peers


async def test_a_master_that_cannot_be_reached_is_asked_again_and_never_ready() -> None:
    ready: list[int] = []
    peers = Peers()
    core = ReplicaSync(Tables(FakeNode()), 1000)
    service = ReplicaSyncService(core, peers, RealClock(), lambda: ready.append(1))
    service.follow(f"127.0.0.1:{free_port('127.0.0.1')}")
    async with asyncio.timeout(10):
        while True:
            if core.problem:
                break
            await asyncio.sleep(0.01)
    assert not core.ready
    assert not ready
    assert core.next_deadline() is not None
    await service.close()
    await peers.close()
