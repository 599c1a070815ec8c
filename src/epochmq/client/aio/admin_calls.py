"""What every family of administration calls stands on: asking, routes, a cluster's addresses."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from epochmq.base.errors import NotFound, NotReachable
from epochmq.client.aio.instance import Closing, Instance
from epochmq.client.aio.name_servers import checked
from epochmq.client.core.route_cache import MASTER_ID
from epochmq.model.topic import BrokerData, TopicRouteData
from epochmq.wire.bodies.body import decode_answer
from epochmq.wire.bodies.namesrv_bodies import ClusterInfo
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, request

T = TypeVar("T")

TIMEOUT_MS = 5_000
SLOW_TIMEOUT_MS = 15_000
"""For calls that walk through many queues or through the index."""


class Caller(Closing):
    """Connections for administration; no heartbeats, member of no group."""

    def __init__(
        self, namesrv: str, *, timeout_ms: int = TIMEOUT_MS, tls: ssl.SSLContext | None = None
    ) -> None:
        self.instance = Instance(namesrv, tls=tls)
        self.timeout_ms = timeout_ms

    async def _close(self) -> None:
        """Close all connections."""
        await self.instance.close()

    @property
    def name_servers(self) -> list[str]:
        """The configured addresses."""
        return self.instance.name_servers.addresses

    async def ask(self, address: str, command: Command, timeout_ms: int | None = None) -> Command:
        """The successful answer of the node at `address`; `Refused` with what else it says."""
        answer = await self.instance.call(address, command, timeout_ms or self.timeout_ms)
        return checked(answer)

    async def ask_namesrv(self, command: Command) -> Command:
        """The successful answer of the first name server that gives any."""
        return checked(await self.instance.name_servers.ask(command, self.timeout_ms))

    async def route(self, topic: str) -> TopicRouteData:
        """Where `topic` is; `NotFound` when no broker has it."""
        return await self.instance.name_servers.route(topic)

    async def brokers_of(self, topic: str) -> dict[str, str]:
        """For each broker group of `topic` the address to ask: its master, or else a slave."""
        route = await self.route(topic)
        chosen = {data.broker_name: pick_address(data) for data in route.broker_datas}
        found = {name: address for name, address in sorted(chosen.items()) if address}
        if not found:
            raise NotReachable(f"no broker of topic {topic} is registered now")
        return found

    async def cluster_info(self, name_server: str | None = None) -> ClusterInfo:
        """All broker groups with their addresses, and which cluster has which.

        Asks the name server given, else the first that answers.
        """
        command = request(RequestCode.GET_BROKER_CLUSTER_INFO)
        if name_server is None:
            answer = await self.ask_namesrv(command)
        else:
            answer = await self.ask(name_server, command)
        return decode_answer(ClusterInfo, answer.body)

    async def masters(self, cluster: str | None = None) -> dict[str, str]:
        """Address of the master of each broker group; `NotFound` for an unknown cluster."""
        groups = await self.broker_groups(cluster)
        return {
            name: data.broker_addrs[MASTER_ID]
            for name, data in groups.items()
            if MASTER_ID in data.broker_addrs
        }

    async def broker_groups(self, cluster: str | None = None) -> dict[str, BrokerData]:
        """The broker groups of one cluster, or of all; `NotFound` for an unknown cluster."""
        info = await self.cluster_info()
        table = info.broker_addr_table
        if cluster is None:
            return dict(sorted(table.items()))
        if cluster not in info.cluster_addr_table:
            known = ", ".join(sorted(info.cluster_addr_table)) or "none"
            raise NotFound(f"there is no cluster {cluster}; known to the name server: {known}")
        names = sorted(info.cluster_addr_table[cluster])
        return {name: table[name] for name in names if name in table}


def pick_address(data: BrokerData) -> str | None:
    """The master's address, else that of the slave with the smallest id."""
    addresses = data.broker_addrs
    return addresses[min(addresses)] if addresses else None


async def ask_all(addresses: Iterable[str], call: Callable[[str], Awaitable[T]]) -> dict[str, T]:
    """`call` for every address at one time, waiting for all; then the first failure is raised."""
    wanted = list(addresses)
    results = await asyncio.gather(*map(call, wanted), return_exceptions=True)
    done: dict[str, T] = {}
    for address, result in zip(wanted, results, strict=True):
        if isinstance(result, BaseException):
            raise result
        done[address] = result
    return done
