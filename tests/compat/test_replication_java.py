"""Replication between upstream's broker and ours, both ways, compared byte for byte."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from epochmq.replication.ack_policy import AckStatus
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.plain.plain_service import PlainReplication
from epochmq.replication.replication_service import ReplicationService, SetProposal
from epochmq.runtime.clock import RealClock
from epochmq.runtime.disk import RealDisk
from epochmq.runtime.streams import StreamSockets
from epochmq.store.draft import Draft
from epochmq.store.epochs import EpochFile
from epochmq.store.options import StoreOptions
from epochmq.store.store import Store
from epochmq.store.store_service import StoreService

from .conftest import had
from .peers import admin, wire
from .peers.cluster import Config
from .peers.group import JAVA, Group
from .peers.java import JavaCluster
from .peers.ports import free_port
from .peers.process import is_listening

FILE_BYTES = 1 << 20
HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
CONFIG: Config = {
    "mappedFileSizeCommitLog": FILE_BYTES,
    "mappedFileSizeConsumeQueue": 2000,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 4000,
}
OPTIONS = ReplicationOptions(in_sync_replicas=2, all_ack=True, reconnect_ms=50)
TOPIC = "Copied"


def ignore(_text: object) -> None:
    """What replication tells that these tests do not ask about."""


class Ours:
    """A store and its service; the test adds replication."""

    def __init__(self, root: Path, *, replicated: bool, own_id: int = 1) -> None:
        self.disk = RealDisk(str(root))
        self.clock = RealClock()
        options = StoreOptions(commit_log_file_bytes=FILE_BYTES, replicated=replicated)
        self.store = Store.open(self.disk, options, HOST, self.clock.wall_ms())
        self.troubles: list[str] = []
        self.proposals: list[SetProposal] = []
        self.plain = PlainReplication(
            self.store,
            OPTIONS,
            self.clock,
            on_trouble=self.troubles.append,
            sockets=StreamSockets(),
        )
        self.switched = ReplicationService(
            self.store,
            EpochFile(self.disk),
            OPTIONS,
            self.clock,
            own_id=own_id,
            on_proposal=self.proposals.append,
            on_confirm=ignore,
            on_trouble=self.troubles.append,
            sockets=StreamSockets(),
        )

    async def acked(self, by: PlainReplication | ReplicationService) -> AckStatus:
        """What becomes of everything that was written."""
        told: asyncio.Future[AckStatus] = asyncio.get_running_loop().create_future()
        by.when_acked(self.end, self.clock.now_ms() + 60_000, told.set_result)
        return await told

    @property
    def end(self) -> int:
        return self.store.pointers.appended

    def bytes(self, start: int, end: int) -> bytes:
        parts = []
        while start < end:
            parts.append(bytes(self.store.slice(start, end - start)))
            start += len(parts[-1])
        return b"".join(parts)

    def write(self, count: int, size: int) -> None:
        drafts = [
            Draft(TOPIC, n % 4, b"x" * size, b"KEYS\x01k%d\x02" % n, born_host=HOST[:8])
            for n in range(count)
        ]
        self.store.append(drafts, self.clock.wall_ms())
        self.plain.appended()
        self.switched.appended()


@pytest.fixture
async def ours(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Ours]:
    made = Ours(tmp_path / "ours", replicated=getattr(request, "param", False))
    yield made
    await made.plain.stop()
    await made.switched.stop()
    made.store.close(made.clock.wall_ms())


async def until(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - other processes tell us of no event
            await asyncio.sleep(0.05)


def java_log(folder: Path, start: int, end: int) -> bytes:
    """Bytes of a Java broker's log."""
    files = sorted(path for path in folder.iterdir() if path.name.isdecimal())
    first = int(files[0].name)
    return b"".join(path.read_bytes() for path in files)[start - first : end - first]


def fill(broker: str, count: int, size: int) -> list[int]:
    return [admin.send(broker, TOPIC, b"y" * size, queue=n % 4) for n in range(count)]


async def test_we_follow_a_java_sync_master(ours: Ours) -> None:
    """Its sends succeed only when we have acknowledged them."""
    config = {**CONFIG, "brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 5000}
    cluster = had(lambda: JavaCluster(broker_config=config))
    try:
        await asyncio.to_thread(cluster.start)
        port = cluster.broker_port + 1
        await ours.plain.become_slave(f"127.0.0.1:{port}")
        await until(lambda: ours.plain.node.reading)
        await asyncio.to_thread(admin.create_topic, cluster.broker_addr, TOPIC)
        await asyncio.to_thread(fill, cluster.broker_addr, 200, 10_000)
        assert ours.store.pointers.start == 0
        assert ours.end > FILE_BYTES
        assert ours.bytes(0, ours.end) == java_log(cluster.store / "commitlog", 0, ours.end)
        assert ours.store.pointers.readable == ours.end
        assert ours.store.verify().problems == []
    finally:
        await asyncio.to_thread(cluster.stop)


class Stage:
    """What a Java slave must find before it follows us: a master in the route, and a controller's
    word for it."""

    def __init__(self, namesrv: str, ha_port: int) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self._namesrv = namesrv
        self._ha = f"127.0.0.1:{ha_port}"
        self._links: list[socket.socket] = []
        self._stopped = threading.Event()
        self._beats: threading.Thread | None = None

    def _link(self, address: str) -> socket.socket:
        host, _, port = address.partition(":")
        link = socket.create_connection((host, int(port)), 10)
        self._links.append(link)
        return link

    def register(self) -> None:
        """In the route, as long as the connection stands."""
        body = {
            "topicConfigSerializeWrapper": {
                "topicConfigTable": {},
                "dataVersion": {"stateVersion": 0, "timestamp": 0, "counter": 1},
            },
            "filterServerList": [],
        }
        data = json.dumps(body).encode()
        header = {
            "brokerName": "broker-a",
            "brokerAddr": self.address,
            "clusterName": "DefaultCluster",
            "haServerAddr": self._ha,
            "brokerId": 0,
            "compressed": "false",
            "bodyCrc32": zlib.crc32(data) & 0x7FFFFFFF,
        }
        link = self._link(self._namesrv)
        link.sendall(wire.frame(103, header, data))
        assert wire.read_answer(link).code == 0

    def elect(self, leader: str, controllers: list[str]) -> int:
        """Broker 1, master of the group; its epoch."""
        group = {"clusterName": "DefaultCluster", "brokerName": "broker-a"}
        check = f"{self.address};{int(time.time() * 1000)}"
        for code, more in (
            (1013, {"appliedBrokerId": 1, "registerCheckCode": check}),
            (1003, {"brokerId": 1, "brokerAddress": self.address}),
        ):
            self._ask(leader, code, {**group, **more})
        beat = {
            **group,
            "brokerAddr": self.address,
            "brokerId": 1,
            "epoch": 0,
            "maxOffset": 0,
            "confirmOffset": 0,
            "heartbeatTimeoutMills": 60_000,
            "electionPriority": 1,
        }
        links = [self._link(address) for address in controllers]

        def beats() -> None:
            while not self._stopped.wait(0.5):
                for link in links:
                    with suppress(OSError):
                        link.sendall(wire.frame(904, beat, flag=2))

        self._beats = threading.Thread(target=beats)
        self._beats.start()
        time.sleep(1.5)
        answer = self._ask(leader, 1002, {**group, "brokerId": 1, "designateElect": "false"})
        return int(answer.ext["masterEpoch"])

    def _ask(self, leader: str, code: int, header: dict[str, object]) -> wire.Answer:
        """A leader that has just been elected says for a while that it is none (2007)."""
        for _ in range(100):
            answer = wire.call(leader, code, header)
            if answer.code != 2007:
                break
            time.sleep(0.1)
        assert answer.code == 0, answer
        return answer

    def stop(self) -> None:
        self._stopped.set()
        if self._beats is not None:
            self._beats.join()
        for link in self._links:
            link.close()


async def test_a_java_slave_follows_us(ours: Ours) -> None:
    """It acknowledges, and copies over a file's end, blank record included."""
    port = await ours.plain.start("127.0.0.1", 0)
    await ours.plain.become_master(sync=True)
    config = {**CONFIG, "brokerRole": "SLAVE", "brokerId": 1}
    cluster = had(lambda: JavaCluster(broker_config=config))
    stage = Stage(cluster.namesrv_addr, port)
    try:
        await asyncio.to_thread(cluster.start_namesrv)
        stage.register()
        ours.write(50, 2000)
        await asyncio.to_thread(cluster.start_broker)
        assert await ours.acked(ours.plain) is AckStatus.ACKED
        ours.write(800, 2000)
        assert await ours.acked(ours.plain) is AckStatus.ACKED
        end = ours.end
        assert end > FILE_BYTES
        assert java_log(cluster.store / "commitlog", 0, end) == ours.bytes(0, end)
    finally:
        stage.stop()
        await asyncio.to_thread(cluster.stop)


@pytest.mark.parametrize("ours", [True], indirect=True)
async def test_a_java_slave_of_a_controller_follows_us(ours: Ours) -> None:
    """Handshake, truncation, epochs and acknowledgements of its AutoSwitchHAClient."""
    config = {**CONFIG, "registerNameServerPeriod": 10_000}
    group = had(lambda: Group(controllers=JAVA, brokers=JAVA, replicas=1, broker_config=config))
    port = await ours.switched.start("127.0.0.1", 0)
    stage = Stage(group.namesrv_addr, port)
    try:
        for server in (group.namesrv, *group.controllers):
            server.start()
        await until(lambda: is_listening(group.namesrv.port))
        for server in group.controllers:
            await until(lambda port=server.port: is_listening(port))
        await until(group.controller_leader)
        leader = group.controller_leader()
        assert leader is not None
        addresses = [server.address for server in group.controllers]
        epoch = await asyncio.to_thread(stage.elect, leader.address, addresses)
        stage.register()
        await ours.switched.become_master(epoch, frozenset({1}), 1)
        ours.write(50, 2000)
        group.brokers[0].start()
        await until(lambda: ours.proposals)
        assert ours.proposals[0].members == frozenset({1, 2})
        ours.switched.set_committed(frozenset({1, 2}), 2)
        assert await ours.acked(ours.switched) is AckStatus.ACKED
        ours.write(800, 2000)
        assert await ours.acked(ours.switched) is AckStatus.ACKED
        # A new epoch with nothing in between, then one that cuts what only the slave would have.
        for number in (1, 2):
            await ours.switched.become_master(epoch + number, frozenset({1, 2}), 2 + number)
            ours.write(20, 2000)
            assert await ours.acked(ours.switched) is AckStatus.ACKED
        end, store = ours.end, group.brokers[0].root / "store"
        assert end > FILE_BYTES
        assert java_log(store / "commitlog", 0, end) == ours.bytes(0, end)
        theirs = (store / "epochFileCheckpoint").read_text().splitlines()[2:]
        assert [f"{e.epoch}-{e.start}" for e in ours.switched.node.epochs.entries] == theirs
        assert ours.troubles == []
    finally:
        stage.stop()
        await asyncio.to_thread(group.stop)


@pytest.mark.parametrize("ours", [True], indirect=True)
async def test_we_follow_a_java_master_of_a_controller(ours: Ours) -> None:
    """Handshake, epochs, log, confirmed offset; and again after the link broke."""
    config = {**CONFIG, "allAckInSyncStateSet": False}
    group = had(lambda: Group(controllers=JAVA, brokers=JAVA, replicas=1, broker_config=config))
    service = StoreService(ours.store, ours.clock, _Inline())
    try:
        await asyncio.to_thread(group.start)
        await service.start()
        java = group.brokers[0]
        store = java.root / "store"
        await asyncio.to_thread(admin.create_topic, java.address, TOPIC)
        await asyncio.to_thread(fill, java.address, 100, 10_000)
        address = f"127.0.0.1:{java.port + 1}"
        await ours.switched.become_follower(1, 2, address, False)
        await until(lambda: ours.end > 100 * 10_000)
        await asyncio.to_thread(fill, java.address, 100, 10_000)
        await until(lambda: ours.end > 200 * 10_000)
        await ours.switched.become_follower(1, 2, None, False)
        await asyncio.to_thread(fill, java.address, 5, 10_000)
        await ours.switched.become_follower(1, 2, address, False)
        await until(lambda: ours.end > 205 * 10_000)
        await until(lambda: ours.store.pointers.confirmed == ours.end)
        assert ours.bytes(0, ours.end) == java_log(store / "commitlog", 0, ours.end)
        theirs = (store / "epochFileCheckpoint").read_text().splitlines()[2:]
        assert [f"{e.epoch}-{e.start}" for e in ours.switched.node.epochs.entries] == theirs
        assert ours.troubles == []
        assert ours.store.verify().problems == []
    finally:
        await service.stop()
        await asyncio.to_thread(group.stop)


class _Inline:
    """Blocking calls on the loop: nothing here is in a hurry."""

    async def run(self, call):  # type: ignore[no-untyped-def]
        return call()
