"""Brokers on real disks and sockets, inside one process."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.store.replicas import fill, log_bytes
from tests.store.world import HOST, SMALL

from epochmq.replication.options import ReplicationOptions
from epochmq.replication.replication_effects import SetProposal
from epochmq.replication.replication_master import MasterCore
from epochmq.replication.replication_service import AckStatus, ReplicationService
from epochmq.runtime.blocking import BlockingThread
from epochmq.runtime.clock import RealClock
from epochmq.runtime.disk import RealDisk
from epochmq.runtime.streams import StreamSockets
from epochmq.store.epochs import EpochFile
from epochmq.store.store import Store
from epochmq.store.store_service import StoreService

STORE = replace(SMALL, replicated=True, commit_log_file_bytes=64 * 1024)
OPTIONS = ReplicationOptions(
    all_ack=True, lost_link_grace_ms=200, first_link_grace_ms=400, reconnect_ms=20
)


class LiveBroker:
    """A store, its service, and replication; the test plays the controller."""

    def __init__(
        self,
        root: Path,
        number: int,
        options: ReplicationOptions = OPTIONS,
        *,
        sync_flush: bool = False,
    ) -> None:
        self.number = number
        self.clock = RealClock()
        self.blocking = BlockingThread()
        disk = RealDisk(str(root / str(number)))
        self.store = Store.open(
            disk, replace(STORE, sync_flush=sync_flush), HOST, self.clock.wall_ms()
        )
        self.service = StoreService(self.store, self.clock, self.blocking)
        self.proposals: list[SetProposal] = []
        self.troubles: list[str] = []
        self.answer: Callable[[SetProposal], None] | None = None
        self.replication = ReplicationService(
            self.store,
            EpochFile(disk),
            options,
            self.clock,
            own_id=number,
            on_proposal=self._proposed,
            on_confirm=lambda _offset: None,
            on_trouble=self.troubles.append,
            sockets=StreamSockets(),
            blocking=self.blocking,
        )
        self.port = 0
        self.set_epoch = 1
        self.appends = 0

    def _proposed(self, proposal: SetProposal) -> None:
        """A controller that agrees with everything, a turn later."""
        self.proposals.append(proposal)
        self.set_epoch += 1
        loop = asyncio.get_running_loop()
        loop.call_soon(self.replication.set_committed, proposal.members, self.set_epoch)

    async def start(self, port: int = 0) -> "LiveBroker":
        await self.service.start()
        self.port = await self.replication.start("127.0.0.1", port)
        return self

    async def stop(self) -> None:
        await self.replication.stop()
        await self.service.stop()
        self.blocking.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def end(self) -> int:
        return self.store.pointers.appended

    async def lead(self, epoch: int, *members: int) -> None:
        await self.replication.become_master(epoch, frozenset(members or {self.number}), 1)
        self.set_epoch = 1

    async def follow(self, epoch: int, master: "LiveBroker") -> None:
        await self.replication.become_follower(epoch, master.number, master.address, False)

    def write(self, count: int) -> None:
        self.appends += 1
        fill(self.store, count, seed=self.number * 1000 + self.appends)
        self.replication.appended()

    async def acked(self, timeout_ms: int = 5000) -> AckStatus:
        """What becomes of everything that was appended."""
        future: asyncio.Future[AckStatus] = asyncio.get_running_loop().create_future()
        self.replication.when_acked(self.end, self.clock.now_ms() + timeout_ms, future.set_result)
        return await future

    def bytes(self) -> bytes:
        return log_bytes(self.store)


async def until(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    """Wait for what happens on the loop by itself."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - many conditions, no event for most
            await asyncio.sleep(0.002)


def unconfirmed_count(master: MasterCore) -> int:
    """How many followers wait until the controllers have said whether they know them."""
    return len(master._unconfirmed)
