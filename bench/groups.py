"""1,000 broker groups at one controller group: what heartbeats cost, and 100 masters dying at once.

The controllers are real processes; the brokers are connections that say what brokers say: a number,
a registration, an election, then a heartbeat a second. A broker dies by closing its connections; at
its address nobody listens, so that a controller that dials it finds the process gone.
"""

import asyncio
import time
from dataclasses import dataclass, field

from tests.compat.peers.group import CLUSTER, Group, Server

from epochmq.base.errors import EpochError, NotReachable
from epochmq.client.aio import Admin
from epochmq.runtime.peers import Peer
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.controller_bodies import SyncStateSet
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.header import Header, decode_header
from epochmq.wire.headers import controller_headers as headers

GROUPS = 1_000
DEATHS = 100
HEARTBEAT_S = 1.0
STEADY_S = 10.0
WITHIN_S = 60.0
_TIMEOUT_MS = 10_000
_AT_ONCE = 64
_NOBODY_PORT = 9
"""Brokers' addresses are 127.x.y.z at this port, where nobody listens."""


@dataclass
class Broker:
    """One light broker."""

    group: str
    number: int
    address: str
    peers: list[Peer] = field(default_factory=list)
    epoch: int = 0
    """0 before its first election: its log is empty."""
    alive: bool = True

    def heartbeat(self) -> Command:
        header = headers.ControllerHeartbeatHeader(
            clusterName=CLUSTER,
            brokerAddr=self.address,
            brokerName=self.group,
            brokerId=self.number,
            epoch=self.epoch or None,
            maxOffset=1_000 if self.epoch else 0,
            confirmOffset=1_000 if self.epoch else 0,
            leaseWanted=True,
            incarnation=f"{self.group}-{self.number}",
            session="1",
            cleanStart=True,
            learner=False,
            haAddress=self.address,
        )
        return request(RequestCode.BROKER_HEARTBEAT, header)


class Crowd:
    """All brokers: two of each group."""

    def __init__(self, controllers: list[Server]) -> None:
        self._controllers = controllers
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self.brokers: list[Broker] = []
        self._beats: list[asyncio.Task[None]] = []

    async def register(self) -> float:
        """Bring all groups up, each with a set of two; seconds it took."""
        began = time.monotonic()
        await asyncio.gather(*(self._bring_up(n) for n in range(GROUPS)))
        return time.monotonic() - began

    async def _bring_up(self, index: int) -> None:
        async with self._gate:
            name = f"group-{index:04}"
            master = Broker(name, 1, f"127.1.{index // 250}.{index % 250 + 1}:{_NOBODY_PORT}")
            slave = Broker(name, 2, f"127.2.{index // 250}.{index % 250 + 1}:{_NOBODY_PORT}")
            for broker in (master, slave):
                broker.peers = [await Peer.connect(c.address) for c in self._controllers]
                await self._join(broker)
                self.brokers.append(broker)
                self._beats.append(asyncio.create_task(self._beat(broker)))
            master.epoch = slave.epoch = await self._elect(master)
            await self._alter(master)

    async def _join(self, broker: Broker) -> None:
        apply = headers.ApplyBrokerIdHeader(
            clusterName=CLUSTER,
            brokerName=broker.group,
            appliedBrokerId=broker.number,
            registerCheckCode=f"{broker.address};1",
            incarnation=f"{broker.group}-{broker.number}",
            learner=False,
        )
        await _ask(broker, RequestCode.CONTROLLER_APPLY_BROKER_ID, apply)
        register = headers.RegisterBrokerToControllerHeader(
            clusterName=CLUSTER,
            brokerName=broker.group,
            brokerId=broker.number,
            brokerAddress=broker.address,
            haAddress=broker.address,
            incarnation=f"{broker.group}-{broker.number}",
            session="1",
            cleanStart=True,
            learner=False,
        )
        await _ask(broker, RequestCode.CONTROLLER_REGISTER_BROKER, register)
        for each in broker.peers:
            await each.invoke(broker.heartbeat(), _TIMEOUT_MS)

    async def _elect(self, broker: Broker) -> int:
        header = headers.ElectMasterHeader(
            clusterName=CLUSTER, brokerName=broker.group, brokerId=broker.number
        )
        answer = await _ask(broker, RequestCode.CONTROLLER_ELECT_MASTER, header)
        found = decode_header(headers.ElectMasterResponseHeader, answer.ext)
        assert found.masterEpoch is not None
        return found.masterEpoch

    async def _alter(self, broker: Broker) -> None:
        header = headers.AlterSyncStateSetHeader(
            brokerName=broker.group, masterBrokerId=broker.number, masterEpoch=broker.epoch
        )
        body = encode_body(SyncStateSet([1, 2], broker.epoch))
        await _ask(broker, RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, header, body)

    async def _beat(self, broker: Broker) -> None:
        while broker.alive:
            beat = broker.heartbeat()
            for peer in broker.peers:
                try:
                    await peer.invoke(beat, _TIMEOUT_MS)
                except NotReachable:
                    return
            await asyncio.sleep(HEARTBEAT_S)

    def kill(self, count: int) -> list[Broker]:
        """The masters of the first `count` groups die at once."""
        masters = [broker for broker in self.brokers if broker.number == 1][:count]
        for broker in masters:
            broker.alive = False
            for peer in broker.peers:
                peer.close("dead")
        return masters

    async def close(self) -> None:
        """Hang up."""
        for task in self._beats:
            task.cancel()
        await asyncio.gather(*self._beats, return_exceptions=True)
        for broker in self.brokers:
            for peer in broker.peers:
                peer.close("done")


async def _ask(broker: Broker, code: int, header: Header, body: bytes = b"") -> Command:
    """The leader's answer; asked of one after the other until it is found."""
    command = request(code, header, body)
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        for peer in broker.peers:
            answer = await peer.invoke(command, _TIMEOUT_MS)
            if answer.code in (0, ResponseCode.CONTROLLER_MASTER_STILL_EXIST):
                return answer
            if answer.code != ResponseCode.CONTROLLER_NOT_LEADER:
                await peer.invoke(broker.heartbeat(), _TIMEOUT_MS)
    raise SystemExit(f"request {code}: {answer.code} {answer.remark}")


def table() -> str:
    """Figures of one run."""
    with Group(replicas=0) as group:
        return asyncio.run(_run(group))


async def _run(group: Group) -> str:
    leader = group.controller_leader()
    assert leader is not None
    crowd = Crowd(group.controllers)
    try:
        seconds = await crowd.register()
        before = group.cpu_seconds()
        await asyncio.sleep(STEADY_S)
        cpu = {name: (at - before[name]) / STEADY_S for name, at in group.cpu_seconds().items()}
        beats = len(crowd.brokers) / HEARTBEAT_S
        dead = {broker.group for broker in crowd.kill(DEATHS)}
        began = time.monotonic()
        elected = await _wait_elected(leader, dead, began)
    finally:
        await crowd.close()
    rss = {s.root.name: s.process.rss_bytes() >> 20 for s in group.controllers}
    share = max(at for name, at in cpu.items() if name.startswith("controller"))
    lines = [
        "| figure | value |",
        "|---|---|",
        f"| groups of two brokers, connections a controller | {GROUPS:,}, {len(crowd.brokers):,} |",
        f"| registered, elected and in the set within | {seconds:.1f} s |",
        f"| heartbeats a second at each controller | {beats:,.0f} |",
        f"| CPU of the busiest controller | {share:.0%} of a core, "
        f"{share / beats * 1e6:.0f} us a heartbeat |",
        f"| memory of a controller | {max(rss.values())} MiB |",
        f"| {DEATHS} masters die at once: the first new master after | {elected[0]:.0f} ms |",
        f"| half of them have new masters after | {elected[len(elected) // 2]:.0f} ms |",
        f"| all of them have after | {elected[-1]:.0f} ms |",
    ]
    return "\n".join(lines)


async def _wait_elected(leader: Server, dead: set[str], began: float) -> list[float]:
    """For each group the time from the deaths to its election, in ms, sorted."""
    async with Admin(leader.address) as admin:
        while time.monotonic() - began < WITHIN_S:
            try:
                told = await admin.timeline(leader.address)
            except EpochError:
                continue
            now = time.monotonic()
            found = {
                one.broker_name: (now - began) * 1_000 - one.elected_ago_ms
                for one in told
                if one.broker_name in dead and one.master_broker_id == 2
            }
            if len(found) == len(dead):
                return sorted(found.values())
            await asyncio.sleep(0.02)
    raise SystemExit(f"not all groups have a new master after {WITHIN_S:.0f} s")
