"""A slave in one process with the master that it hands messages over to."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from .cluster import Config, properties
from .group import OURS, Server
from .pairs import Pairs
from .ports import free_port
from .process import wait_until
from .running import Running

DIES, TAKES = "broker-a", "broker-b"


class Contained(Running):
    """A master by itself, and in one process its slave and another group's master."""

    def __init__(self, root: Path, broker_config: Config) -> None:
        self.pairs = Pairs(
            names=[DIES], alone={TAKES: OURS}, root=root, broker_config=broker_config
        )
        self.master = self.pairs.masters[DIES]
        self.slave, self.other = self.pairs.slaves[DIES], self.pairs.alone[TAKES]
        paths = []
        for server in (self.slave, self.other):
            path = server.root / "broker.properties"
            path.write_text(properties(server.config))
            paths.append(str(path))
        port = free_port()
        self.container = Server(
            OURS,
            "container",
            root / "container",
            port,
            {
                "listenPort": port,
                "brokerConfigPaths": ":".join(paths),
                "brokerConfigDirs": str(root),
            },
        )

    @property
    def servers(self) -> list[Server]:
        """The processes, in the order of their start."""
        return [self.pairs.namesrv, self.master, self.container]

    def start(self) -> Self:
        """Return when name servers know all three brokers."""
        for server in self.servers:
            server.start()
        wait_until(lambda: self.pairs.members(DIES).keys() == {0, 1}, 60, "the pair")
        wait_until(lambda: self.pairs.members(TAKES).keys() == {0}, 30, "the other master")
        return self

    def stop(self) -> None:
        """Kill all."""
        for server in reversed(self.servers):
            server.process.kill9()
