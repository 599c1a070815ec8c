"""Simulated RPC: requests and answers over streams, one connection per pair of processes.

A request that meets a cut waits in the stream and arrives after the heal, as with TCP. It may also
be lost or duplicated by the network's settings, as when a connection breaks and the caller retries.
The caller is notified once: an answer, a failure (`lost`: refused or closed), or a timeout. A late
answer is passed on, too, marked as late.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, Reply, response
from sim.kernel.host import Host
from sim.kernel.net import Ends, Net, Stream
from sim.kernel.world import World

ONCE = (RequestCode.SEND_MESSAGE, RequestCode.DELETE_TOPIC_IN_BROKER)
"""Requests that are never duplicated: two copies may differ in outcome, and the caller sees one."""
Answered = Callable[[Command], None]
Failed = Callable[[bool], None]
"""Called with whether the connection was refused or closed."""


class Server(Protocol):
    """A process that accepts requests."""

    def request(self, command: Command, session: "Session") -> None:
        """Answer by `session.answer(command, reply)`, at once or later."""
        ...

    def session_closed(self, session: "Session") -> None: ...


def copy(command: Command) -> Command:
    """Return a copy of a command, so that both sides share nothing."""
    return Command(
        command.code,
        language=command.language,
        version=command.version,
        opaque=command.opaque,
        flag=command.flag,
        remark=command.remark,
        ext=None if command.ext is None else dict(command.ext),
        body=bytes(command.body),
    )


class Session:
    """A connection as the server sees it."""

    def __init__(self, number: int, stream: Stream, peer: str) -> None:
        self.id = number
        self.stream = stream
        self.peer = peer

    @property
    def closed(self) -> bool:
        return not self.stream.open or self.stream.gone[1]

    def oneway(self, command: Command) -> None:
        """Send a one-way command to the client."""
        told = copy(command)
        told.mark_oneway()
        self.stream.signal(0, f"told {told.code}", lambda: self.stream.on_told(told))

    def answer(self, request: Command, reply: Reply | Command) -> None:
        """Send the answer to `request`; one-way requests get none."""
        if request.is_oneway:
            return
        if isinstance(reply, Reply):
            chunks = reply.body
            if isinstance(chunks, bytes | bytearray | memoryview):
                chunks = [chunks]
            body = b"".join(bytes(chunk) for chunk in chunks)
            reply = response(request, reply.code, reply.remark, reply.header, body)
        reply.opaque = request.opaque
        arrived = copy(reply)
        label = f"answer {arrived.opaque} {arrived.code}"
        self.stream.signal(0, label, lambda: self.stream.on_answer(arrived))


class _Call:
    __slots__ = ("answered", "failed", "open")

    def __init__(self, answered: Answered, failed: Failed) -> None:
        self.answered = answered
        self.failed = failed
        self.open = True


class Rpc:
    """The calls of one process to others; created again with the process."""

    def __init__(self, net: Net, host: Host) -> None:
        self.net = net
        self.host = host
        self.world: World = net.world
        self.on_closed: Callable[[str], None] = lambda _name: None
        """Called with the name of a host whose connection closed."""
        self.on_told: Callable[[str, Command], None] = lambda _name, _command: None
        """Called with the host's name and a command that a server sends on its own."""
        self._streams: dict[str, Stream] = {}
        self._waiting: dict[str, list[Command]] = {}
        self._calls: dict[int, tuple[str, _Call]] = {}
        self._numbers = 0
        self._deadlines: list[tuple[int, int]] = []
        self._timer_us: int | None = None
        self._chance = self.world.streams["rpc"]

    def call(
        self, target: str, command: Command, timeout_us: int, answered: Answered, failed: Failed
    ) -> None:
        """Send a request to `target`; `answered` or `failed` is called within `timeout_us`."""
        self._numbers += 1
        number = self._numbers
        sent = copy(command)
        sent.opaque = number
        if not sent.is_oneway:
            self._calls[number] = (target, _Call(answered, failed))
            heappush(self._deadlines, (self.world.time_us + timeout_us, number))
            self._arm()
        stream = self._streams.get(target)
        if stream is not None:
            self._send(stream, sent)
            return
        self._waiting.setdefault(target, []).append(sent)
        if len(self._waiting[target]) == 1:
            self._connect(target)

    def _arm(self) -> None:
        """Set one timer, for the first open call."""
        deadlines = self._deadlines
        while deadlines and not self._is_open(deadlines[0][1]):
            heappop(deadlines)
        if deadlines and (self._timer_us is None or deadlines[0][0] < self._timer_us):
            self._timer_us = deadlines[0][0]
            self.world.at(self._timer_us, "timer", self._timed, self.host)

    def _is_open(self, number: int) -> bool:
        _, call = self._calls.get(number, ("", None))
        return call is not None and call.open

    def _timed(self) -> None:
        now = self.world.time_us
        if self._timer_us is None or now < self._timer_us:
            return
        self._timer_us = None
        while self._deadlines and self._deadlines[0][0] <= now:
            self._time_out(heappop(self._deadlines)[1])
        self._arm()

    def _time_out(self, number: int) -> None:
        target, call = self._calls.get(number, ("", None))
        if call is not None and call.open:
            call.open = False
            if target in self._waiting:
                self._waiting.pop(target)  # a connection attempt without an answer is abandoned
            call.failed(False)

    # Connections ------------------------------------------------------------------------------

    def _connect(self, target: str) -> None:
        host = self.world.hosts[target]
        ends = Ends(lambda stream: self._opened(target, stream), lambda: self._gone(target))
        self.net.connect(self.host, host, accept, ends)

    def _opened(self, target: str, stream: Stream) -> None:
        self._streams[target] = stream
        stream.on_answer = self._answer
        stream.on_told = lambda command: self.on_told(target, command)
        stream.on_closed[0] = lambda: self._gone(target, stream)
        for command in self._waiting.pop(target, []):
            self._send(stream, command)

    def _gone(self, target: str, stream: Stream | None = None) -> None:
        if stream is not None and self._streams.get(target) is not stream:
            return
        self._streams.pop(target, None)
        self._waiting.pop(target, None)
        broken = [(n, call) for n, (name, call) in self._calls.items() if name == target]
        for number, call in broken:
            del self._calls[number]
            if call.open:
                call.open = False
                call.failed(True)
        self.on_closed(target)

    # Messages ---------------------------------------------------------------------------------

    def _send(self, stream: Stream, command: Command) -> None:
        weather, permille = self.net.weather, self._chance.random() * 1000
        if permille < weather.loss_permille:
            self.world.mark("net.loss")
            return
        label = f"request {command.opaque} {command.code}"
        twice = permille > 1000 - weather.double_permille and command.code not in ONCE
        for _ in range(2 if twice else 1):
            stream.signal(1, label, lambda: stream.on_request(copy(command)))

    def _answer(self, command: Command) -> None:
        _, call = self._calls.pop(command.opaque, ("", None))
        if call is not None:
            call.open = False
            call.answered(command)


def accept(stream: Stream) -> None:
    """Accept a new connection at the server."""
    host = stream.hosts[1]
    server = host.process
    number = host.connections = host.connections + 1
    session = Session(number, stream, stream.hosts[0].name)
    stream.on_request = lambda command: server.request(command, session)  # type: ignore[union-attr]
    stream.on_closed[1] = lambda: server.session_closed(session)  # type: ignore[union-attr]
