"""Starts and stops a local cluster of processes, with all its files in one directory.

It has a name server and one broker; or a name server, three controllers, a relay and the replicas
of one group; or a name server and groups of a master and slaves that can become acting master.

cluster.json           addresses, while the cluster is up (where.py reads it)
*.properties           written once, then the user's
certs/  admin.credentials  with `--secure`, see secure_files.py
namesrv.pid ...        process ids
logs/  store/, store-0/ or store-a-0/ ...  controller-0/ ...  namesrv/
"""

import asyncio
import contextlib
import fcntl
import importlib.util
import json
import os
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from epochmq.admin.local import config_files, processes, secure_files, where
from epochmq.admin.local.config_files import HOST, PortBlock, PortChoice
from epochmq.base.errors import EnvironmentFault, EpochError, PortInUse
from epochmq.client.aio import Admin
from epochmq.client.aio.name_servers import NameServers
from epochmq.model.names import DEFAULT_TOPIC
from epochmq.runtime.listen import is_held_by
from epochmq.runtime.peers import Peers
from epochmq.runtime.rng import RealRng
from epochmq.runtime.tls import outgoing_tls

# Cluster ready -------------------------------------------------------------------------------
# Checks whether a cluster can be used, by the requests of a client.


TIMEOUT_MS = 1_000


async def brokers_known(namesrv: str) -> int:
    """Return how many brokers have registered at the name server; 0 when it does not answer."""
    peers = Peers(tls=outgoing_tls.get())
    servers = NameServers(namesrv, peers, RealRng())
    try:
        # Every broker registers the template of new topics, so that topic's route lists all
        # brokers.
        route = await servers.route(DEFAULT_TOPIC)
    except EpochError:
        return 0
    finally:
        await peers.close()
    return sum(len(broker.broker_addrs) for broker in route.broker_datas)


async def all_copied(namesrv: str, brokers: Iterable[str]) -> bool:
    """Return whether every slave in `brokers` has its master's tables, so that it can replace
    it.
    """
    async with Admin(namesrv, timeout_ms=TIMEOUT_MS) as admin:
        for address in brokers:
            try:
                figures = await admin.runtime_info(address)
            except EpochError:
                return False
            lacks = figures.get("epochmqMetadataCopied") == "false"
            if lacks and figures.get("epochmqRole") == "SLAVE":
                return False
    return True


def is_listening(address: str) -> bool:
    """Return whether something accepts connections at "host:port"."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def has_dashboard_packages() -> bool:
    """Return whether the packages of the extra `dashboard` are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("starlette", "uvicorn"))


# Local cluster -------------------------------------------------------------------------------


READY_S = 30.0
_POLL_S = 0.02
NAMESRV = "namesrv"
_ALONE = ("namesrv", "broker")
_DASHBOARD_TRIES = 3


@dataclass(frozen=True, slots=True)
class LocalServer:
    """One of the servers; `pid` is None while it does not run."""

    name: str
    pid: int | None
    address: str
    log: Path


@dataclass(frozen=True, slots=True)
class Started:
    """The result of `start`."""

    was_running: bool
    choice: PortChoice | None = None
    moved_from: str | None = None
    """The cluster's former directory, if it was moved."""
    password: str | None = None
    """The password of the first Super user, if it was made now."""
    dashboard_fault: str | None = None
    """Why the dashboard did not start; the cluster runs without it."""


class LocalCluster:
    """The cluster of `directory`; any process may call its methods at any time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()

    @property
    def ports(self) -> PortBlock:
        return config_files.read_ports(self.directory)

    @property
    def namesrv(self) -> str:
        return f"{HOST}:{self.ports.namesrv}"

    @property
    def broker(self) -> str:
        return f"{HOST}:{self.ports.broker}"

    @property
    def names(self) -> tuple[str, ...]:
        """All servers of the cluster, in the order of their start."""
        found = config_files.names(self.directory)
        if not has_dashboard_packages():
            found = tuple(name for name in found if name != config_files.DASHBOARD)
        return found or _ALONE

    @property
    def brokers(self) -> list[LocalServer]:
        """All brokers; the first is a master, or the only broker."""
        return [part for part in self.parts() if config_files.kind_of(part.name) == "broker"]

    @property
    def controllers(self) -> list[LocalServer]:
        """The controllers; empty for a single broker."""
        return [part for part in self.parts() if config_files.kind_of(part.name) == "controller"]

    @property
    def relays(self) -> list[LocalServer]:
        """The relay; empty where no master is elected."""
        return [part for part in self.parts() if config_files.kind_of(part.name) == "relay"]

    @property
    def dashboard(self) -> LocalServer | None:
        """The dashboard, if this cluster has one."""
        return next((each for each in self.parts() if each.name == config_files.DASHBOARD), None)

    def parts(self) -> list[LocalServer]:
        """Return the current state of all servers."""
        return [
            LocalServer(
                name,
                processes.running(self._pid_file(name)),
                config_files.address_of(self.directory, name),
                self.log(name),
            )
            for name in self.names
        ]

    def servers(self) -> list[LocalServer]:
        """Return the state of all without which the cluster is not complete: not the dashboard."""
        return [part for part in self.parts() if part.name != config_files.DASHBOARD]

    def log(self, name: str) -> Path:
        return self.directory / "logs" / f"{name}.log"

    def start(
        self, wanted: PortBlock | None = None, *, secure: bool = False, dashboard: bool = False
    ) -> Started:
        """Start the servers that do not run, on the ports of their files, else near `wanted`.

        With `secure` a new cluster gets certificates and users. With `dashboard` the dashboard is
        started as well; if it fails, the cluster runs without it.

        Raises `EnvironmentFault` with the last log line of a server that fails to start.
        """
        self._make_directory()
        with self._locked():
            self._check_replicas(wanted)
            self._check_security(secure)
            choice = moved_from = password = fault = None
            if all(part.pid is None for part in self.servers()):
                moved_from = config_files.follow_move(self.directory)
                is_new = not config_files.names(self.directory)
                choice = self._choose_ports(wanted or PortBlock())
                if is_new and secure:
                    password = self._make_secure()
            missing = [part.name for part in self.servers() if part.pid is None]
            was_running = not missing
            try:
                for name in missing:
                    self._start(name)
                if missing:
                    with secure_files.as_admin(self.directory):
                        asyncio.run(self._wait_ready())
                if dashboard and (self.dashboard is None or self.dashboard.pid is None):
                    missing.append(config_files.DASHBOARD)
                    fault = self._start_dashboard()
            except BaseException:
                self._stop(missing)
                raise
            self._announce()
            return Started(was_running, choice, moved_from, password, fault)

    def start_one(self, name: str) -> None:
        """Start a server that was stopped or killed, without waiting for it."""
        with self._locked():
            if processes.running(self._pid_file(name)) is None:
                self._start(name)

    def stop(self) -> list[str]:
        """Stop the running servers, brokers first; returns their names."""
        if not self.directory.is_dir():
            return []
        with self._locked():
            ran = [part.name for part in self.parts() if part.pid is not None]
            self._stop(ran)
            return ran

    @property
    def is_given_up(self) -> bool:
        """Whether the cluster was stopped on purpose: there are no files with process ids."""
        return not any(self._pid_file(name).exists() for name in self.names)

    def failed(self) -> list[str]:
        """Return servers that ended unexpectedly; waits while another process stops the cluster."""
        with self._locked():
            dead = [part.name for part in self.servers() if part.pid is None]
            return [] if self.is_given_up else dead

    def last_words(self, name: str) -> str:
        """Return the last line of a server's log."""
        with contextlib.suppress(OSError):
            lines = self.log(name).read_text(errors="replace").split("\n")
            last = next((line.strip() for line in reversed(lines) if line.strip()), "")
            return last.removeprefix("epochmq: ")
        return ""

    def _make_directory(self) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            if not os.access(self.directory, os.W_OK):
                raise PermissionError(0, "no permission to write there")
        except OSError as error:
            raise EnvironmentFault(f"cannot use {self.directory}: {error.strerror}") from None

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the directory: one start or stop at a time, even from two terminals."""
        with (self.directory / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _check_replicas(self, wanted: PortBlock | None) -> None:
        """Raise an error if the number of replicas or groups differs from that of the directory."""
        found = config_files.names(self.directory)
        if wanted is None or "namesrv" not in found:
            return
        have = self.ports
        if (wanted.replicas, wanted.acting_groups) != (have.replicas, have.acting_groups):
            raise EnvironmentFault(
                f"{self.directory} holds a cluster with {_counted(have)}, not {_counted(wanted)};"
                " choose another directory with --dir, or remove this one"
            )

    def _check_security(self, secure: bool) -> None:
        """Raise an error if an existing cluster would have to become a secure one."""
        if secure and config_files.names(self.directory):
            if not secure_files.is_secure(self.directory):
                raise EnvironmentFault(
                    f"{self.directory} holds a cluster that is not secure; choose another directory"
                    " with --dir, or remove this one"
                )

    def _make_secure(self) -> str:
        found = config_files.names(self.directory)
        kinds = {self.directory / f"{n}.properties": config_files.kind_of(n) for n in found}
        return secure_files.make_secure(self.directory, kinds)

    def _choose_ports(self, wanted: PortBlock) -> PortChoice:
        found = config_files.names(self.directory)
        fresh = not any(config_files.kind_of(name) == "broker" for name in found)
        choice = config_files.choose(wanted if fresh else self.ports)
        config_files.write_missing(self.directory, choice.ports)
        if choice.ports != self.ports:
            config_files.move_ports(self.directory, choice.ports)
        return choice

    def _start(self, name: str) -> None:
        config = self.directory / f"{name}.properties"
        kind = config_files.kind_of(name)
        argv = [sys.executable, "-m", "epochmq", kind, "-c", str(config)]
        is_user = kind == config_files.DASHBOARD and secure_files.is_secure(self.directory)
        env = secure_files.environment(self.directory) if is_user else None
        processes.start(argv, self.log(name), self._pid_file(name), env)

    def _start_dashboard(self) -> str | None:
        """Start the dashboard and wait until it listens; returns why it did not start.

        Another process may use its port between the choice and the start: then another port is
        tried.
        """
        for _ in range(_DASHBOARD_TRIES):
            try:
                config_files.write_dashboard(self.directory)
                config_files.move_dashboard(self.directory)
            except PortInUse as error:
                return f"the {config_files.DASHBOARD} did not start: {error}"
            self._start(config_files.DASHBOARD)
            deadline = time.monotonic() + READY_S
            while (part := self.dashboard) is not None and part.pid is not None:
                # Another process may listen there, and this one fail because of that.
                port = int(part.address.rpartition(":")[2])
                if is_listening(part.address) and is_held_by(part.pid, port) is not False:
                    return None
                if time.monotonic() > deadline:
                    break
                time.sleep(_POLL_S)
        fault = self._why_not(config_files.DASHBOARD)
        self._stop([config_files.DASHBOARD])
        return fault

    def _stop(self, names: list[str]) -> None:
        """Stop dashboard and relay, then brokers, controllers and the name server.

        Servers of one kind stop concurrently.
        """
        for kind in (config_files.DASHBOARD, "relay", "broker", "controller", "namesrv"):
            mine = [name for name in names if config_files.kind_of(name) == kind]
            found = (processes.running(self._pid_file(name)) for name in mine)
            processes.stop_all([pid for pid in found if pid is not None])
            for name in mine:
                self._pid_file(name).unlink(missing_ok=True)
        (self.directory / where.DEV_FILE).unlink(missing_ok=True)

    async def _wait_ready(self) -> None:
        """Wait until the name server knows all brokers, and slaves can become acting master."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + READY_S
        wanted = self.ports.brokers
        while not await self._is_ready(wanted):
            for part in self.servers():
                if part.pid is None:
                    raise EnvironmentFault(self._why_not(part.name))
            if loop.time() > deadline:
                last = self.log(self.servers()[-1].name)
                raise EnvironmentFault(
                    f"the cluster is not ready after {READY_S:.0f} s; see {last}"
                )
            await asyncio.sleep(_POLL_S)

    async def _is_ready(self, wanted: int) -> bool:
        if await brokers_known(self.namesrv) < wanted:
            return False
        if not self.ports.acting_groups:
            return True
        return await all_copied(self.namesrv, [part.address for part in self.brokers])

    def _why_not(self, name: str) -> str:
        return f"the {name} did not start: {self.last_words(name)} (see {self.log(name)})"

    def _announce(self) -> None:
        found = {"namesrv": self.namesrv, "broker": self.broker}
        if self.controllers:
            found["controllers"] = ";".join(part.address for part in self.controllers)
        (self.directory / where.DEV_FILE).write_text(json.dumps(found))

    def _pid_file(self, name: str) -> Path:
        return self.directory / f"{name}.pid"


def _counted(ports: PortBlock) -> str:
    brokers = f"{ports.brokers} broker{'s' * (ports.brokers > 1)}"
    return f"{brokers} in acting groups" if ports.acting_groups else brokers
