"""A running relay: the ports of its groups, and a connection to the master for each client."""

import asyncio
import logging
import ssl
from collections.abc import Sequence

from epochmq.auth.server_keys import inner_signer
from epochmq.base import limits
from epochmq.base.errors import NotReachable
from epochmq.base.ports import Clock
from epochmq.base.task_set import TaskSet
from epochmq.model.host import parse_addr, split_addresses
from epochmq.relay.master_watch import MasterWatch
from epochmq.relay.options import RelayedGroup, RelayOptions
from epochmq.relay.relayed_client import HeldBytes, RelayedClient
from epochmq.relay.relayed_frames import whole_frame
from epochmq.runtime.bounds import Bounds, Budget
from epochmq.runtime.clock import RealClock
from epochmq.runtime.connection import Connection
from epochmq.runtime.listen import tune
from epochmq.runtime.peers import Peers
from epochmq.runtime.process import server_process
from epochmq.runtime.server import RemotingServer
from epochmq.runtime.service_manager import serve_until
from epochmq.runtime.signals import stop_on_signals
from epochmq.runtime.tls import client_tls, server_tls
from epochmq.runtime.turn import turn_of
from epochmq.wire.frame import RawFrame
from epochmq.wire.session import FrameSink, Session

log = logging.getLogger(__name__)

CONNECT_MS = 1_000
RECONNECT_MS = 20
"""Pause before a master is connected again that refused a connection and still counts as master."""
TICK_MS = 100
"""How often waiting requests are sent again, or answered because they waited for too long."""
LOST_MS = 100
"""A master that closes one client's connection, and is still master after this time, refused that
client: the client's connection is closed too."""


class MasterConnection:
    """The connection of one client to the master; the owner of its `Connection`."""

    fast_port = False
    header_bytes_max = limits.ANSWER_HEADER_BYTES_MAX
    shares_turns = False  # this process chose the broker
    unsent: Budget[Connection] | None = None
    half_frames: Budget[Connection] | None = None

    def __init__(self, link: "ClientLink", unsent_bytes_max: int) -> None:
        self.link = link
        self.unsent_bytes_max = unsent_bytes_max
        self.sink: FrameSink = self
        self.connection: Connection | None = None

    @property
    def is_closed(self) -> bool:
        return self.connection is None or self.connection.session.closed

    # As the owner of a connection -------------------------------------------------------------

    def made(self, connection: Connection) -> str | None:
        self.connection = connection
        return None

    def slowed(self, connection: Connection, slow: bool) -> None:
        """Nothing: the bytes of requests are limited (`HeldBytes`)."""

    def gone(self, connection: Connection, reason: str) -> None:
        self.link.master_gone(self, reason)

    # As the sink of its frames ----------------------------------------------------------------

    def opened(self, session: Session) -> None:
        """Nothing: the caller of `create_connection` goes on."""

    def closed(self, session: Session) -> None:
        """Nothing: `gone` follows."""

    def receive_raw(self, session: Session, data: memoryview, start: int, size: int) -> int:
        return self.link.from_master(self, data, start, size)

    def receive(self, session: Session, frames: Sequence[RawFrame], now: int) -> None:
        for frame in frames:
            data = whole_frame(frame)
            self.link.from_master(self, data, 0, len(data))

    def end_of_turn(self, now: int) -> None:
        """Nothing: each read is passed on at once."""


class ClientLink:
    """One client: its session, its requests, and its connection to the master."""

    def __init__(self, group: "GroupRelay", session: Session, core: RelayedClient) -> None:
        self.group = group
        self._now_ms = group.clock.now_ms
        self.session = session
        self.core = core
        self.master: MasterConnection | None = None
        self.connecting: asyncio.Task[None] | None = None
        self.closed = False

    # Data -------------------------------------------------------------------------------------

    def from_client(self, data: memoryview, start: int, size: int) -> int:
        """Pass on the whole frames of a client; return their size."""
        taken = self.core.from_client(data, start, size, self._now_ms())
        self.flush()
        return taken

    def from_master(self, master: MasterConnection, data: memoryview, start: int, size: int) -> int:
        """Pass on the whole frames of the master; return their size."""
        if master is not self.master:
            return size - start
        taken = self.core.from_master(data, start, size, self._now_ms())
        self.flush()
        return taken

    def flush(self) -> None:
        """Queue what the core wants to be sent."""
        core = self.core
        if core.to_client:
            self.session.send(*core.to_client)
            core.to_client.clear()
        if core.to_master:
            master = self.master
            if master is not None and master.connection is not None:
                master.connection.session.send(*core.to_master)
            core.to_master.clear()

    # The master -------------------------------------------------------------------------------

    def use_master(self, address: str | None) -> None:
        """Leave the present master, and connect to the one at `address`."""
        self.leave_master()
        if address is not None and not self.closed:
            self.connecting = self.group.tasks.spawn(self._connect(address))

    def leave_master(self) -> None:
        """Close the connection to the master; requests without an answer are kept or refused."""
        if self.connecting is not None:
            self.connecting.cancel()
            self.connecting = None
        master, self.master = self.master, None
        if master is not None and master.connection is not None:
            master.connection.abort("the master changed")
        self.core.master_lost()
        self.flush()

    async def _connect(self, address: str) -> None:
        while True:
            try:
                master = await self.group.open_connection(self, address)
                if not master.is_closed:
                    break
            except NotReachable as error:
                log.debug("%(peer)s: %(error)s", {"peer": self.session.peer, "error": error})
            await asyncio.sleep(RECONNECT_MS / 1000)
        self.connecting = None
        self.master = master
        self.core.master_connected()
        self.flush()

    def master_gone(self, master: MasterConnection, reason: str) -> None:
        """Note that the connection to the master is closed."""
        if master is not self.master or self.closed:
            return
        self.master = None
        self.core.master_lost()
        self.flush()
        self.group.connection_lost(self, reason)

    def close(self) -> None:
        """Drop everything: the client is gone."""
        self.closed = True
        self.leave_master()
        self.core.close()


class GroupRelay:
    """The relay of one group: the sink of the port of its clients."""

    def __init__(
        self,
        group: RelayedGroup,
        options: RelayOptions,
        held: HeldBytes,
        clock: Clock,
    ) -> None:
        self.name = group.name
        self.port = group.port
        self.tasks = TaskSet(self._failed)
        self._options = options
        self._held = held
        self.clock = clock
        self._tls: ssl.SSLContext | None = client_tls(options)
        self._links: dict[Session, ClientLink] = {}
        self._without_since_ms: int | None = clock.now_ms()
        self.watch = MasterWatch(
            options.broker_cluster_name,
            group.name,
            split_addresses(options.namesrv_addr),
            split_addresses(options.broker_addrs),
            Peers(tls=self._tls, signer=inner_signer(options)),
            self._master_changed,
        )

    def start(self) -> None:
        """Watch the group's brokers."""
        self.watch.start()
        self.tasks.spawn(self._run())

    async def stop(self) -> None:
        """End all tasks and close the connections to brokers."""
        await self.watch.stop()
        for link in list(self._links.values()):
            link.close()
        await self.tasks.close()

    def _failed(self, task: asyncio.Task[None], error: BaseException) -> None:
        log.error("the relay of group %(group)s failed", {"group": self.name}, exc_info=error)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(TICK_MS / 1000)
            now = self.clock.now_ms()
            for link in self._links.values():
                if link.core.waiting:
                    link.core.expire(now)
                    link.core.send_waiting()
                    link.flush()

    # The master -------------------------------------------------------------------------------

    def _master_changed(self) -> None:
        tracker, now = self.watch.tracker, self.clock.now_ms()
        if tracker.master is None:
            self._without_since_ms = now
            log.warning(
                "group %(group)s: no master; %(clients)d clients wait",
                {"group": self.name, "clients": len(self._links)},
            )
        else:
            since, self._without_since_ms = self._without_since_ms, None
            log.info(
                "group %(group)s: the master is %(master)s (epoch %(epoch)d)%(outage)s;"
                " %(clients)d clients",
                {
                    "group": self.name,
                    "master": tracker.master,
                    "epoch": tracker.epoch,
                    "outage": "" if since is None else f" after {now - since} ms without one",
                    "clients": len(self._links),
                },
            )
        for link in list(self._links.values()):
            link.use_master(tracker.master)

    async def open_connection(self, link: ClientLink, address: str) -> MasterConnection:
        """Connect to the master at `address`, for one client. Raises `NotReachable`."""
        loop = asyncio.get_running_loop()
        master = MasterConnection(link, self._held.limit)
        try:
            host, port = parse_addr(address)
            async with asyncio.timeout(CONNECT_MS / 1000):
                transport, _ = await loop.create_connection(
                    lambda: Connection(loop, turn_of(loop), master), host, port, ssl=self._tls
                )
        except TimeoutError:
            raise NotReachable(f"cannot connect to {address} within {CONNECT_MS} ms") from None
        except OSError as error:
            raise NotReachable(f"cannot connect to {address}: {error.strerror}") from None
        sock = transport.get_extra_info("socket")
        if sock is not None:
            tune(sock)
        return master

    def connection_lost(self, link: ClientLink, reason: str) -> None:
        """Find out whether the master is gone, or refused this client."""
        tracker = self.watch.tracker
        changes = tracker.changes

        def decide() -> None:
            if link.closed or link.master is not None or link.connecting is not None:
                return
            if tracker.changes == changes and tracker.master is not None:
                link.session.close(f"the master closed its connection: {reason or 'no reason'}")

        asyncio.get_running_loop().call_later(LOST_MS / 1000, decide)

    # Clients ----------------------------------------------------------------------------------

    def opened(self, session: Session) -> None:
        core = RelayedClient(
            self._options.hold_timeout_millis,
            self._held,
            resend_sends=self._options.resend_sends,
        )
        link = self._links[session] = ClientLink(self, session, core)
        link.use_master(self.watch.tracker.master)

    def closed(self, session: Session) -> None:
        link = self._links.pop(session, None)
        if link is not None:
            link.close()

    def receive_raw(self, session: Session, data: memoryview, start: int, size: int) -> int:
        return self._links[session].from_client(data, start, size)

    def receive(self, session: Session, frames: Sequence[RawFrame], now: int) -> None:
        for frame in frames:
            data = whole_frame(frame)
            self._links[session].from_client(data, 0, len(data))

    def end_of_turn(self, now: int) -> None:
        """Nothing: each read is passed on at once."""


class Relay:
    """A relay process. It serves from `start` until `stop`; `groups` know their ports."""

    def __init__(self, options: RelayOptions, clock: Clock | None = None) -> None:
        options.check()
        clock = clock or RealClock()
        held = HeldBytes(options.held_bytes_max)
        idle_ms = options.server_channel_max_idle_time_seconds * 1000
        self._options = options
        self._server = RemotingServer(Bounds(idle_ms=idle_ms))
        self._tls = server_tls(options)
        self.groups = [GroupRelay(group, options, held, clock) for group in options.groups()]

    async def start(self) -> None:
        """Listen, and watch the brokers.

        Raises:
            PortInUse: another process uses a port.
            EnvironmentFault: any other problem of a port.
        """
        for group in self.groups:
            group.port = await self._server.start(
                self._options.bind_address, group.port, group, tls=self._tls, origin="relayGroups"
            )
            group.start()

    async def stop(self, grace_ms: int = 3_000) -> None:
        """Send what is queued for clients, then close all connections."""
        await self._server.stop(grace_ms)
        for group in self.groups:
            await group.stop()


async def main(options: RelayOptions) -> None:
    """Run a relay until SIGTERM or Ctrl-C; print one line when it is ready. Errors as `start`."""
    relay = Relay(options)
    with stop_on_signals() as stop, server_process():
        try:
            await relay.start()
            ports = ", ".join(
                f"{group.name} at {options.bind_address}:{group.port}" for group in relay.groups
            )
            reason = await serve_until(stop, f"relay ready: {ports}")
            log.info("stopping: %(reason)s", {"reason": reason})
        finally:
            await relay.stop()
