"""A running name server: its port, the scan for silent brokers, and notices to brokers."""

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from epochmq.auth.protected_table import protected
from epochmq.auth.server_keys import inner_signer
from epochmq.base import limits
from epochmq.base.errors import EpochError, NotReachable, PeerError
from epochmq.base.ports import Clock, Disk
from epochmq.base.task_set import TaskSet
from epochmq.nameserver.kv_config import KvConfig
from epochmq.nameserver.name_server_node import NameServerNode
from epochmq.nameserver.namesrv_request_table import CHANGES, FREE, handlers
from epochmq.nameserver.options import NamesrvOptions
from epochmq.nameserver.registered_brokers import MinIdNotice
from epochmq.nameserver.registration_handlers import Steps
from epochmq.runtime.blocking import BlockingThread
from epochmq.runtime.bounds import Bounds
from epochmq.runtime.clock import RealClock
from epochmq.runtime.disk import RealDisk
from epochmq.runtime.peers import Peers
from epochmq.runtime.process import handle_process_info, server_process
from epochmq.runtime.rng import new_nonce
from epochmq.runtime.server import RemotingServer
from epochmq.runtime.service_manager import serve_until
from epochmq.runtime.signals import stop_on_signals
from epochmq.runtime.tls import client_tls, server_tls
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import HELD, Command, Held, Reply, request
from epochmq.wire.dispatcher import Dispatcher, Handler
from epochmq.wire.frame import RawFrame
from epochmq.wire.headers.namesrv_headers import NotifyMinBrokerIdChangeHeader
from epochmq.wire.session import Session

log = logging.getLogger(__name__)

NOTICE_TIMEOUT_MS = 300
_HELD_BACK_MAX = limits.HELD_BACK_BYTES_MAX


class EmbeddedService(Protocol):
    """A service that shares the name server's port; `table` has its handlers by request code."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def table(self) -> dict[int, Handler]: ...


class NameServer:
    """A name server. It serves from `start` until `stop`; `port` is the port it listens on.

    A heartbeat (904) that name server and `guest` both know is handled by both; the guest answers.

    Args:
        options: the options.
        disk: disk of the key-value configuration; None means the real disk.
        clock: None means the real clock.
        bounds: limits of connections; None means those of the options.
        guest: a service that shares the port, for example a controller.
    """

    def __init__(
        self,
        options: NamesrvOptions,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        bounds: Bounds | None = None,
        guest: EmbeddedService | None = None,
    ) -> None:
        self._guest = guest
        self._clock = clock or RealClock()
        folder, name = os.path.split(options.kv_config_path)
        self._kv = KvConfig(disk or RealDisk(folder or "."), name)
        self.node = NameServerNode(options, self._kv, self._clock.now_ms())
        self.port = options.listen_port
        idle_ms = options.server_channel_max_idle_time_seconds * 1000
        self._server = RemotingServer(bounds or Bounds(idle_ms=idle_ms))
        self._tls = server_tls(options)
        self._peers = Peers(tls=client_tls(options), signer=inner_signer(options))
        self._kv_thread = BlockingThread("epochmq-kv")
        self._kv_waits: list[tuple[Session, Command]] = []
        self._kv_writer: asyncio.Task[None] | None = None
        self.node.save_kv_by(self._save_kv)
        self._tasks = TaskSet()

    async def start(self) -> None:
        """Load the key-value configuration and listen.

        Raises:
            PortInUse: another process uses the port.
            StoreDamaged: the key-value configuration cannot be read.
            EnvironmentFault: any other problem, with one clear line each.
        """
        self._kv.load()
        options = self.node.options
        sink = _Sink(self)
        if self._guest is not None:
            await self._guest.start()
            sink.share(self._guest.table())
        self.port = await self._server.start(
            options.bind_address, options.listen_port, sink, tls=self._tls
        )
        self._tasks.spawn(self._scan())

    async def stop(self, grace_ms: int = 3_000) -> None:
        """Close all connections and end all tasks; may be called more than once.

        Args:
            grace_ms: milliseconds for unsent answers.
        """
        if self._kv_writer is not None:
            await asyncio.wait([self._kv_writer])
        self._kv_thread.close()
        await self._tasks.close()
        if self._guest is not None:
            await self._guest.stop()
        await self._server.stop(grace_ms)
        await self._peers.close()

    def _save_kv(self, session: Session, command: Command) -> Held:
        """Answer `command` when its change is in the file; one write serves all waiting
        requests.
        """
        self._kv_waits.append((session, command))
        if self._kv_writer is None:
            self._kv_writer = asyncio.create_task(self._save_all_kv())
        return HELD

    async def _save_all_kv(self) -> None:
        while self._kv_waits:
            waits, self._kv_waits = self._kv_waits, []
            data = self._kv.encode()
            error: EpochError | None = None
            try:
                await self._kv_thread.run(partial(self._kv.write, data))
            except EpochError as caught:
                error = caught
            refused = self._kv.write_done(data, error)
            reply = Reply()
            if refused is not None:
                self.node.routes.forget()
                reply = Reply(refused.code, refused.remark)
                waits += self._kv_waits  # the changes of these requests are undone as well
                self._kv_waits = []
            for session, command in waits:
                session.answer(command, reply)
        self._kv_writer = None

    async def _scan(self) -> None:
        while True:
            await asyncio.sleep(self.node.options.scan_not_active_broker_interval / 1000)
            self.node.expire(self._clock.now_ms())
            self.send_notices()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def send_notices(self) -> None:
        """Send notices about the smallest broker id of groups, without waiting for them."""
        for notice in self.node.table.pop_notices():
            for addr in notice.to:
                self._tasks.spawn(self._notify(addr, notice))

    async def _notify(self, addr: str, notice: MinIdNotice) -> None:
        header = NotifyMinBrokerIdChangeHeader(
            minBrokerId=notice.min_id,
            minBrokerAddr=notice.min_addr,
            offlineBrokerAddr=notice.offline_addr,
            haBrokerAddr=notice.ha_addr,
        )
        told = request(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, header)
        try:
            await self._peers.oneway(addr, told, NOTICE_TIMEOUT_MS)
        except NotReachable as error:
            log.info(
                "broker %(address)s could not be notified of its group's smallest id: %(error)s",
                {"address": addr, "error": error},
            )


@dataclass(frozen=True, slots=True)
class _Unfinished:
    """A request that is handled in several steps."""

    session: Session
    command: Command
    steps: Steps

    def step(self, command: Command, session: Session, now: int) -> Reply | Held:
        """Run the next step, as a handler."""
        try:
            next(self.steps)
        except StopIteration as done:
            reply: Reply = done.value
            return reply
        return HELD


class _Sink(Dispatcher):
    """The request handlers. Notices that requests cause are sent at the end of the turn."""

    def __init__(self, server: NameServer) -> None:
        own = handlers(server.node)
        own[int(RequestCode.GET_BROKER_RUNTIME_INFO)] = handle_process_info
        super().__init__(protected(own, server.node.options, FREE, CHANGES, new_nonce))
        self._server = server
        self._unfinished: deque[_Unfinished] = deque()
        self._held_back: dict[Session, list[RawFrame]] = {}
        """Frames that wait behind an unfinished request, so that a broker's requests keep their
        order."""
        server.node.continue_by(self._go_on)

    def receive(self, session: Session, frames: Sequence[RawFrame], now: int) -> None:
        """Handle frames; frames of a connection with an unfinished request wait for it."""
        for frame in frames:
            if session.closed:
                return
            held_back = self._held_back.get(session)
            if held_back is None:
                self.receive_one(session, frame, now)
            elif sum(len(each.header) + len(each.body) for each in held_back) > _HELD_BACK_MAX:
                session.close("sends more while its registration is read")
            else:
                body = memoryview(bytes(frame.body))
                held_back.append(RawFrame(frame.header, frame.binary, body))

    def _go_on(self, session: Session, command: Command, steps: Steps) -> None:
        """Handle a request in several steps: one step per turn of the loop, of all such
        requests.
        """
        self._held_back[session] = []
        self._unfinished.append(_Unfinished(session, command, steps))
        if len(self._unfinished) == 1:
            asyncio.get_running_loop().call_soon(self._step)

    def _step(self) -> None:
        unfinished = self._unfinished[0]
        session, command = unfinished.session, unfinished.command
        now = self._server.now_ms()
        try:
            gone = session.closed
            reply = HELD if gone else self.answer_by(unfinished.step, session, command, now)
        except PeerError as error:
            session.close(str(error))
            reply, gone = HELD, True
        if isinstance(reply, Reply) or gone:
            self._unfinished.popleft()
            unfinished.steps.close()
            if isinstance(reply, Reply):
                session.answer(command, reply)
            self.receive(session, self._held_back.pop(session), now)
            self.end_of_turn(now)
        if self._unfinished:
            asyncio.get_running_loop().call_soon(self._step)

    def share(self, handlers: dict[int, Handler]) -> None:
        """Add the handlers of a guest."""
        for code, handler in handlers.items():
            own = self.table.get(code)
            self.table[code] = handler if own is None else _both(own, handler)

    def end_of_turn(self, now: int) -> None:
        if self._server.node.table.notices:
            self._server.send_notices()


def _both(first: Handler, second: Handler) -> Handler:
    def handle(command: Command, session: Session, now: int) -> Reply | Held:
        first(command, session, now)
        return second(command, session, now)

    return handle


Observe = Callable[[NameServer], AbstractAsyncContextManager[None]]
"""Starts what observes a name server, such as metrics, and stops it in the end."""


async def main(
    options: NamesrvOptions,
    guest: EmbeddedService | None = None,
    observe: Observe | None = None,
) -> None:
    """Run a name server until SIGTERM or Ctrl-C; print one line when it is ready. Errors as
    `start`.
    """
    server = NameServer(options, guest=guest)
    with stop_on_signals() as stop, server_process():
        await server.start()
        try:
            async with nullcontext() if observe is None else observe(server):
                where = f"{options.bind_address}:{server.port}"
                reason = await serve_until(stop, f"name server ready on {where}")
                log.info("stopping: %(reason)s", {"reason": reason})
        finally:
            await server.stop()
