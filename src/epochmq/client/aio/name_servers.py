"""Requests to the name servers: the client uses one server until it fails, then the next."""

import asyncio
from collections.abc import Callable

from epochmq.base.errors import NotFound, NotReachable, Refused
from epochmq.base.ports import Rng
from epochmq.client.aio.name_server_list import NameServerList
from epochmq.model.topic import TopicRouteData
from epochmq.runtime.peers import Peers
from epochmq.wire.bodies.body import decode_answer
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.headers.namesrv_headers import GetRouteHeader

TIMEOUT_MS = 3_000
_NOT_READY = "name server not ready"
"""How name servers with `needWaitForService`, RocketMQ's too, answer after their start."""


class NameServers:
    """Sends requests to one name server until it does not answer, then to the next.

    Args:
        addresses: "host:port;host:port" (commas are accepted as well), or the URL of an address
            server.
        peers: the connections.
        rng: chooses the first server.
        check_usable: called before each try; raises `UsageError` if the client cannot be used.
        by_name: connect to the names of hosts, not to their IP addresses; see `NameServerList`.
    """

    def __init__(
        self,
        addresses: str,
        peers: Peers,
        rng: Rng,
        check_usable: Callable[[], None] = lambda: None,
        *,
        by_name: bool = False,
    ) -> None:
        self._list = NameServerList(addresses, by_name=by_name)
        self._peers = peers
        self._check_usable = check_usable
        self._current = rng.randrange(1 << 16)

    @property
    def addresses(self) -> list[str]:
        """The present addresses; empty before the first `refresh` of an address server."""
        return self._list.addresses

    async def refresh(self) -> None:
        """Look up the addresses if that is due.

        Raises:
            NotReachable: the address server gives no list, and no earlier one is known.
        """
        await self._list.refresh(asyncio.get_running_loop().time())

    async def ask(self, command: Command, timeout_ms: int = TIMEOUT_MS) -> Command:
        """Return the answer of the first name server that gives one, whatever its code.

        Args:
            command: the request.
            timeout_ms: milliseconds for each server.

        Raises:
            NotReachable: no server answers.
            Refused: the server does not know the request (code 3), so it is probably no name
                server.
        """
        failures = []
        self._check_usable()
        await self.refresh()
        addresses = self.addresses
        for _ in addresses:
            self._check_usable()
            address = addresses[self._current % len(addresses)]
            try:
                answer = await self._peers.invoke(address, command, timeout_ms)
            except NotReachable as error:
                failures.append(str(error))
                self._current += 1
                continue
            if answer.code == ResponseCode.SYSTEM_ERROR and _NOT_READY in (answer.remark or ""):
                failures.append(f"{address} does not know the brokers yet, it has just started")
                self._current += 1
                continue
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise Refused(
                    answer.code,
                    f"{address} does not serve request {command.code}: it is not a name server"
                    " (a broker?), or an old one; give a name server's address",
                )
            return answer
        self._list.look_again()
        raise NotReachable("no name server answers: " + "; ".join(failures))

    async def route(self, topic: str) -> TopicRouteData:
        """Return the route of `topic`. Raises `NotFound` when no broker has it."""
        header = GetRouteHeader(topic, acceptStandardJsonOnly=True, ownAddresses=True)
        answer = await self.ask(request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header))
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            raise NotFound(f"topic {topic} is not known to the name server; create it first")
        return decode_answer(TopicRouteData, checked(answer).body)


def checked(answer: Command) -> Command:
    """Return `answer` if its code is SUCCESS. Raises `Refused` with its code and remark
    otherwise.
    """
    if answer.code != ResponseCode.SUCCESS:
        raise Refused(answer.code, answer.remark or f"refused with code {answer.code}")
    return answer
