"""A running name server: the node behind a port, the scan for silent brokers, the notices."""

import asyncio
import logging
import os
from typing import Protocol

from epochmq.base.errors import NotReachable
from epochmq.base.ports import Clock, Disk
from epochmq.nameserver.acting_master import MinIdNotice
from epochmq.nameserver.handlers.table import handlers
from epochmq.nameserver.kv_config import KvConfig
from epochmq.nameserver.node import NameServerNode
from epochmq.nameserver.options import NamesrvOptions
from epochmq.runtime.bounds import Bounds
from epochmq.runtime.clock import RealClock
from epochmq.runtime.disk import RealDisk
from epochmq.runtime.peers import Peers
from epochmq.runtime.server import RemotingServer
from epochmq.runtime.signals import stop_on_signals
from epochmq.runtime.tls import client_tls, server_tls
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, Held, Reply, request
from epochmq.wire.dispatcher import Dispatcher, Handler
from epochmq.wire.headers.namesrv import NotifyMinBrokerIdChangeHeader
from epochmq.wire.session import Session

log = logging.getLogger(__name__)

NOTICE_TIMEOUT_MS = 300


class Guest(Protocol):
    """A service that shares the name server's port: its requests, by code."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def table(self) -> dict[int, Handler]: ...


class NameServer:
    """Start it, and it serves until it is stopped; `port` is the one it listens on.

    A heartbeat (904) that both know goes to both; the `guest` answers it.
    """

    def __init__(
        self,
        options: NamesrvOptions,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        bounds: Bounds | None = None,
        guest: Guest | None = None,
    ) -> None:
        self._guest = guest
        self._clock = clock or RealClock()
        folder, name = os.path.split(options.kv_config_path)
        self._kv = KvConfig(disk or RealDisk(folder or "."), name)
        self.node = NameServerNode(options, self._kv, self._clock.now_ms())
        self.port = options.listen_port
        idle_ms = options.server_channel_max_idle_time_seconds * 1000
        self._server = RemotingServer(bounds or Bounds(idle_ms=idle_ms))
        self._tls = server_tls(options)
        self._peers = Peers(tls=client_tls(options))
        self._scanner: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Load the key-value configuration and listen.

        Errors: `PortInUse`, `StoreDamaged`, and other `EnvironmentFault`s, one clear line each.
        """
        self._kv.load()
        options = self.node.options
        sink = _Sink(self)
        if self._guest is not None:
            await self._guest.start()
            sink.share(self._guest.table())
        self.port = await self._server.start(
            options.bind_address, options.listen_port, sink, tls=self._tls
        )
        self._scanner = asyncio.create_task(self._scan())

    async def stop(self, grace_ms: int = 3_000) -> None:
        """Close all connections and end all tasks; may be called more than once."""
        tasks = [*self._sending]
        if self._scanner is not None:
            tasks.append(self._scanner)
            self._scanner = None
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._guest is not None:
            await self._guest.stop()
        await self._server.stop(grace_ms)
        await self._peers.close()

    async def _scan(self) -> None:
        while True:
            await asyncio.sleep(self.node.options.scan_not_active_broker_interval / 1000)
            self.node.expire(self._clock.now_ms())
            self.send_notices()

    def send_notices(self) -> None:
        """Tell brokers of changes of their group's smallest id; nobody waits for that."""
        for notice in self.node.table.take_notices():
            for addr in notice.to:
                task = asyncio.create_task(self._notify(addr, notice))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)

    async def _notify(self, addr: str, notice: MinIdNotice) -> None:
        header = NotifyMinBrokerIdChangeHeader(
            minBrokerId=notice.min_id,
            minBrokerAddr=notice.min_addr,
            offlineBrokerAddr=notice.offline_addr,
            haBrokerAddr=notice.ha_addr,
        )
        told = request(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, header)
        try:
            await self._peers.oneway(addr, told, NOTICE_TIMEOUT_MS)
        except NotReachable as error:
            log.info("broker %s was not told of its group's smallest id: %s", addr, error)


class _Sink(Dispatcher):
    """The handlers; notices that requests gave rise to leave at the end of the turn."""

    def __init__(self, server: NameServer) -> None:
        super().__init__(handlers(server.node))
        self._server = server

    def share(self, guests: dict[int, Handler]) -> None:
        """Serve a guest's codes as well."""
        for code, handler in guests.items():
            own = self.table.get(code)
            self.table[code] = handler if own is None else _both(own, handler)

    def end_of_turn(self, now: int) -> None:
        if self._server.node.table.notices:
            self._server.send_notices()


def _both(first: Handler, second: Handler) -> Handler:
    def handle(command: Command, session: Session, now: int) -> Reply | Held:
        first(command, session, now)
        return second(command, session, now)

    return handle


async def main(options: NamesrvOptions, guest: Guest | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C; one line says when it is ready. Errors as `start`."""
    server = NameServer(options, guest=guest)
    with stop_on_signals() as stop:
        await server.start()
        try:
            print(f"name server ready on {options.bind_address}:{server.port}", flush=True)
            log.info("stopping: %s", await stop.wait())
        finally:
            await server.stop()
