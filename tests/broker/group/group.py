"""A whole group in this process: controllers, a name server, brokers, over real sockets."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.broker.broker_harness import send
from tests.broker.client import RawClient
from tests.controller.server.controller_internals import cut_off, let_in

from epochmq.base.errors import PortInUse
from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.server.broker_server import Broker
from epochmq.controller.options import ControllerOptions
from epochmq.controller.server.controller_server import EmbeddedController
from epochmq.model.record import decode_all
from epochmq.nameserver.name_server import NameServer
from epochmq.nameserver.options import NamesrvOptions
from epochmq.runtime.own_host import free_port
from epochmq.wire.codes import ResponseCode

HOST = "127.0.0.1"
SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 20_000,
    "max_message_size": 65_536,
    "max_hash_slot_num": 64,
    "max_index_num": 256,
    "memory_window_bytes": 1 << 20,
}


class InProcess:
    """Start what a test needs; `stop` ends all of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.guests: list[EmbeddedController] = []
        self.brokers: list[Broker] = []
        self.namesrv: NameServer
        self.controller_addr = ""

    async def start(self, brokers: int = 3, controllers: int = 1, **options: Any) -> None:
        options_of_namesrv = NamesrvOptions(
            bind_address=HOST, listen_port=0, kv_config_path=str(self.folder / "kv.json")
        )
        self.namesrv = NameServer(options_of_namesrv)
        await self.namesrv.start()
        ports = [free_port(HOST) for _ in range(controllers)]
        peers = ";".join(f"n{n}-{HOST}:{port}" for n, port in enumerate(ports))
        self.controller_addr = ";".join(f"{HOST}:{port}" for port in ports)
        for number in range(controllers):
            await self.start_controller(number, peers)
        for _ in range(brokers):
            self.brokers.append(await self.start_broker(len(self.brokers), **options))

    async def start_controller(self, number: int, peers: str) -> None:
        guest = EmbeddedController(
            ControllerOptions(
                controller_d_leger_group="g",
                controller_d_leger_peers=peers,
                controller_d_leger_self_id=f"n{number}",
                controller_bootstrap=True,
                controller_store_path=str(self.folder / f"controller-{number}"),
                first_election_window_millis=50,
                lease_millis=800,
                lease_skew_millis=50,
                election_timeout_millis=200,
                raft_heartbeat_millis=50,
            ),
            shared_port=0,
        )
        await guest.start()
        self.guests.append(guest)

    async def cut_off(self, number: int) -> None:
        """Nobody reaches this controller any more."""
        await cut_off(self.guests[number])

    async def let_in(self, number: int) -> None:
        """It can be reached again."""
        await let_in(self.guests[number])

    async def start_broker(self, number: int, **options: Any) -> Broker:
        """Ports are found free first and bound later: others may be faster."""
        for _ in range(3):
            with suppress(PortInUse):
                return await self._start_broker(number, **options)
        return await self._start_broker(number, **options)

    async def _start_broker(self, number: int, **options: Any) -> Broker:
        values: dict[str, Any] = {
            "broker_name": "b",
            "broker_cluster_name": "c",
            "bind_address": HOST,
            "listen_port": 0,
            "fast_listen_port": -1,
            "ha_listen_port": free_port(HOST),
            "namesrv_addr": f"{HOST}:{self.namesrv.port}",
            "enable_controller_mode": True,
            "controller_addr": self.controller_addr,
            "store_path_root_dir": str(self.folder / f"store-{number}"),
            "broker_heartbeat_interval": 100,
            "slave_metadata_period": 100,
            **SMALL,
            **options,
        }
        broker = Broker(BrokerOptions(**values))
        await broker.start()
        return broker

    async def stop(self) -> None:
        for broker in self.brokers:
            await broker.stop(grace_ms=0)
        for guest in self.guests:
            await guest.stop()
        await self.namesrv.stop(grace_ms=0)

    # What tests look at ----------------------------------------------------------------------

    def masters(self) -> list[Broker]:
        return [one for one in self.brokers if one.node.serving.rights.writable]

    async def master(self) -> Broker:
        """The one master, once there is one and only one that serves."""
        await until(lambda: len(self.masters()) == 1)
        return self.masters()[0]

    async def whole(self, size: int | None = None) -> Broker:
        """The master, once its set has so many members."""
        wanted = len(self.brokers) if size is None else size
        master = await self.master()
        await until(lambda: len(master.node.group_position.members) == wanted)
        return master

    def route(self) -> dict[int, str]:
        """The group's addresses as the name server has them."""
        groups = self.namesrv.node.table.brokers.groups
        return dict(groups["b"].addrs) if "b" in groups else {}


async def put(broker: Broker, body: bytes = b"x", topic: str = "T", **more: Any) -> int:
    """Send one message; the code of its answer."""
    client = await RawClient.connect(broker.port)
    try:
        answer = await client.ask(send(body, topic=topic, **more))
        return answer.code
    finally:
        await client.close()


async def put_under_lease(broker: Broker, body: bytes = b"x", **more: Any) -> int:
    """The code of the answer while the lease runs: on a busy machine it may lapse at any time."""
    async with asyncio.timeout(10):
        while True:
            code = await put(broker, body, **more)
            if code != ResponseCode.SERVICE_NOT_AVAILABLE:
                return code
            await asyncio.sleep(0.02)


async def put_until_stored(where: "Broker | InProcess", body: bytes = b"x", **more: Any) -> None:
    """To this broker, or to whoever is the group's master at the time."""
    async with asyncio.timeout(10):
        while True:
            broker = await where.master() if isinstance(where, InProcess) else where
            if await put(broker, body, **more) == ResponseCode.SUCCESS:
                return
            await asyncio.sleep(0.02)


async def put_many(broker: Broker, count: int, **more: Any) -> None:
    """So many messages more, one after the other."""
    client = await RawClient.connect(broker.port)
    try:
        for _ in range(count):
            assert (await client.ask(send(b"x", **more))).code == ResponseCode.SUCCESS
    finally:
        await client.close()


async def until(holds: Callable[[], object]) -> None:
    """Wait for what tasks of this process bring about."""
    async with asyncio.timeout(10):
        while True:
            if holds():
                return
            await asyncio.sleep(0.01)


def bodies(broker: Broker, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    """What readers are given of a queue."""
    found = broker.node.store.read_queue(topic, queue_id, 0, 1000, 1 << 20)
    return [m.body for m in decode_all(b"".join(found.chunks))] if found.count else []


def log_of(broker: Broker) -> bytes:
    """The log's bytes, from its start."""
    store = broker.node.store
    pieces, at = [], store.pointers.start
    while at < store.pointers.appended:
        piece = bytes(store.slice(at, 1 << 20))
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)
