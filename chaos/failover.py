"""Masters die again and again under load; nothing acknowledged may be lost."""

import asyncio
import gc
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.compat.peers.group import Group, Server

from chaos.drain import compare_logs, read_all
from chaos.load import Book, Client, now_us
from chaos.shim import Shim
from epochmq.base.errors import EpochError
from epochmq.client.aio import Admin
from epochmq.model.topic import TopicConfig

TOPIC = "Chaos"
QUEUES = 4
CLIENTS = 6
IN_FLIGHT = 4
SETTLE_ACKS = 200
"""So many acknowledgements between two faults at least."""
SETTLE_S = 1.0
WHOLE_S = 60.0
OUTAGE_S = 5.0
"""All controllers are gone for so long: well past a lease, which is two seconds."""
SLOW_SYNC_S = 0.7
SLOW_FOR_S = 6.0
"""Three leases: one that is lost for a slow device would be seen."""
SHIMMED = ("suspend", "slow-sync")
"""Faults that need `shim.py` around each broker."""
FAULTS = (
    "kill",
    "pause",
    "kill-slave",
    "kill-controller",
    "kill-controllers",
    "kill-all",
    *SHIMMED,
)


@dataclass
class Outcome:
    """What a run gave."""

    fault: str
    seed: int
    pauses_ms: list[float] = field(default_factory=list)
    """For each fault the longest time without an acknowledgement from it on."""
    whole_ms: list[float] = field(default_factory=list)
    """For each fault the time until all replicas were in the set again."""
    acked: int = 0
    unknown: int = 0
    stored: int = 0
    compared_bytes: int = 0
    seconds: float = 0.0
    errors: dict[str, int] = field(default_factory=dict)


@contextmanager
def _no_long_collections() -> Iterator[None]:
    """The book of millions of sends is walked by every full collection, a second or two long.

    All clients stand still then, which would look like a pause of the brokers.
    """
    before = gc.get_threshold()
    gc.set_threshold(before[0], before[1], 1 << 30)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class Failover:
    """One run on a started group."""

    def __init__(
        self, group: Group, fault: str, count: int, seed: int, shims: Sequence[Shim] = ()
    ) -> None:
        self.group = group
        self._shims = dict(zip(group.brokers, shims, strict=False))
        self.outcome = Outcome(fault, seed)
        self._count = count
        self._chance = random.Random(seed)
        self._book = Book()
        self._master: Server | None = None
        """Of before the fault, for faults after which nobody can say."""
        self._say: Callable[[str], None] = print

    async def run(self) -> Outcome:
        """All faults, then the verdict; raises `Violation` or `AssertionError`."""
        with _no_long_collections():
            await self._strike_them_all()
        await self._conclude()
        return self.outcome

    async def _strike_them_all(self) -> None:
        began = time.monotonic()
        await self._make_topic()
        seed = self.outcome.seed
        clients = [
            Client(self.group.namesrv_addr, f"client-{n}", TOPIC, self._book, seed)
            for n in range(CLIENTS)
        ]
        tasks = [asyncio.create_task(client.run(IN_FLIGHT)) for client in clients]
        try:
            for number in range(self._count):
                await self._one(number)
        finally:
            for client in clients:
                client.stop()
            await asyncio.gather(*tasks)
        self.outcome.seconds = time.monotonic() - began

    async def _make_topic(self) -> None:
        async with Admin(self.group.namesrv_addr) as admin:
            await admin.create_topic(TopicConfig(TOPIC, QUEUES, QUEUES))

    async def _one(self, number: int) -> None:
        await self._book.wait_acks(SETTLE_ACKS)
        # Time for leases and leaders to settle, so that faults come one by one.
        await asyncio.sleep(SETTLE_S + self._chance.random() * 0.3)
        began = now_us()
        if self.outcome.fault == "slow-sync":
            victims = await self._slow_down(number)
        else:
            victims = await self._strike()
        await self._book.wait_acks(SETTLE_ACKS)
        judged = None
        if self.outcome.fault == "kill-controllers":
            judged = await self._outlast_the_lease()
            victims += self._kill_master_too()
        await asyncio.to_thread(self._heal, victims)
        await asyncio.to_thread(self.group.wait_ready, WHOLE_S)
        ended = now_us()
        pause, after = self._book.longest_pause(began, judged or ended)
        self.outcome.pauses_ms.append(pause)
        self.outcome.whole_ms.append((ended - began) / 1_000)
        names = ", ".join(server.root.name for server in victims)
        fault = f"{number + 1:3} {self.outcome.fault} {names}"
        self._say(f"{fault}: pause {pause:.0f} ms, from {after:.0f} ms on")

    async def _strike(self) -> list[Server]:
        victims = await asyncio.to_thread(self._victims)
        for server in victims:
            if self.outcome.fault == "pause":
                os.kill(server.process.pid, signal.SIGSTOP)
            elif self.outcome.fault == "suspend":
                self._shims[server].suspend()
            else:
                os.kill(server.process.pid, signal.SIGKILL)
        if self.outcome.fault == "kill-all":
            await asyncio.to_thread(self._heal, victims)
        return victims

    async def _slow_down(self, number: int) -> list[Server]:
        """Every sync of one, two or all brokers takes 0.7 s longer; the master stays the master.

        New topics and groups are saved meanwhile, which is where syncs once stopped the loop.
        """
        before = await asyncio.to_thread(self.group.sync_state)
        victims = self.group.brokers[: 1 + number % len(self.group.brokers)]
        for server in victims:
            self._shims[server].delay_syncs(SLOW_SYNC_S)
        until = time.monotonic() + SLOW_FOR_S
        made = 0
        async with Admin(self.group.namesrv_addr) as admin:
            while time.monotonic() < until:
                with suppress(EpochError):  # too slow to be answered in time: that may be
                    await admin.create_topic(TopicConfig(f"{TOPIC}-{number}-{made}", 1, 1))
                made += 1
        after = await asyncio.to_thread(self.group.sync_state)
        assert before is not None
        assert after is not None
        assert after.master_epoch == before.master_epoch, "slow syncs cost the master its lease"
        return victims

    async def _outlast_the_lease(self) -> int:
        """The set is whole, so sends go on without any controller (S26); when that was seen."""
        await asyncio.sleep(OUTAGE_S)
        await self._book.wait_acks(SETTLE_ACKS)
        return now_us()

    def _kill_master_too(self) -> list[Server]:
        """What it acknowledged past its lease must be with who is elected next."""
        assert self._master is not None
        os.kill(self._master.process.pid, signal.SIGKILL)
        return [self._master]

    def _victims(self) -> list[Server]:
        fault = self.outcome.fault
        if fault == "kill-controllers":
            self._master = self.group.master()
            return list(self.group.controllers)
        if fault == "kill-all":
            return list(self.group.brokers)
        if fault == "kill-controller":
            leader = self.group.controller_leader()
            assert leader is not None
            return [leader]
        master = self.group.master()
        assert master is not None
        if fault == "kill-slave":
            slaves = [server for server in self.group.brokers if server is not master]
            return [self._chance.choice(slaves)]
        return [master]

    def _heal(self, victims: list[Server]) -> None:
        for server in victims:
            if self.outcome.fault == "pause":
                os.kill(server.process.pid, signal.SIGCONT)
            elif self.outcome.fault == "suspend":
                self._shims[server].resume()
            elif self.outcome.fault == "slow-sync":
                self._shims[server].delay_syncs(0)
            else:
                server.process.kill9()
                if not server.process.is_alive:
                    server.start()

    async def _conclude(self) -> None:
        outcome, oracle = self.outcome, self._book.oracle
        await asyncio.to_thread(self.group.wait_ready, WHOLE_S)
        outcome.acked = len(oracle.acked)
        outcome.unknown = len(oracle.sends) - outcome.acked
        outcome.stored = await read_all(self.group, TOPIC, self._book)
        end = max(send.place[1] for send in oracle.acked if send.place)
        outcome.compared_bytes = compare_logs(self.group, end)
        outcome.errors = self._book.errors
