"""Groups of a master and its slaves without controllers, whose slaves act as master (RIP-32)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

from . import wire
from .cluster import Config
from .group import CLUSTER, OURS, Server
from .java import TEST_FLAGS, TEST_HEAP
from .ports import free_broker_port, free_port
from .process import wait_until
from .running import Running

_GET_BROKER_MEMBER_GROUP = 901
_GET_BROKER_HA_STATUS = 907
USEFUL: Config = {
    "enableSlaveActingMaster": True,
    "enableRemoteEscape": True,
    "slaveReadEnable": True,
    "totalReplicas": 2,
    "inSyncReplicas": 2,
    "minInSyncReplicas": 1,
    "enableAutoInSyncReplicas": True,
    "brokerNotActiveTimeoutMillis": 5000,
}
"""The least that makes the mode useful; the rest is by default."""


class Pairs(Running):
    """A name server, and in each group of ``names`` a SYNC_MASTER of id 0 and a SLAVE of id 1.

    ``slaves`` says how many of these a group has; those of ids from 2 on are in ``others``.
    ``brokers`` and ``namesrv`` say whose they are; ``broker_config`` adds to or overrides
    ``USEFUL`` and what is needed to run on one machine, for all brokers. ``alone`` names masters
    of further groups without slaves, and says whose they are.
    """

    ready_timeout_s = 90.0

    def __init__(
        self,
        brokers: str = OURS,
        *,
        names: Sequence[str] = ("broker-a", "broker-b"),
        slaves: int = 1,
        alone: Mapping[str, str] | None = None,
        namesrv: str | None = None,
        root: Path | None = None,
        broker_config: Config | None = None,
        namesrv_config: Config | None = None,
        heap: Sequence[str] = TEST_HEAP,
        flags: Sequence[str] = TEST_FLAGS,
    ) -> None:
        self._own_root = root is None
        self.root = Path(tempfile.mkdtemp(prefix="pairs-")) if root is None else root.resolve()
        self._java_heap = {"heap": heap, "flags": flags}
        self._more: Config = {"totalReplicas": 1 + slaves, **(broker_config or {})}
        self.namesrv = self._make_namesrv(namesrv or brokers, namesrv_config or {})
        self.masters = {name: self.make_broker(brokers, name, 0) for name in names}
        self.slaves = {name: self.make_broker(brokers, name, 1) for name in names}
        self.others = {
            name: [self.make_broker(brokers, name, number) for number in range(2, 1 + slaves)]
            for name in names
        }
        self.alone = {name: self._make_alone(whose, name) for name, whose in (alone or {}).items()}

    def _make_namesrv(self, kind: str, more: Config, folder: str = "namesrv") -> Server:
        port = free_port()
        config: dict[str, str | int | bool] = {
            "listenPort": port,
            "bindAddress": "127.0.0.1",
            "supportActingMaster": True,
            **more,
        }
        if kind != OURS:
            config["scanAvailableNameSrv"] = False
        return Server(kind, "namesrv", self.root / folder, port, config)

    def make_broker(self, kind: str, name: str, number: int) -> Server:
        """A broker of one group, not started yet."""
        port = free_broker_port()
        root = self.root / f"{name}-{number}"
        store = root / "store"
        config: dict[str, str | int | bool] = {
            "brokerClusterName": CLUSTER,
            "brokerName": name,
            "brokerId": number,
            "brokerRole": "SLAVE" if number else "SYNC_MASTER",
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": port,
            "haListenPort": port + 1,
            "namesrvAddr": self.namesrv_addr,
            "storePathRootDir": str(store),
            "storePathCommitLog": str(store / "commitlog"),
            "mappedFileSizeCommitLog": 64 << 20,
            **USEFUL,
            **self._more,
        }
        return Server(kind, "broker", root, port, config, **self._java_heap)

    def _make_alone(self, kind: str, name: str) -> Server:
        server = self.make_broker(kind, name, 0)
        server.config |= {
            "brokerRole": "ASYNC_MASTER",
            "enableSlaveActingMaster": False,
            "totalReplicas": 1,
            "inSyncReplicas": 1,
        }
        return server

    # Lookups ---------------------------------------------------------------------------------

    @property
    def namesrv_addr(self) -> str:
        """What a client is given."""
        return self.namesrv.address

    def group(self, name: str) -> list[Server]:
        """Master and slaves of a group, in the order of their ids."""
        return [self.masters[name], self.slaves[name], *self.others[name]]

    def members(self, name: str) -> dict[int, str]:
        """The group as the name server has it, by true ids; nothing while it does not answer."""
        header = {"clusterName": CLUSTER, "brokerName": name}
        with suppress(OSError, KeyError, ValueError):
            found = wire.call(self.namesrv_addr, _GET_BROKER_MEMBER_GROUP, header).json()
            addresses = found["brokerMemberGroup"]["brokerAddrs"]
            return {int(number): address for number, address in addresses.items()}
        return {}

    def is_ready(self) -> bool:
        """The name server knows every living broker, and no other."""
        return all(
            self.members(name)
            == {
                number: server.address
                for number, server in enumerate(self.group(name))
                if server.process.is_alive
            }
            for name in self.masters
        ) and all(
            self.members(name) == ({0: server.address} if server.process.is_alive else {})
            for name, server in self.alone.items()
        )

    # Life ------------------------------------------------------------------------------------

    @property
    def servers(self) -> list[Server]:
        """All, in the order of their start."""
        return [
            self.namesrv,
            *self.masters.values(),
            *self.slaves.values(),
            *(other for others in self.others.values() for other in others),
            *self.alone.values(),
        ]

    def start(self) -> Self:
        """Start everything and return when the name server knows all and slaves follow.

        An empty slave begins with its master's newest log file: what a test sends to earlier files
        before the slave follows, an acting master does not have.
        """
        self.namesrv.start()
        for server in self.servers[1:]:
            server.start()
        self.wait_ready()
        for name, master in self.masters.items():
            slaves = len(self.group(name)) - 1
            wait_until(partial(_follow, master, slaves), self.ready_timeout_s, f"{name} follows")
        return self

    def wait_ready(self) -> None:
        """Wait until ``is_ready``; a failure carries the ends of all logs."""
        try:
            wait_until(self.is_ready, self.ready_timeout_s, "pairs ready")
        except TimeoutError as late:
            tails = (f"--- {s.root.name}\n{s.process.log_tail(12)}" for s in self.servers)
            raise TimeoutError("\n".join((str(late), *tails))) from None

    def stop(self) -> None:
        """Kill all; a temporary root is removed."""
        for server in reversed(self.servers):
            server.process.kill9()
        if self._own_root:
            shutil.rmtree(self.root, ignore_errors=True)


def _follow(master: Server, slaves: int) -> bool:
    """Whether so many slaves have as much of the log as their master."""
    with suppress(OSError, KeyError, ValueError):
        status = wire.call(master.address, _GET_BROKER_HA_STATUS, {}).json()
        return bool(status["inSyncSlaveNums"] >= slaves)
    return False
