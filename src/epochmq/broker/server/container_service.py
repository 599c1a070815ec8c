"""Broker container: several brokers in one process, with a port to add and remove them.

Each is a `Broker` as `epochmq broker` runs it, with its own ports, threads, store and connections;
one broker's trouble with its store or its name servers does not affect the others (H27: no channel
is shared). A broken invariant is the exception: it ends the process, because it is unknown which
broker broke it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

import msgspec

from epochmq.auth.protected_table import protected
from epochmq.base import limits
from epochmq.base.errors import (
    ConfigError,
    EnvironmentFault,
    EpochError,
    OurBug,
    PortInUse,
    Refused,
)
from epochmq.base.java_properties import parse_properties
from epochmq.base.options import change, describe, render_properties
from epochmq.broker.config.container_options import ContainerOptions, parts
from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.escape.local_routes import NodeNear
from epochmq.broker.server.broker_server import Broker, Observe, calm_collector
from epochmq.broker.server.container_broker import (
    InnerBrokerId,
    checked_path,
    folders_of,
    identity_of,
    inner_options,
    log_file_of,
    ports_of,
)
from epochmq.broker.server.roster import Inner, Roster
from epochmq.model.data_version import DataVersion
from epochmq.model.host import is_loopback
from epochmq.runtime.bounds import Bounds
from epochmq.runtime.clock import RealClock
from epochmq.runtime.config_text import read_properties, real_paths
from epochmq.runtime.listen import name_holder
from epochmq.runtime.logging_setup import open_own_file, spoken_of
from epochmq.runtime.process import server_process
from epochmq.runtime.rng import new_nonce
from epochmq.runtime.server import RemotingServer
from epochmq.runtime.service_manager import serve_until
from epochmq.runtime.signals import stop_on_signals
from epochmq.runtime.tls import server_tls
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.dispatcher import Dispatcher, Handler
from epochmq.wire.header import decode_header
from epochmq.wire.headers.admin_headers import (
    AddBrokerHeader,
    GetBrokerConfigResponseHeader,
    RemoveBrokerHeader,
)
from epochmq.wire.session import Session

# Local masters -------------------------------------------------------------------------------
# The masters beside a broker in the same process, to which an acting master there writes.
#
# RocketMQ takes the first master that it finds in the process, whatever its cluster and whether it
# serves (H15); here it must be one that a remote escape would choose.


_CHANGES = (
    RequestCode.ADD_BROKER,
    RequestCode.REMOVE_BROKER,
    RequestCode.UPDATE_BROKER_CONFIG,
)
"""Changes by administrators, for the audit log."""


class ContainerNeighbours:
    """The neighbours of one broker in a container; `nodes` returns the running brokers in a fixed
    order."""

    def __init__(self, own: BrokerContext, nodes: Callable[[], Iterable[BrokerContext]]) -> None:
        self._own = own
        self._nodes = nodes

    def masters(self) -> Sequence[NodeNear]:
        """Return the serving masters of the cluster's other groups whose stores accept writes."""
        near = [NodeNear(node) for node in self._nodes() if self._is_of_use(node)]
        return [each for each in near if each.may_write]

    def _is_of_use(self, node: BrokerContext) -> bool:
        own, other = self._own.options, node.options
        return (
            other.broker_cluster_name == own.broker_cluster_name
            and other.broker_name != own.broker_name
            and node.store.fenced is None
            and not node.store.disk_full
            and not node.store.out_of_resources
        )


# Container service ---------------------------------------------------------------------------


CHANGES_MAX = 16
"""The number of requests to add or remove that may wait for the current one."""

_MUTABLE = frozenset(row.key for row in describe(ContainerOptions) if row.mutable)

log = logging.getLogger(__name__)


class Container:
    """A container: `start` makes it serve until `stop`; `port` is the container's own port."""

    def __init__(
        self,
        options: ContainerOptions,
        *,
        env: Mapping[str, str],
        observe: Observe | None = None,
    ) -> None:
        self.options = options
        self.port = options.listen_port
        self.roster = Roster(options.listen_port)
        self.brokers: dict[InnerBrokerId, Broker] = {}
        """The running brokers."""
        self._close_logs: dict[InnerBrokerId, Callable[[], None]] = {}
        self._env = env
        self._observe = observe
        self._observed: dict[InnerBrokerId, AsyncExitStack] = {}
        idle_ms = options.server_channel_max_idle_time_seconds * 1000
        self._server = RemotingServer(Bounds(idle_ms=idle_ms))
        self._change = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._version = DataVersion()

    async def start(self) -> None:
        """Listen, then start the configured brokers one after the other.

        A broker that does not start is logged and left out. Raises `PortInUse`; and, when brokers
        are configured and none starts, the error of the first.
        """
        options = self.options
        if not is_loopback(options.bind_address) and not options.authentication_enabled:
            log.warning(
                "the container listens on %(bind_address)s without access control: whoever can"
                " reach its port can stop its brokers", {"bind_address": options.bind_address},
            )  # fmt: skip
        tls = server_tls(options)
        sink = Dispatcher(protected(self._table(), options, (), _CHANGES, new_nonce))
        self.port = await self._server.start(options.bind_address, self.port, sink, tls=tls)
        failures = []
        for path in real_paths(parts(options.broker_config_paths)):
            try:
                await self.add(path)
            except EpochError as error:
                if isinstance(error, OurBug):
                    raise
                log.error(
                    "the broker of %(path)s does not start: %(error)s",
                    {"path": path, "error": error},
                )
                failures.append(error)
        if failures and not self.brokers:
            await self.stop()
            raise failures[0]

    async def stop(self) -> None:
        """Finish open changes, then stop the brokers, slaves first; may be called more than
        once."""
        self._stopping = True
        for task in list(self._tasks):
            await asyncio.wait([task])
        for identity in self.roster.stop_order():
            with suppress(Refused):
                await self.remove(identity)
        await self._server.stop(self.options.broker_stop_grace_millis)

    # Brokers ---------------------------------------------------------------------------------

    async def add(self, path: str) -> InnerBrokerId:
        """Start the broker of a properties file; an error leaves the other brokers as they are.

        Raises `Refused` when it cannot run beside the others, `ConfigError` for its file, and all
        errors of `Broker.start`.
        """
        async with self._change:
            options = self._read(path)
            inner = _inner(options, path)
            self.roster.add(inner)
            identity = inner.identity
            # A task of its own, so that its log lines, and those of its tasks, carry its name.
            try:
                self._open_log(identity, options)
                start = asyncio.get_running_loop().create_task(self._start(identity, options))
                self.brokers[identity] = await self._watched(identity, await start)
            except BaseException as error:
                self._close_log(identity)
                self.roster.failed(identity, str(error))
                raise
            self.roster.started(identity)
            log.info(
                "broker %(identity)s runs on port %(listen_port)s",
                {"identity": identity, "listen_port": options.listen_port},
            )
            return identity

    async def _watched(self, identity: InnerBrokerId, broker: Broker) -> Broker:
        """Return a started broker that is observed; it is stopped if that fails."""
        if self._observe is None:
            return broker
        stack = AsyncExitStack()
        try:
            await stack.enter_async_context(self._observe(broker))
        except BaseException:
            await broker.stop(self.options.broker_stop_grace_millis)
            raise
        self._observed[identity] = stack
        return broker

    def _read(self, path: str) -> BrokerOptions:
        try:
            return inner_options(
                read_properties(path),
                self.options,
                env=self._env,
                warn=lambda line: log.warning("%(path)s: %(line)s", {"path": path, "line": line}),
            )
        except ConfigError as error:
            lines = [line if path in line else f"{path}: {line}" for line in error.problems]
            raise ConfigError(lines) from None

    def _open_log(self, identity: InnerBrokerId, options: BrokerOptions) -> None:
        if not options.isolate_log_enable:
            return
        file = log_file_of(identity, self.options)
        try:
            self._close_logs[identity] = open_own_file(str(identity), file)
        except OSError as error:
            text = f"isolateLogEnable: cannot write {file}: {error.strerror}"
            raise EnvironmentFault(text) from None

    def _close_log(self, identity: InnerBrokerId) -> None:
        self._close_logs.pop(identity, lambda: None)()

    async def _start(self, identity: InnerBrokerId, options: BrokerOptions) -> Broker:
        spoken_of.set(str(identity))
        broker = Broker(options, label=str(identity))
        try:
            await broker.start()
        except PortInUse as error:
            raise PortInUse(await asyncio.to_thread(name_holder, error)) from None
        broker.escape.neighbours = ContainerNeighbours(broker.node, self._nodes)
        return broker

    def _nodes(self) -> list[BrokerContext]:
        return [self.brokers[inner.identity].node for inner in self.roster.running()]

    async def remove(self, identity: InnerBrokerId) -> None:
        """Stop a broker; raises `Refused` (211) when it does not exist."""
        async with self._change:
            if not self.roster.remove(identity):
                return
            try:
                if (observed := self._observed.pop(identity, None)) is not None:
                    await observed.aclose()
                await self.brokers.pop(identity).stop(self.options.broker_stop_grace_millis)
            finally:
                self.roster.gone(identity)
                self._close_log(identity)
            log.info("broker %(identity)s is stopped", {"identity": identity})

    # Requests --------------------------------------------------------------------------------

    def _table(self) -> dict[int, Handler]:
        return {
            int(RequestCode.ADD_BROKER): self._handle_add,
            int(RequestCode.REMOVE_BROKER): self._handle_remove,
            int(RequestCode.UPDATE_BROKER_CONFIG): self._handle_update,
            int(RequestCode.GET_BROKER_CONFIG): self._handle_get,
        }

    def _handle_add(self, command: Command, session: Session, now: int) -> Held:
        header = decode_header(AddBrokerHeader, command.ext)
        path = checked_path(header.configPath, parts(self.options.broker_config_dirs))
        log.warning("%(peer)s adds the broker of %(path)s", {"peer": session.peer, "path": path})
        return self._answer_after(command, session, self.add(path))

    def _handle_remove(self, command: Command, session: Session, now: int) -> Held:
        header = decode_header(RemoveBrokerHeader, command.ext)
        identity = InnerBrokerId(header.brokerClusterName, header.brokerName, header.brokerId)
        log.warning(
            "%(peer)s removes broker %(identity)s", {"peer": session.peer, "identity": identity}
        )
        return self._answer_after(command, session, self.remove(identity))

    def _answer_after(
        self, command: Command, session: Session, work: Coroutine[Any, Any, object]
    ) -> Held:
        """Answer when the work is done; changes are carried out one at a time, in order."""
        if self._stopping or len(self._tasks) >= CHANGES_MAX:
            work.close()
            raise Refused(ResponseCode.SYSTEM_BUSY, "the container stops, or is busy; try again")

        async def run() -> None:
            session.answer(command, await _outcome(work))

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return HELD

    def _handle_update(self, command: Command, session: Session, now: int) -> Reply:
        """Handle UPDATE_BROKER_CONFIG (25): change the container's own mutable options until it
        stops; code 16 for all others (CVE-2023-33246, rocketmq#7587)."""
        if len(command.body) > limits.CONFIG_BODY_BYTES_MAX:
            raise Refused(ResponseCode.SYSTEM_ERROR, "the properties text is too long")
        try:
            told = parse_properties(bytes(command.body).decode())
        except (ConfigError, UnicodeDecodeError) as error:
            text = f"not a properties text: {error}"
            raise Refused(ResponseCode.SYSTEM_ERROR, text) from None
        try:
            self.options = change(self.options, told)
        except ConfigError as error:
            allowed = told.keys() <= _MUTABLE
            code = ResponseCode.SYSTEM_ERROR if allowed else ResponseCode.NO_PERMISSION
            raise Refused(code, str(error)) from None
        self._version = self._version.next_version(RealClock().wall_ms())
        log.warning(
            "%(peer)s changed options: %(changes)s",
            {"peer": session.peer, "changes": ", ".join(sorted(told))},
        )
        return Reply()

    def _handle_get(self, command: Command, session: Session, now: int) -> Reply:
        """Handle GET_BROKER_CONFIG (26): the container's options, and its brokers as comments."""
        states = self.roster.statistics()
        listed = "".join(f"# {name}: {state}\n" for name, state in states.items())
        version = msgspec.json.encode(self._version).decode()
        text = listed + render_properties([self.options])
        return Reply(header=GetBrokerConfigResponseHeader(version), body=text.encode())


def _inner(options: BrokerOptions, path: str) -> Inner:
    is_slave = options.broker_role == "SLAVE" and not options.enable_controller_mode
    return Inner(identity_of(options), path, is_slave, ports_of(options), folders_of(options))


async def _outcome(work: Coroutine[Any, Any, object]) -> Reply:
    try:
        await work
    except Refused as error:
        return Reply(error.code, error.remark)
    except EnvironmentFault as error:
        return Reply(ResponseCode.SYSTEM_ERROR, str(error))
    return Reply()


async def main(
    options: ContainerOptions, env: Mapping[str, str], observe: Observe | None = None
) -> None:
    """Serve until SIGTERM or Ctrl-C; `observe` is for each broker. Raises as `Container.start`."""
    container = Container(options, env=env, observe=observe)
    with stop_on_signals() as stop, server_process():
        try:
            await container.start()
            calm_collector()
            names = ", ".join(map(str, container.brokers)) or "no broker"
            where = f"{options.bind_address}:{container.port}"
            reason = await serve_until(stop, f"container ready on {where} with {names}")
            log.info("stopping: %(reason)s", {"reason": reason})
        finally:
            await container.stop()
