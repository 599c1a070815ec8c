"""One group of three, and name servers that can be cut off from each of its brokers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .cluster import Config
from .group import OURS, Server
from .pairs import Pairs
from .ports import free_port
from .relay import Relay


class Parted(Pairs):
    """Three name servers; each broker reaches each of them by a relay of its own."""

    def __init__(self, name: str, *, root: Path, broker_config: Config) -> None:
        super().__init__(names=(name,), slaves=2, root=root, broker_config=broker_config)
        self.name = name
        more = [self._make_namesrv(OURS, {}, f"namesrv-{number}") for number in (1, 2)]
        self.namesrvs = [self.namesrv, *more]
        self.links: dict[tuple[int, int], Relay] = {}
        for number, broker in enumerate(self.brokers):
            broker.config["namesrvAddr"] = ";".join(self._links(number))

    def _links(self, broker: int) -> Iterable[str]:
        for number, server in enumerate(self.namesrvs):
            port = free_port()
            self.links[broker, number] = Relay(port, ("127.0.0.1", server.port))
            yield f"127.0.0.1:{port}"

    @property
    def brokers(self) -> list[Server]:
        """Master and slaves, by their ids."""
        return self.group(self.name)

    @property
    def servers(self) -> list[Server]:
        """All, in the order of their start."""
        return [*self.namesrvs, *super().servers[1:]]

    def cut(self, broker: int, *namesrvs: int) -> None:
        """`broker` and these name servers hear nothing of each other."""
        for namesrv in namesrvs:
            self.links[broker, namesrv].cut()

    def heal(self) -> None:
        """All links are whole."""
        for link in self.links.values():
            link.heal()

    def stop(self) -> None:
        """Kill all, and end the links."""
        super().stop()
        for link in self.links.values():
            link.close()
