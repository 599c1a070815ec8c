"""The base of every client object: connections, routes, heartbeats and background tasks."""

import asyncio
import logging
import os
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from contextvars import ContextVar, copy_context
from types import TracebackType
from typing import Any, Self

from epochmq.auth.credentials import Credentials, outgoing_credentials
from epochmq.base.errors import EpochError, NotFound, NotReachable, Refused, UsageError
from epochmq.base.task_set import TaskSet
from epochmq.client.aio.client_credentials import credentials_of
from epochmq.client.aio.held_requests import HeldRequests
from epochmq.client.aio.name_servers import NameServers
from epochmq.client.core.retrying import delay_ms
from epochmq.client.core.route_cache import RouteCache, route_of_new_topic
from epochmq.client.core.send_command import NEW_TOPIC_QUEUES
from epochmq.model.message_id import UniqIds
from epochmq.model.names import DEFAULT_TOPIC
from epochmq.model.topic import TopicRouteData
from epochmq.runtime.address_map import current_address_map
from epochmq.runtime.clock import RealClock
from epochmq.runtime.peers import Peers, SharedCalls
from epochmq.runtime.rng import RealRng
from epochmq.runtime.tls import outgoing_tls
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.group_bodies import HeartbeatData
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, Reply, request
from epochmq.wire.headers.group_headers import UnregisterClientHeader
from epochmq.wire.session import Session

log = logging.getLogger(__name__)

HEARTBEAT_MS = 30_000
CALL_TIMEOUT_MS = 3_000
RETRY_AFTER_ERROR_MS = 200
"""The first pause of a consumer after an error; it doubles up to 3 s, as in RocketMQ's client."""
LOOPBACK = b"\x7f\x00\x00\x01"
"""Used instead of the address of the machine in message ids. The random part of an id makes it
unique, and the address stays private."""

RequestHandler = Callable[[Command, Session], Reply | None]

_inside: ContextVar[frozenset["Instance"]] = ContextVar("epochmq_inside", default=frozenset())
"""The instances whose tasks run in this context, or started the code that runs in it."""


_forks = 0
"""How many forks happened between the process that imported this module and this process."""


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_forked)


class Instance:
    """One client process as brokers see it: one client id, one heartbeat, one set of connections.

    Args:
        namesrv: addresses of the name servers, as "host:port;host:port", or the URL of an address
            server, as "http://host:port/path".
        name: last part of the client id; None means process id and a random number.
        tls: settings of TLS; None means the setting of the process (`outgoing_tls`).
        credentials: the user who signs the requests; None means the user of the process.
    """

    def __init__(
        self,
        namesrv: str,
        *,
        name: str | None = None,
        tls: ssl.SSLContext | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.clock: RealClock = RealClock()
        self.rng: RealRng = RealRng()
        self.tls: ssl.SSLContext | None = tls or outgoing_tls.get()
        self.credentials: Credentials | None = (
            credentials or outgoing_credentials.get() or credentials_of(os.environ)
        )
        self.peers: Peers = Peers(
            requests=self._on_request,
            tls=self.tls,
            signer=self.credentials,
            addresses=current_address_map(),
        )
        self.held_requests: HeldRequests = HeldRequests(self.peers)
        self.name_servers: NameServers = NameServers(
            namesrv,
            self.peers,
            self.rng,
            self.check_usable,
            by_name=self.tls is not None and self.tls.check_hostname,
        )
        self.routes: RouteCache = RouteCache()
        self._refreshing: SharedCalls[tuple[str, bool], bool] = SharedCalls()
        self.handlers: dict[int, RequestHandler] = {}
        self._heartbeat: Callable[[], HeartbeatData] | None = None
        self.client_id: str = f"127.0.0.1@{name or f'{os.getpid()}#{self.rng.randrange(1 << 62)}'}"
        self.uniq_ids: UniqIds = UniqIds(
            LOOPBACK,
            os.getpid(),
            self.clock.wall_ms,
            process_hash=self.rng.randrange(1 << 32),
            counter=self.rng.randrange(1 << 16),
        )
        self.is_closed: bool = False
        self._pid = os.getpid()
        self._forks = _forks
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks = TaskSet(_log_end)
        self._greeted: set[str] = set()

    def check_usable(self) -> None:
        """Raise `UsageError` if the client is closed, forked, or used on another event loop."""
        if asyncio.get_running_loop() is self._loop and _forks == self._forks:
            if not self.is_closed:
                return
        if self.is_closed:
            raise UsageError("this client is closed; create a new one")
        self.check_process()
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise UsageError(
                "this client's connections belong to another event loop; create a client in each"
                " asyncio.run(), or use epochmq.client.sync"
            )

    def check_process(self) -> None:
        """Raise `UsageError` if this process is a fork of the one that made the client."""
        if self.is_forked:
            raise UsageError(
                f"this client was created in process {self._pid}, before a fork, and its"
                " connections belong to that process; create a client in each process, after the"
                " fork"
            )

    @property
    def is_forked(self) -> bool:
        """Whether this process is a fork of the process that made the instance."""
        return _forks != self._forks

    def is_inside(self) -> bool:
        """Whether the caller is a task of this instance (as a listener is), or was
        started by one.
        """
        return self in _inside.get()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run `work` as a task until the instance closes; an unexpected error is logged."""
        context = copy_context()
        context.run(_inside.set, _inside.get() | {self})
        return self._tasks.spawn(work, name=name, context=context)

    def beat_with(self, heartbeat: Callable[[], HeartbeatData]) -> None:
        """Send what `heartbeat` returns to the brokers, from `start` on."""
        self._heartbeat = heartbeat

    async def start(self) -> None:
        """Start to send heartbeats, if a heartbeat function is set."""
        self.check_usable()
        if self._heartbeat is not None:
            self.spawn(self._heartbeats(), "heartbeats")

    async def close(self, *, producer: str | None = None, consumer: str | None = None) -> None:
        """Stop all tasks, unregister from the brokers and close all connections.

        Args:
            producer: the producer group to leave, if any.
            consumer: the consumer group to leave, if any.
        """
        self.is_closed = True
        await self._tasks.close()
        await self.held_requests.close()
        header = UnregisterClientHeader(
            clientID=self.client_id, producerGroup=producer, consumerGroup=consumer
        )
        for address in sorted(self._greeted):
            try:
                command = request(RequestCode.UNREGISTER_CLIENT, header)
                await self.peers.invoke(address, command, CALL_TIMEOUT_MS)
            except EpochError as error:
                log.debug(
                    "cannot unregister from %(address)s: %(error)s",
                    {"address": address, "error": error},
                )
        self._refreshing.cancel()
        await self.peers.close()

    async def call(
        self, address: str, command: Command, timeout_ms: int = CALL_TIMEOUT_MS
    ) -> Command:
        """Send a request to the broker at `address` and return its answer, whatever its code.

        Raises:
            NotReachable: no connection, or no answer within `timeout_ms`.
            UsageError: this client cannot be used.
        """
        self.check_usable()
        return await self.peers.invoke(address, command, timeout_ms)

    async def oneway(self, address: str, command: Command) -> None:
        """Send a request to the broker at `address` without an answer."""
        self.check_usable()
        await self.peers.oneway(address, command)

    async def refresh(self, topic: str, *, create: bool = False) -> bool:
        """Ask the name servers for the route of `topic`. Callers at the same time share one
        request.

        Args:
            topic: name of the topic.
            create: whether a topic that does not exist gets the route of the template topic TBW102,
                so that the first send creates the topic at the broker.

        Returns:
            Whether the queues of the topic changed.

        Raises:
            NotFound: the topic does not exist, or with `create` no broker creates topics.
            NotReachable, Refused: no name server answers, or it refuses.
        """
        self.check_usable()
        return await self._refreshing.call((topic, create), lambda: self._refresh(topic, create))

    async def _refresh(self, topic: str, create: bool) -> bool:
        try:
            route = await self.name_servers.route(topic)
        except NotFound:
            if not create:
                raise
            route = await self._route_of_new(topic)
        return self.routes.put(topic, route, self.clock.now_ms())

    async def _route_of_new(self, topic: str) -> TopicRouteData:
        try:
            template = await self.name_servers.route(DEFAULT_TOPIC)
        except NotFound:
            raise NotFound(
                f"topic {topic} does not exist, and no broker that is registered creates topics by"
                " itself; create it (`epochmq cluster show` lists brokers)"
            ) from None
        return route_of_new_topic(template, NEW_TOPIC_QUEUES)

    async def ensure_route(self, topic: str, *, create: bool = False) -> None:
        """Make sure that a route of `topic` is known and not older than the poll interval of 30 s.

        If the name servers do not answer, an old route is kept and no error is raised.

        Raises:
            NotFound: the topic does not exist.
            NotReachable, Refused: no route is known, and none can be had.
        """
        self.check_usable()
        if not self.routes.is_stale(topic, self.clock.now_ms()):
            return
        try:
            await self.refresh(topic, create=create)
        except (NotReachable, Refused):
            if self.routes.route(topic) is None:
                raise

    @asynccontextmanager
    async def routed(self, topic: str) -> AsyncIterator[None]:
        """Know the route of `topic` while the caller asks its brokers, as `ensure_route` does.

        If the calls fail, the next call asks for a new route: the broker may not be the master any
        more, and the route is otherwise used for up to 30 s.
        """
        await self.ensure_route(topic)
        began = self.clock.now_ms()
        try:
            yield
        except (NotReachable, Refused):
            self.routes.expire(topic, began)
            raise

    async def refresh_after_error(self, topic: str) -> None:
        """Ask for a new route of `topic`, whose broker failed; an error is logged only."""
        self.routes.expire(topic)
        try:
            await self.ensure_route(topic)
        except EpochError as error:
            log.debug("route of %(topic)s: %(error)s", {"topic": topic, "error": error})

    async def wait_after_error(self, topic: str, failures: int) -> None:
        """Wait after failure number `failures` in a row, then ask for a new route of `topic`.

        The first pause is short: after the loss of a broker there is another master or acting
        master within a second.
        """
        pause_ms = delay_ms(failures, self.rng, first_ms=RETRY_AFTER_ERROR_MS)
        await asyncio.sleep(pause_ms / 1_000)
        await self.refresh_after_error(topic)

    async def greet_all(self) -> None:
        """Send a heartbeat now: consumers to every known broker, producers to the masters."""
        if self._heartbeat is None:
            return
        data = self._heartbeat()
        consumes = bool(data.consumer_data_set)
        addresses = self.routes.all_addresses() if consumes else self.routes.masters()
        body = encode_body(data)
        await asyncio.gather(*(self._greet(address, body) for address in addresses))

    async def _greet(self, address: str, body: bytes) -> None:
        try:
            await self.call(address, request(RequestCode.HEART_BEAT, None, body))
            self._greeted.add(address)
        except NotReachable as error:
            log.warning(
                "heartbeat to %(address)s failed: %(error)s", {"address": address, "error": error}
            )

    async def _heartbeats(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_MS / 1_000)
            await self.greet_all()

    def _on_request(self, command: Command, session: Session) -> Reply | None:
        handler = self.handlers.get(command.code)
        if handler is None:
            return Reply(3, f" request type {command.code} not supported")
        return handler(command, session)


def _log_end(task: asyncio.Task[Any], error: BaseException) -> None:
    log.error(
        "%(task)s ended: %(error)s", {"task": task.get_name(), "error": error}, exc_info=error
    )


# Closing -------------------------------------------------------------------------------------
# The base class of client objects. `async with` closes them. A listener may close its own client.


class Closing(ABC):
    """A client object that is closed at the end of its `async with`, also after an error."""

    instance: Instance
    _closing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish running work, leave the group and close all connections.

        It may be called repeatedly. Called by a listener, or by a task that a listener started, it
        starts closing and returns at once, because closing waits for that listener. In a forked
        process it does nothing, because the connections belong to the process that made them.
        """
        if self.instance.is_forked:
            return
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(), name="close")
        if self.instance.is_inside():
            self._closing.add_done_callback(_log_failure)
        else:
            await asyncio.shield(self._closing)

    @abstractmethod
    async def _close(self) -> None:
        """Close all connections; called once, in a task of its own."""


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.warning(
            "closing failed: %(error)s", {"error": task.exception()}, exc_info=task.exception()
        )
