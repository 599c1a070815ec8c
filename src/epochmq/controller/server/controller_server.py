"""A running controller: its port, its disk thread, and its connections to other controllers.

It decides nothing. Events of sockets, disk and clock go to the node; the node's effects are
executed at the end of the turn.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext

from epochmq.auth.protected_table import protected
from epochmq.auth.server_keys import inner_signer
from epochmq.base.errors import (
    EnvironmentFault,
    EpochError,
    NotReachable,
    OutOfResources,
    PeerError,
    Refused,
    StoreDamaged,
)
from epochmq.base.options import change
from epochmq.base.ports import Clock, Disk
from epochmq.base.task_set import TaskSet
from epochmq.controller.config_file import ConfigFile
from epochmq.controller.controller_effects import Dial, Notify, SendReply
from epochmq.controller.handlers.controller_request_table import CHANGES, FREE, HANDLERS
from epochmq.controller.options import UNCLEAN, USUAL_CHANGES_PATH, ControllerOptions
from epochmq.controller.server.controller_node import ControllerNode
from epochmq.controller.server.controller_peers import LINK, RaftLink, is_refused
from epochmq.controller.server.raft_sessions import RaftSessions
from epochmq.model.host import parse_addr
from epochmq.raft.raft_messages import decode
from epochmq.raft.raft_node import SendBytes
from epochmq.runtime.blocking import BlockingThread
from epochmq.runtime.bounds import Bounds
from epochmq.runtime.clock import RealClock
from epochmq.runtime.disk import RealDisk
from epochmq.runtime.logging_setup import configure_part
from epochmq.runtime.peers import Peers
from epochmq.runtime.process import handle_process_info, server_process
from epochmq.runtime.rng import RealRng, new_nonce
from epochmq.runtime.server import RemotingServer
from epochmq.runtime.service_manager import serve_until
from epochmq.runtime.signals import stop_on_signals
from epochmq.runtime.tls import client_tls, server_tls
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply, request
from epochmq.wire.dispatcher import Dispatcher, Handler
from epochmq.wire.session import Session

log = logging.getLogger(__name__)

NOTIFY_TIMEOUT_MS = 1_000
RESOURCES_PAUSE_MS = 100
"""Pause before the journal is written again, after file descriptors or memory were missing."""
PROOF_TIMEOUT_MS = 1_000
ASKER = "asker"
"""Header field of RAFT_LINK: the controller that the connection leads to."""


class Controller:
    """A running controller, from `start` until `stop`. `failed` is set when it cannot go on."""

    def __init__(self, options: ControllerOptions, *, clock: Clock | None = None) -> None:
        self._clock = clock or RealClock()
        self._disk: Disk = RealDisk(options.controller_store_path)
        self._config = _config_file(options)
        self.options = _with_saved(options, self._config)
        self.node: ControllerNode
        self.failed: asyncio.Future[EpochError]
        self._thread = BlockingThread("epochmq-controller")
        self._tls = client_tls(options)
        self._signer = inner_signer(options)
        self._peers = Peers(tls=self._tls, signer=self._signer)
        self._links: dict[str, RaftLink] = {}
        self._tokens = 0
        self._asking: dict[int, Session] = {}
        self._sessions: set[int] = set()
        self._raft_sessions = RaftSessions()
        self._tasks = TaskSet()
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._node_is_open = False

    async def start(self) -> None:
        """Read the log and start; after that `handle` accepts requests.

        Raises:
            StoreDamaged, StoreInUse: the log cannot be used.
            EnvironmentFault: any other problem, with one clear line each.
        """
        configure_part(
            "epochmq.controller",
            self.options.controller_log_level,
            self.options.controller_log_file,
        )
        self.failed = asyncio.get_running_loop().create_future()
        peers = self.options.peers()
        self._links = {
            number: RaftLink(address, self._tls, self._signer)
            for number, address in peers.addresses.items()
            if number != peers.self_id
        }
        self.node = await self._thread.run(
            lambda: ControllerNode.open(
                self.options, self._disk, RealRng(), self._clock.now_ms(), config=self._config
            )
        )
        self._node_is_open = True
        self._carry_out()

    async def stop(self) -> None:
        """End all tasks; may be called more than once."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.close()
        for link in self._links.values():
            await link.close()
        await self._peers.close()
        if self._node_is_open:
            self._node_is_open = False
            clean = not self.failed.done()
            await self._thread.run(lambda: self.node.close(clean=clean))
        self._thread.close()

    # Requests ---------------------------------------------------------------------------------

    def table(self) -> dict[int, Handler]:
        """Return the handlers for a `Dispatcher`, by request code."""
        found: dict[int, Handler] = dict.fromkeys(map(int, HANDLERS), self.handle)
        found[int(RequestCode.RAFT_MESSAGE)] = self._receive
        found[int(RequestCode.RAFT_LINK)] = self._answer_link
        return protected(found, self.options, FREE, CHANGES, new_nonce)

    def handle(self, command: Command, session: Session, now: int) -> Held:
        """Handle a request; the answer is sent at the end of this turn or later."""
        self._check_running()
        if session.id not in self._sessions:
            self._sessions.add(session.id)
            session.on_close.append(self._closed)
        self._tokens += 1
        self._asking[self._tokens] = session
        self.node.request(self._tokens, command, session.id, self._now())
        self._soon()
        return HELD

    def _check_running(self) -> None:
        if self._stopped:
            raise Refused(ResponseCode.CONTROLLER_NOT_LEADER, "this controller has stopped")

    def _receive(self, command: Command, session: Session, now: int) -> Held:
        """Handle a Raft message; it counts only when the owner of the connection is known."""
        self._check_running()
        data = bytes(command.body)
        known = self._raft_sessions.sender_of(session.id)
        if known is not None:
            self._deliver(known, data)
            return HELD
        sender = decode(data).sender
        if sender not in self._links:
            raise PeerError(f"Raft message of {sender}, which is not another configured controller")
        if session.id not in self._sessions:
            self._sessions.add(session.id)
            session.on_close.append(self._closed)
        if self._raft_sessions.hold(session.id, sender, data):
            word = (command.ext or {}).get(LINK, "")
            self._tasks.spawn(self._prove(session, sender, word))
        return HELD

    def _deliver(self, sender: str, data: bytes) -> None:
        try:
            self.node.receive(data, self._now(), sender)
        except StoreDamaged as error:
            self._fail(error)
            return
        self._soon()

    async def _prove(self, session: Session, sender: str, word: str) -> None:
        """Ask `sender` at its configured address whether this connection belongs to it."""
        own_id = self.options.peers().self_id
        question = request(RequestCode.RAFT_LINK, {ASKER: own_id, LINK: word})
        try:
            answer = await self._links[sender].ask(question, PROOF_TIMEOUT_MS)
        except NotReachable:
            self._raft_sessions.forget(session.id)
            return
        if self._stopped:
            return
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            log.warning(
                "controller %(controller)s is of a version that proves nothing: believed",
                {"controller": sender},
            )
        elif answer.code != ResponseCode.SUCCESS:
            self._raft_sessions.forget(session.id)
            log.warning(
                "%(peer)s: connection closed: the peer is not controller %(controller)s",
                {"peer": session.peer, "controller": sender},
            )
            session.close(f"this connection is not controller {sender}'s")
            return
        try:
            for data in self._raft_sessions.prove(session.id):
                self._deliver(sender, data)
        except PeerError as error:
            log.warning(
                "%(peer)s: connection closed: %(error)s", {"peer": session.peer, "error": error}
            )
            session.close(str(error))

    def _answer_link(self, command: Command, session: Session, now: int) -> Reply:
        ext = command.ext or {}
        link = self._links.get(ext.get(ASKER, ""))
        if link is not None and link.is_own(ext.get(LINK, "")):
            return Reply()
        return Reply(ResponseCode.SYSTEM_ERROR, "this controller knows nothing of that connection")

    def _fail(self, error: EnvironmentFault) -> None:
        """Stop working after a failure; `main` ends the process with one line."""
        log.critical("the controller stops: %(error)s", {"error": error})
        self._stopped = True
        if not self.failed.done():
            self.failed.set_result(error)

    def _closed(self, session: Session) -> None:
        self._sessions.discard(session.id)
        self._raft_sessions.forget(session.id)
        if not self._stopped:
            self.node.channel_closed(session.id, self._now())
            self._soon()

    # Clocks and effects -----------------------------------------------------------------------

    def _now(self) -> int:
        """Return the time for the node, after the node compared both clocks."""
        now = self._clock.now_ms()
        if self.node.look_at_clocks(now, self._clock.wall_ms()):
            log.warning(
                "the wall clock ran ahead of the monotonic one: the machine stood still, or the"
                " clock was set; the controller asks again whether it leads"
            )
        return now

    def _soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._carry_out)

    def _carry_out(self) -> None:
        """Execute all effects of the node, and set the timer for its next deadline."""
        self._scheduled = False
        if self._stopped:
            return
        for effect in self.node.pop_effects():
            match effect:
                case SendReply(token, request, reply):
                    self._asking.pop(token).answer(request, reply)
                case SendBytes(node_id, data):
                    if node_id in self._links:
                        self._links[node_id].send(data)
                case Notify():
                    self._tasks.spawn(self._notify(effect))
                case Dial():
                    self._tasks.spawn(self._dial(effect))
        call = self.node.pending_sync()
        if call is not None:
            self._tasks.spawn(self._sync(call))
        self._set_timer()

    def _set_timer(self) -> None:
        loop = asyncio.get_running_loop()
        wait_ms = max(0, self.node.next_deadline() - self._clock.now_ms())
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(wait_ms / 1000, self._tick)

    def _tick(self) -> None:
        self.node.tick(self._now())
        self._carry_out()

    async def _sync(self, call: Callable[[], None]) -> None:
        """Write to disk; messages that depend on the write are sent only after it."""
        waits = False
        while True:
            try:
                await self._thread.run(call)
                break
            except OutOfResources as error:
                if not waits:
                    log.warning(
                        "the controller waits, nothing is lost: %(error)s", {"error": error}
                    )
                waits = True
                await asyncio.sleep(RESOURCES_PAUSE_MS / 1000)
            except EnvironmentFault as error:
                # The data of the failed sync may be lost, so the controller must not go on.
                self._fail(error)
                return
        if waits:
            log.info("the controller goes on: its journal could be written")
        self.node.synced(self._now())
        self._carry_out()

    async def _notify(self, notice: Notify) -> None:
        acknowledged = False
        try:
            if notice.acknowledged:
                answer = await self._peers.invoke(notice.address, notice.command, NOTIFY_TIMEOUT_MS)
                acknowledged = answer.code == 0
            else:
                await self._peers.oneway(notice.address, notice.command, NOTIFY_TIMEOUT_MS)
        except NotReachable as error:
            log.info(
                "broker %(address)s could not be notified of its role: %(error)s",
                {"address": notice.address, "error": error},
            )
        if notice.acknowledged:
            self.node.notified(notice.ticket, acknowledged, self._now())
            self._soon()

    async def _dial(self, dial: Dial) -> None:
        refused = await is_refused(dial.address)
        self.node.dialed(dial.ticket, refused, self._now())
        self._soon()


def _config_file(options: ControllerOptions) -> ConfigFile:
    path = options.changes_path
    older = None
    if not options.config_store_path:
        usual = os.path.expanduser(USUAL_CHANGES_PATH)
        older = ConfigFile(usual, RealDisk(os.path.dirname(usual)))
    return ConfigFile(path, RealDisk(os.path.dirname(path) or "."), older)


def _with_saved(options: ControllerOptions, config: ConfigFile) -> ControllerOptions:
    """Apply the changes made at run time to the options; the replicated switch is not
    among them.
    """
    saved = {key: text for key, text in config.load().items() if key != UNCLEAN}
    return change(options, saved)


class EmbeddedController:
    """A controller in the process of a name server.

    It shares the name server's port if that is its own port too, and listens on its own port
    otherwise.
    """

    def __init__(self, options: ControllerOptions, *, shared_port: int) -> None:
        self.controller = Controller(options)
        _, port = parse_addr(options.peers().own_address)
        self._own = None if port == shared_port else _server(options)

    async def start(self) -> None:
        """Start the controller, and its own port if it has one."""
        await self.controller.start()
        if self._own is not None:
            await _listen(self._own, self.controller)

    async def stop(self) -> None:
        """Stop the controller and its own port."""
        await self.controller.stop()
        if self._own is not None:
            await self._own.stop()

    def table(self) -> dict[int, Handler]:
        """Return the handlers that the name server serves for it; empty if it has its own port."""
        return {} if self._own is not None else self.controller.table()


def _server(options: ControllerOptions) -> RemotingServer:
    return RemotingServer(Bounds(idle_ms=options.server_channel_max_idle_time_seconds * 1000))


async def _listen(server: RemotingServer, controller: Controller) -> str:
    """Listen on the controller's own address. Return that address."""
    options = controller.options
    host, port = parse_addr(options.peers().own_address)
    bound = options.bind_address or host
    table = controller.table()
    table[int(RequestCode.GET_BROKER_RUNTIME_INFO)] = handle_process_info
    sink = Dispatcher(table)
    origin = "port of this controller in controllerDLegerPeers"
    port = await server.start(bound, port, sink, tls=server_tls(options), origin=origin)
    return f"{bound}:{port}"


Observe = Callable[[Controller], AbstractAsyncContextManager[None]]
"""Starts what observes a controller, such as metrics, and stops it in the end."""


async def main(options: ControllerOptions, observe: Observe | None = None) -> None:
    """Run a controller until SIGTERM or Ctrl-C, or until it fails. Errors as `Controller.start`."""
    controller = Controller(options)
    server = _server(options)
    with stop_on_signals() as stop, server_process():
        await controller.start()
        try:
            where = await _listen(server, controller)
            controller.failed.add_done_callback(lambda failed: stop.ask("it cannot go on"))
            async with nullcontext() if observe is None else observe(controller):
                reason = await serve_until(
                    stop, f"controller {options.peers().self_id} ready on {where}"
                )
                log.info("stopping: %(reason)s", {"reason": reason})
            if controller.failed.done():
                raise controller.failed.result()
        finally:
            await controller.stop()
            await server.stop()
