"""Copying over real sockets is shown by tests/broker/group/test_controller_mode_member.py;
here: failures."""

import asyncio
from typing import Any

from tests.broker.fake_node import FakeNode
from tests.broker.group.test_metadata_sync import answer_of

from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.group.metadata_sync import WATCHED, FetchTable, ReplicaSync
from epochmq.broker.group.metadata_sync_service import ReplicaSyncService
from epochmq.broker.group.replicated_tables import CopiedTable, Tables
from epochmq.runtime.clock import RealClock
from epochmq.runtime.own_host import free_port
from epochmq.runtime.peers import Peers
from epochmq.wire.command import Command


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


class Near:
    """A master next door that answers at once; who asked what with which stamp."""

    def __init__(self) -> None:
        self.master = FakeNode(BrokerOptions(broker_name="b", broker_ip1="127.0.0.1"))
        self.topics_asked: list[str | None] = []
        self.again = asyncio.Event()
        self.asked: dict[int, int] = {}
        self.orders_again = asyncio.Event()
        self.all_again = asyncio.Event()

    async def invoke(self, address: str, command: Command, timeout_ms: int) -> Command:
        self.asked[command.code] = self.asked.get(command.code, 0) + 1
        if all(self.asked.get(table.value, 0) > 1 for table in WATCHED - {CopiedTable.OFFSETS}):
            self.all_again.set()
        if self.asked.get(CopiedTable.ORDERS.value, 0) > 1:
            self.orders_again.set()
        if command.code == CopiedTable.ACCOUNTS.value:
            await self.orders_again.wait()  # it comes last, when other questions are planned
        if self.asked[command.code] > 1 and command.code != CopiedTable.TOPICS.value:
            await asyncio.Event().wait()
        if command.code == CopiedTable.TOPICS.value:
            self.topics_asked.append((command.ext or {}).get("sinceStamp"))
            if len(self.topics_asked) > 1:
                self.again.set()
                await asyncio.Event().wait()  # the master waits for news
        return answer_of(self.master, FetchTable(address, CopiedTable(command.code), command))


def following() -> tuple[Near, ReplicaSyncService]:
    """Return a master and a replica that follows it."""
    near = Near()
    peers: Any = near
    core = ReplicaSync(Tables(FakeNode()), 60_000)
    service = ReplicaSyncService(core, peers, RealClock(), lambda: None)
    service.follow("127.0.0.1:1")
    return near, service


async def test_a_slave_that_applied_a_change_asks_again_at_once() -> None:
    """Whoever changed a topic waits for the question with its stamp."""
    near, service = following()
    async with asyncio.timeout(10):
        await near.again.wait()  # and nobody ticks
    first, second = near.topics_asked
    assert first is None
    assert second is not None
    await service.close()


async def test_each_watched_table_is_asked_for_again_at_once() -> None:
    """The next question for one table does not replace the later one for another."""
    near, service = following()
    async with asyncio.timeout(10):
        await near.all_again.wait()  # and nobody ticks
    await service.close()
