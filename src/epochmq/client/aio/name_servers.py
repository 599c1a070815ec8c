"""Requests to the name servers: the client uses one server until it fails, then the next."""

from collections.abc import Callable

from epochmq.base.errors import NotFound, NotReachable, Refused, UsageError
from epochmq.base.ports import Rng
from epochmq.client.core.outgoing import check_text
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
    """The list of name servers. Requests go to one server until it does not answer.

    Args:
        addresses: "host:port;host:port"; commas are accepted as well.
        peers: the connections.
        rng: chooses the first server.
        check_usable: called before each try; raises `UsageError` if the client cannot be used.
    """

    def __init__(
        self,
        addresses: str,
        peers: Peers,
        rng: Rng,
        check_usable: Callable[[], None] = lambda: None,
    ) -> None:
        self.addresses: list[str] = parse_addresses(addresses)
        self._peers = peers
        self._check_usable = check_usable
        self._current = rng.randrange(len(self.addresses))

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
        for _ in self.addresses:
            self._check_usable()
            address = self.addresses[self._current]
            try:
                answer = await self._peers.invoke(address, command, timeout_ms)
            except NotReachable as error:
                failures.append(str(error))
                self._try_next()
                continue
            if answer.code == ResponseCode.SYSTEM_ERROR and _NOT_READY in (answer.remark or ""):
                failures.append(f"{address} does not know the brokers yet, it has just started")
                self._try_next()
                continue
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise Refused(
                    answer.code,
                    f"{address} does not serve request {command.code}: it is no name server"
                    " (a broker?), or an old one; give a name server's address",
                )
            return answer
        raise NotReachable("no name server answers: " + "; ".join(failures))

    def _try_next(self) -> None:
        self._current = (self._current + 1) % len(self.addresses)

    async def route(self, topic: str) -> TopicRouteData:
        """Return the route of `topic`. Raises `NotFound` when no broker has it."""
        header = GetRouteHeader(topic, acceptStandardJsonOnly=True, ownAddresses=True)
        answer = await self.ask(request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header))
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            raise NotFound(f"topic {topic} is not known to the name server; create it first")
        return decode_answer(TopicRouteData, checked(answer).body)


def parse_addresses(text: str) -> list[str]:
    """Split "host:port;host:port". Raises `UsageError` for an empty or unreadable list."""
    check_text("namesrv", text, "; write all addresses in one text, as 'host:port;host:port'")
    addresses = [part.strip() for part in text.replace(",", ";").split(";") if part.strip()]
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise UsageError(
                f"{address!r} is no name server address; write host:port, as 127.0.0.1:9876"
            )
    if not addresses:
        raise UsageError("no name server is given; write host:port, as 127.0.0.1:9876")
    return addresses


def checked(answer: Command) -> Command:
    """Return `answer` if its code is SUCCESS. Raises `Refused` with its code and remark
    otherwise.
    """
    if answer.code != ResponseCode.SUCCESS:
        raise Refused(answer.code, answer.remark or f"refused with code {answer.code}")
    return answer
