"""Outgoing connections to other processes, with requests in flight in both directions."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from epochmq.base import limits
from epochmq.base.errors import NotReachable, Outcome, Refused, copy_of
from epochmq.model.host import BadAddress, parse_addr
from epochmq.runtime.address_map import NO_MAP, AddressMap, mapped
from epochmq.runtime.bounds import Budget
from epochmq.runtime.clock import steady_ns
from epochmq.runtime.connection import Connection
from epochmq.runtime.listen import tune
from epochmq.runtime.turn import turn_of
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.dispatcher import Dispatcher
from epochmq.wire.session import FrameSink, Session, Signer

# Shared calls --------------------------------------------------------------------------------
# One running call per key; callers of the same key wait for its outcome.
#
# Thousands of callers may wait for one connection, and each has its own future. With
# `asyncio.shield` on one shared task, each cancelled caller would search the list of all callers.


K = TypeVar("K", bound=Hashable)
R = TypeVar("R")


class SharedCalls(Generic[K, R]):
    """Runs at most one call per key; a second `call` of the key joins the running one."""

    def __init__(self) -> None:
        self._tasks: dict[K, asyncio.Task[R]] = {}
        self._waiting: dict[K, dict[asyncio.Future[R], None]] = {}

    async def call(self, key: K, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Return the outcome of the running call of `key`, or start `work` and return its outcome.

        The call continues when its callers are cancelled. Each caller gets its own copy of an
        error.
        """
        loop = asyncio.get_running_loop()
        if key not in self._tasks:
            task = self._tasks[key] = loop.create_task(work())
            self._waiting[key] = {}
            task.add_done_callback(lambda done: self._ended(key, done))
        waiters = self._waiting[key]
        waiter: asyncio.Future[R] = loop.create_future()
        waiters[waiter] = None
        try:
            return await waiter
        finally:
            waiters.pop(waiter, None)

    def cancel(self) -> None:
        """Cancel all calls; their callers get `NotReachable`."""
        for task in self._tasks.values():
            task.cancel()

    def _ended(self, key: K, task: asyncio.Task[R]) -> None:
        del self._tasks[key]
        error = _stopped() if task.cancelled() else task.exception()
        for waiter in self._waiting.pop(key):
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(task.result())
            else:
                waiter.set_exception(copy_of(error))


def _stopped() -> NotReachable:
    return NotReachable("closed while the call was under way", Outcome.UNKNOWN)


# Peers ---------------------------------------------------------------------------------------


log = logging.getLogger(__name__)

CONNECT_TIMEOUT_MS = 3_000
IN_FLIGHT_MAX = 65_535
"""Maximum number of unanswered requests to one peer, as in RocketMQ's clients."""

Requests = Callable[[Command, Session], Reply | Held | None]
"""Type of the handler of requests from the peer; None sends no answer."""


class Peer:
    """One outgoing connection, made by `Peer.connect`; it cannot be used once `closed` is set."""

    fast_port = False
    unsent_bytes_max = limits.SESSION_IN_FLIGHT_BYTES_MAX
    header_bytes_max = limits.ANSWER_HEADER_BYTES_MAX
    shares_turns = False  # this process chose the peer, whose answers must not wait
    unsent: Budget[Connection] | None = None
    half_frames: Budget[Connection] | None = None

    def __init__(
        self,
        addr: str,
        requests: Requests | None,
        in_flight_max: int,
    ) -> None:
        self.addr = addr
        self.closed: asyncio.Event = asyncio.Event()
        self.on_close: list[Callable[[Peer], None]] = []
        self.sink: FrameSink = _sink_of(requests)
        self._connection: Connection
        self._in_flight = 0
        self._in_flight_max = in_flight_max
        self._ended_by = ""
        """Why the connection ended; empty while it is open, and if the peer closed it."""
        self._writable = asyncio.Event()
        self._writable.set()

    @classmethod
    async def connect(
        cls,
        addr: str,
        timeout_ms: int = CONNECT_TIMEOUT_MS,
        *,
        requests: Requests | None = None,
        in_flight_max: int = IN_FLIGHT_MAX,
        tls: ssl.SSLContext | None = None,
        at: str | None = None,
        signer: Signer | None = None,
    ) -> "Peer":
        """Connect to `addr` ("host:port") within `timeout_ms`; `at` is where it is reached.

        With a `signer`, the peer is asked for a challenge within the same time.

        Raises `NotReachable` with the reason.
        """
        peer = cls(addr, requests, in_flight_max)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        shown = addr if at in (None, addr) else f"{addr} (mapped to {at})"
        try:
            host, port = parse_addr(at or addr)
            async with asyncio.timeout_at(deadline):
                transport, peer._connection = await loop.create_connection(
                    lambda: Connection(loop, turn_of(loop), peer), host, port, ssl=tls
                )
        except TimeoutError:
            raise NotReachable(f"cannot connect to {shown} within {timeout_ms} ms") from None
        except (OSError, UnicodeError, BadAddress) as error:
            raise NotReachable(f"cannot connect to {shown}: {_reason(error)}") from None
        sock = transport.get_extra_info("socket")
        if sock is not None:
            tune(sock)
        if signer is not None:
            await peer._begin_to_sign(signer, deadline)
        return peer

    @property
    def session(self) -> Session:
        return self._connection.session

    @property
    def silent_ms(self) -> int:
        """How long no byte was received."""
        return steady_ns() // 1_000_000 - self._connection.heard_ms

    async def invoke(self, command: Command, timeout_ms: int) -> Command:
        """Send a request and return its response, whatever the response code.

        Raises `NotReachable` when the connection ends or no response comes within `timeout_ms`. If
        no byte was received in that time, the connection is closed, so that the next use makes a
        new one.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        await self._wait_writable(deadline)
        self._count_in()
        started_ms = int(loop.time() * 1000)
        future: asyncio.Future[Command | None] = loop.create_future()

        def on_answer(answer: Command | None) -> None:
            self._in_flight -= 1
            if not future.done():
                future.set_result(answer)

        left_ms = max(1, int((deadline - loop.time()) * 1000))
        outcome = Outcome.NOT_DONE if self.session.closed else Outcome.UNKNOWN
        self.session.request(command, left_ms, on_answer)
        answer = await future
        if answer is not None:
            return answer
        if self.session.closed:
            raise NotReachable(self._ended_before_answer(), outcome)
        if self._connection.heard_ms <= started_ms:
            self.close(f"no answer within {timeout_ms} ms, and nothing else heard")
        raise NotReachable(
            f"{self.addr} did not answer request {command.code} in {timeout_ms} ms", outcome
        )

    def _ended_before_answer(self) -> str:
        if not self._ended_by:
            return f"{self.addr} closed the connection before it answered"
        return f"the connection to {self.addr} ended before it answered: {self._ended_by}"

    async def oneway(self, command: Command, timeout_ms: int = CONNECT_TIMEOUT_MS) -> None:
        """Send a one-way request; waits only while too many bytes are unsent.

        Raises `NotReachable` when the connection is closed or takes no bytes within `timeout_ms`.
        """
        await self._wait_writable(asyncio.get_running_loop().time() + timeout_ms / 1000)
        if self.session.closed:
            raise NotReachable(f"{self.addr} closed the connection")
        self.session.oneway(command)

    def close(self, reason: str = "closed by us") -> None:
        """Send what is queued, then close; unanswered requests fail."""
        self.session.close(reason)

    async def _begin_to_sign(self, signer: Signer, deadline: float) -> None:
        left_ms = max(1, int((deadline - asyncio.get_running_loop().time()) * 1000))
        try:
            answer = await self.invoke(signer.ask_challenge(), left_ms)
        except NotReachable as error:
            self.close("the connection could not be used")
            raise NotReachable(str(error)) from None  # the caller's request was not sent
        except BaseException:
            self.close("the connection could not be used")
            raise
        self.session.sign_with(signer.sign_for(answer, lambda: steady_ns() // 1_000_000))

    async def _wait_writable(self, deadline: float) -> None:
        if self._writable.is_set():
            return
        try:
            async with asyncio.timeout_at(deadline):
                await self._writable.wait()
        except TimeoutError:
            raise NotReachable(f"{self.addr} does not take what is sent to it") from None

    def _count_in(self) -> None:
        if self._in_flight >= self._in_flight_max:
            raise NotReachable(
                f"{self.addr} owes answers to {self._in_flight} requests already; slow down"
            )
        self._in_flight += 1

    # What the connection reports -------------------------------------------------------------

    def made(self, connection: Connection) -> str | None:
        self._connection = connection
        return None

    def slowed(self, connection: Connection, slow: bool) -> None:
        if slow:
            self._writable.clear()
        else:
            self._writable.set()

    def gone(self, connection: Connection, reason: str) -> None:
        log.debug(
            "%(address)s: connection closed: %(reason)s",
            {"address": self.addr, "reason": reason or "by the peer"},
        )
        self._ended_by = reason
        self.closed.set()
        watchers, self.on_close = self.on_close, []
        for watcher in watchers:
            watcher(self)


class Peers:
    """Outgoing connections by address, opened on first use and again after a failure."""

    def __init__(
        self,
        *,
        requests: Requests | None = None,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        in_flight_max: int = IN_FLIGHT_MAX,
        on_close: Callable[[str], None] | None = None,
        tls: ssl.SSLContext | None = None,
        addresses: AddressMap = NO_MAP,
        signer: Signer | None = None,
    ) -> None:
        """Create the connections of a process; `signer` signs every request on them."""
        self._signer = signer
        self._addresses = addresses
        self._requests = requests
        self._tls = tls
        self._connect_timeout_ms = connect_timeout_ms
        self._in_flight_max = in_flight_max
        self._on_close = on_close
        self._peers: dict[str, Peer] = {}
        self._connecting: SharedCalls[str, Peer] = SharedCalls()

    def find(self, addr: str) -> Peer | None:
        """Return the connection to `addr`, or None."""
        return self._peers.get(addr)

    async def get(self, addr: str) -> Peer:
        """Return the connection to `addr`, opened if needed; callers share one attempt."""
        peer = self._peers.get(addr)
        if peer is not None and not peer.session.closed:
            return peer
        return await self._connecting.call(addr, lambda: self._connect(addr))

    async def invoke(self, addr: str, command: Command, timeout_ms: int) -> Command:
        """Send a request as by `Peer.invoke`; `timeout_ms` includes the time for connecting."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        peer = await self._get_by(addr, deadline, timeout_ms)
        return await peer.invoke(command, max(1, int((deadline - loop.time()) * 1000)))

    async def oneway(
        self, addr: str, command: Command, timeout_ms: int = CONNECT_TIMEOUT_MS
    ) -> None:
        """Send a one-way request; `timeout_ms` limits connecting, and then waiting to write."""
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        peer = await self._get_by(addr, deadline, timeout_ms)
        await peer.oneway(command, timeout_ms)

    def drop(self, addr: str, reason: str = "not needed any more") -> None:
        """Close the connection to `addr`; the next use opens a new one."""
        peer = self._peers.pop(addr, None)
        if peer is not None:
            peer.close(reason)

    async def close(self, grace_ms: int = 1_000) -> None:
        """Close all connections; waits up to `grace_ms` for their last bytes to be sent."""
        loop = asyncio.get_running_loop()
        self._connecting.cancel()
        peers = list(self._peers.values())
        for peer in peers:
            peer.close("closing down")
        waits = [loop.create_task(peer.closed.wait()) for peer in peers]
        if waits:
            _, late = await asyncio.wait(waits, timeout=grace_ms / 1000)
            for wait in late:
                wait.cancel()
        for peer in peers:
            peer._connection.abort("closing down")

    async def _get_by(self, addr: str, deadline: float, timeout_ms: int) -> Peer:
        peer = self._peers.get(addr)
        if peer is not None and not peer.session.closed:
            return peer
        try:
            async with asyncio.timeout_at(deadline):
                return await self.get(addr)
        except TimeoutError:
            raise NotReachable(f"cannot connect to {addr} within {timeout_ms} ms") from None

    async def _connect(self, addr: str) -> Peer:
        peer = await Peer.connect(
            addr,
            self._connect_timeout_ms,
            requests=self._requests,
            in_flight_max=self._in_flight_max,
            tls=self._tls,
            at=mapped(self._addresses, addr),
            signer=self._signer,
        )
        self._peers[addr] = peer
        peer.on_close.append(self._forget)
        return peer

    def _forget(self, peer: Peer) -> None:
        if self._peers.get(peer.addr) is peer:
            del self._peers[peer.addr]
        if self._on_close is not None:
            self._on_close(peer.addr)


def _sink_of(requests: Requests | None) -> Dispatcher:
    """Return a dispatcher that passes requests of known codes to `requests`.

    Responses go to the calls that wait for them.
    """

    def ask(command: Command, session: Session, now: int) -> Reply | Held:
        reply = requests(command, session) if requests is not None else _refuse(command)
        return HELD if reply is None else reply

    return Dispatcher(dict.fromkeys(map(int, RequestCode), ask))


def _refuse(command: Command) -> Reply:
    raise Refused(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported"
    )


def _reason(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused; is it running there?"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)
