"""A name server, three controllers and the replicas of one group, each ours or upstream's."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from . import wire
from .cache import maven_jars
from .cluster import Config, properties
from .java import (
    BROKER_MAIN,
    CONTROLLER_MAIN,
    NAMESRV_MAIN,
    SMALL_HEAP,
    TEST_FLAGS,
    TEST_HEAP,
    VERSION,
    server_argv,
)
from .ports import free_broker_port, free_port
from .process import Process, is_listening, wait_until
from .running import Running

OURS = "epochmq"
JAVA = "java"
CLUSTER = "DefaultCluster"
_MAINS = {"namesrv": NAMESRV_MAIN, "controller": CONTROLLER_MAIN, "broker": BROKER_MAIN}


@dataclass(frozen=True)
class SyncState:
    """What the controllers say of the group."""

    master_id: int | None
    master_address: str | None
    master_epoch: int
    in_sync: tuple[str, ...]
    """Addresses."""


class Server:
    """One process of the group: its configuration, its port, its log."""

    def __init__(
        self,
        kind: str,
        command: str,
        root: Path,
        port: int,
        config: Config,
        *,
        heap: Sequence[str] = SMALL_HEAP,
        flags: Sequence[str] = TEST_FLAGS,
        version: str = VERSION,
    ) -> None:
        self.kind = kind
        self.root = root
        self.port = port
        self.config = dict(config)
        root.mkdir(parents=True, exist_ok=True)
        file = root / "server.conf"
        if kind == JAVA:
            argv: list[str | Path] = [
                *server_argv(root, maven_jars("server", version), heap, flags, _MAINS[command])
            ]
        else:
            argv = [sys.executable, "-m", "epochmq", command]
        env = {"HOME": str(root), "ROCKETMQ_HOME": str(root), "NAMESRV_ADDR": ""}
        self.process = Process(root.name, [*argv, "-c", file], root / "server.log", env)

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it; it is not ready yet."""
        (self.root / "server.conf").write_text(properties(self.config))
        self.process.start()


class Group(Running):
    """``controllers`` and ``brokers`` say whose they are (``OURS`` or ``JAVA``).

    ``broker_config`` adds to or overrides the defaults of every broker, with upstream's names.
    With ``relay`` clients are led to the master by an ``epochmq relay``, with ``group_address`` by
    something else; then each broker has a health port.
    """

    ready_timeout_s = 90.0

    def __init__(
        self,
        controllers: str = OURS,
        brokers: str = OURS,
        *,
        replicas: int = 3,
        root: Path | None = None,
        broker_config: Config | None = None,
        controller_config: Config | None = None,
        broker_name: str = "broker-a",
        heap: Sequence[str] = TEST_HEAP,
        flags: Sequence[str] = TEST_FLAGS,
        relay: bool = False,
        group_address: str = "",
    ) -> None:
        self._own_root = root is None
        self.root = Path(tempfile.mkdtemp(prefix="group-")) if root is None else root.resolve()
        self.broker_name = broker_name
        self.namesrv = self._make_namesrv(brokers, "namesrv")
        self.more_name_servers: list[Server] = []
        self.controllers = self._make_controllers(controllers, controller_config or {})
        self._java_heap = {"heap": heap, "flags": flags}
        self.relay = self._make_relay() if relay else None
        if self.relay is not None:
            group_address = self.relay.address
        if group_address:
            broker_config = {"groupAddress": group_address, **(broker_config or {})}
        self._has_health_ports = bool(group_address)
        self.brokers = [
            self._make_broker(brokers, number, broker_config or {}) for number in range(replicas)
        ]

    def add_name_server(self) -> Server:
        """One more name server of ours, for brokers that are not started yet."""
        made = self._make_namesrv(OURS, f"namesrv-{len(self.more_name_servers) + 2}")
        self.more_name_servers.append(made)
        for broker in self.brokers:
            broker.config["namesrvAddr"] = f"{broker.config['namesrvAddr']};{made.address}"
        return made

    def _make_namesrv(self, kind: str, name: str) -> Server:
        port = free_port()
        config: dict[str, str | int | bool] = {"listenPort": port, "bindAddress": "127.0.0.1"}
        if kind == JAVA:
            config["scanAvailableNameSrv"] = False
        return Server(kind, "namesrv", self.root / name, port, config)

    def _make_relay(self) -> Server:
        port = free_port()
        config: dict[str, str | int | bool] = {
            "relayGroups": f"{self.broker_name}:{port}",
            "namesrvAddr": self.namesrv.address,
            "brokerClusterName": CLUSTER,
        }
        return Server(OURS, "relay", self.root / "relay", port, config)

    def _make_controllers(self, kind: str, more: Config) -> list[Server]:
        ports = [free_port() for _ in range(3)]
        peers = ";".join(f"n{n}-127.0.0.1:{port}" for n, port in enumerate(ports))
        return [
            Server(
                kind,
                "controller",
                self.root / f"controller-{n}",
                port,
                {
                    "controllerDLegerGroup": "group1",
                    "controllerDLegerPeers": peers,
                    "controllerDLegerSelfId": f"n{n}",
                    **({"controllerBootstrap": True} if kind != JAVA else {}),
                    "controllerStorePath": str(self.root / f"controller-{n}" / "data"),
                    **more,
                },
            )
            for n, port in enumerate(ports)
        ]

    def _make_broker(self, kind: str, number: int, more: Config) -> Server:
        port = free_broker_port()
        root = self.root / f"broker-{number}"
        store = root / "store"
        config: dict[str, str | int | bool] = {
            "brokerClusterName": CLUSTER,
            "brokerName": self.broker_name,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": port,
            "haListenPort": port + 1,
            "namesrvAddr": self.namesrv.address,
            "enableControllerMode": True,
            "controllerAddr": self.controller_addresses,
            "allAckInSyncStateSet": True,
            "storePathRootDir": str(store),
            "storePathCommitLog": str(store / "commitlog"),
            "storePathEpochFile": str(store / "epochFileCheckpoint"),
            "mappedFileSizeCommitLog": 64 << 20,
            **({"healthListenPort": free_port()} if self._has_health_ports else {}),
            **more,
        }
        return Server(kind, "broker", root, port, config, **self._java_heap)

    # Lookups ---------------------------------------------------------------------------------

    @property
    def namesrv_addr(self) -> str:
        """What a client is given."""
        return self.namesrv.address

    @property
    def controller_addresses(self) -> str:
        """``host:port;...``"""
        return ";".join(server.address for server in self.controllers)

    def controller_leader(self) -> Server | None:
        """The controller that says it leads."""
        for server in self.controllers:
            with suppress(OSError, KeyError):
                found = wire.call(server.address, wire.GET_METADATA, {})
                if found.ext.get("isLeader") == "true":
                    return server
        return None

    def sync_state(self) -> SyncState | None:
        """Asked of the leader; None while there is none or it knows nothing of the group."""
        leader = self.controller_leader()
        if leader is None:
            return None
        with suppress(OSError, KeyError, ValueError):
            found = wire.sync_state(leader.address, self.broker_name)
            return SyncState(
                found.get("masterBrokerId"),
                found.get("masterAddress") or None,
                found["masterEpoch"],
                tuple(sorted(each["brokerAddress"] for each in found["inSyncReplicas"])),
            )
        return None

    def master(self) -> Server | None:
        """The broker that the controllers call master."""
        state = self.sync_state()
        found = [b for b in self.brokers if state and b.address == state.master_address]
        return found[0] if found else None

    def is_ready(self) -> bool:
        """All living brokers are in the set, and clients can find the master."""
        if not self.brokers:
            return self.controller_leader() is not None
        alive = sorted(b.address for b in self.brokers if b.process.is_alive)
        state = self.sync_state()
        if state is None or list(state.in_sync) != alive or state.master_address is None:
            return False
        servers = [self.namesrv, *self.more_name_servers]
        return all(wire.is_registered(each.address, state.master_address) for each in servers)

    # Life ------------------------------------------------------------------------------------

    @property
    def servers(self) -> list[Server]:
        """All, in the order of their start."""
        relays = [] if self.relay is None else [self.relay]
        return [
            self.namesrv,
            *self.more_name_servers,
            *self.controllers,
            *self.brokers,
            *relays,
        ]

    def start(self) -> Self:
        """Start everything and return when the set is whole."""
        for server in self.servers:
            server.start()
        self.wait_ready()
        return self

    def wait_ready(self, timeout_s: float | None = None) -> None:
        """Wait until ``is_ready``; a failure carries the ends of all logs."""
        try:
            wait_until(self.is_ready, timeout_s or self.ready_timeout_s, "group ready")
        except TimeoutError as late:
            tails = (f"--- {s.root.name}\n{s.process.log_tail(12)}" for s in self.servers)
            state = self.sync_state()
            raise TimeoutError("\n".join((f"{late}; {state}", *tails))) from None

    def wait_listening(self, server: Server) -> None:
        """Wait for one server's port."""
        server.process.wait_ready(lambda: is_listening(server.port), self.ready_timeout_s)

    def stop(self) -> None:
        """Kill all; a temporary root is removed."""
        for server in reversed(self.servers):
            server.process.kill9()
        if self._own_root:
            shutil.rmtree(self.root, ignore_errors=True)

    def cpu_seconds(self) -> Mapping[str, float]:
        """CPU time of each living process so far."""
        return {s.root.name: s.process.cpu_seconds() for s in self.servers if s.process.is_alive}
