"""The base class of all administration requests: requests, routes, and addresses of a cluster."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable
from typing import Self, TypeVar

from epochmq.auth.credentials import Credentials
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
"""For requests that read many queues, or the key index."""


class Caller(Closing):
    """Connections for administration. It sends no heartbeats and is a member of no group.

    Args:
        namesrv: addresses of the name servers, as "host:port;host:port", or the URL of an address
            server, as "http://host:port/path".
        timeout_ms: milliseconds for one request.
        tls: settings of TLS; None means the setting of the process, by default no TLS.
        credentials: the user who signs the requests; None means the user of the process, if any.
    """

    def __init__(
        self,
        namesrv: str,
        *,
        timeout_ms: int = TIMEOUT_MS,
        tls: ssl.SSLContext | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.instance: Instance = Instance(namesrv, tls=tls, credentials=credentials)
        self.timeout_ms = timeout_ms

    async def __aenter__(self) -> Self:
        await self.instance.name_servers.refresh()
        return self

    async def _close(self) -> None:
        """Close all connections."""
        await self.instance.close()

    @property
    def name_servers(self) -> list[str]:
        """The addresses of the name servers; those of an address server from `async with` on."""
        return self.instance.name_servers.addresses

    async def ask(self, address: str, command: Command, timeout_ms: int | None = None) -> Command:
        """Send a request to the node at `address` and return its answer.

        Args:
            address: "host:port" of a broker, name server or controller.
            command: the request.
            timeout_ms: milliseconds; None means the value of the client.

        Raises:
            NotReachable: no answer in time.
            Refused: the answer is not SUCCESS.
        """
        answer = await self.instance.call(address, command, timeout_ms or self.timeout_ms)
        return checked(answer)

    async def ask_namesrv(self, command: Command) -> Command:
        """Return the answer of the first name server that answers. Raises `Refused` if it is no
        success.
        """
        return checked(await self.instance.name_servers.ask(command, self.timeout_ms))

    async def route(self, topic: str) -> TopicRouteData:
        """Return the route of `topic`. Raises `NotFound` when no broker has the topic."""
        return await self.instance.name_servers.route(topic)

    async def brokers_of(self, topic: str) -> dict[str, str]:
        """Return one address for each broker group of `topic`, by broker name.

        The address is that of the master, or of the slave with the smallest id if there is no
        master.

        Raises:
            NotFound: no broker has the topic.
            NotReachable: no broker of the topic is registered.
        """
        route = await self.route(topic)
        chosen = {data.broker_name: pick_address(data) for data in route.broker_datas}
        found = {name: address for name, address in sorted(chosen.items()) if address}
        if not found:
            raise NotReachable(f"no broker of topic {topic} is registered now")
        return found

    async def cluster_info(self, name_server: str | None = None) -> ClusterInfo:
        """Return all broker groups with their addresses, and the groups of each cluster.

        Args:
            name_server: the server to ask; None means the first that answers.
        """
        command = request(RequestCode.GET_BROKER_CLUSTER_INFO)
        if name_server is None:
            answer = await self.ask_namesrv(command)
        else:
            answer = await self.ask(name_server, command)
        return decode_answer(ClusterInfo, answer.body)

    async def masters(self, cluster: str | None = None) -> dict[str, str]:
        """Return the address of each master by broker name; None means all clusters.

        Raises:
            NotFound: the cluster is not known.
        """
        groups = await self.broker_groups(cluster)
        return {
            name: data.broker_addrs[MASTER_ID]
            for name, data in groups.items()
            if MASTER_ID in data.broker_addrs
        }

    async def broker_groups(self, cluster: str | None = None) -> dict[str, BrokerData]:
        """Return the broker groups of one cluster by name; None means all clusters.

        Raises:
            NotFound: the cluster is not known.
        """
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
    """Return the address of the master, else of the slave with the smallest id, else None."""
    addresses = data.broker_addrs
    return addresses[min(addresses)] if addresses else None


async def ask_all(addresses: Iterable[str], call: Callable[[str], Awaitable[T]]) -> dict[str, T]:
    """Call `call` for all addresses at the same time and wait for all; then raise the first
    failure.
    """
    wanted = list(addresses)
    results = await asyncio.gather(*map(call, wanted), return_exceptions=True)
    done: dict[str, T] = {}
    for address, result in zip(wanted, results, strict=True):
        if isinstance(result, BaseException):
            raise result
        done[address] = result
    return done
