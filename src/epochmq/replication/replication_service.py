"""Replication of one broker: the interface for the broker, with the coroutines that change its
role.

It executes the effects of `ReplicationNode` in order and decides nothing. Epoch entries are written
in the blocking thread. Between the end of one role and the beginning of the next there is no role.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from epochmq.base.errors import EpochError, OurBug, check
from epochmq.base.ports import Blocking, Clock
from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.base.task_set import TaskSet
from epochmq.replication.ack_policy import AckStatus, Done
from epochmq.replication.ha_info import ha_info
from epochmq.replication.link import Speeds
from epochmq.replication.linked_node import LinkedNode, Then, run_inline
from epochmq.replication.master_link import MasterPeer
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.replica_server import LinkServer
from epochmq.replication.replication_effects import (
    AskReplicas,
    Close,
    ProposeSyncStateSet,
    SendData,
    SetProposal,
)
from epochmq.replication.replication_node import ReplicationNode
from epochmq.replication.replication_ports import Sockets
from epochmq.store.cold_reads import ColdReads
from epochmq.store.epochs import EpochFile, StaleEpoch
from epochmq.store.store import Store

__all__ = ["AckStatus", "ReplicationService", "SetProposal", "StaleEpoch"]

_log = logging.getLogger(__name__)

TROUBLE_AGAIN_MS = 60_000
"""The same problem is logged and reported again after this time."""

TICK_MS = 50
"""Interval at which deadlines, grace periods and heartbeats are checked."""


class Shell:
    """Sockets, timer, blocking steps and effects of one node."""

    def __init__(
        self,
        node: LinkedNode[Any, Any],
        options: ReplicationOptions,
        clock: Clock,
        sockets: Sockets,
        blocking: Blocking | None,
        on_trouble: Callable[[str], None],
        on_proposal: Callable[[SetProposal], None] = lambda _proposal: None,
        on_stranger: Callable[[], None] = lambda: None,
        cold_reads: ColdReads | None = None,
    ) -> None:
        self._node = node
        self._cold_reads = cold_reads
        self._options = options
        self._clock = clock
        self._sockets = sockets
        self._blocking = blocking
        self._steps = TaskSet()
        self._on_trouble = on_trouble
        self._on_proposal = on_proposal
        self._on_stranger = on_stranger
        """Called to ask the controllers for the group's replicas; then `replicas_told`."""
        self.speeds = Speeds()
        """Bytes per second by link; 0 is the link to the master."""
        self._server: LinkServer | None = None
        self._peer: MasterPeer | None = None
        self._peer_task: asyncio.Task[None] | None = None
        self._master_address: str | None = None
        self._switching = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._told = ""
        self._tell_again_at_ms = 0

    async def start(self, host: str, port: int) -> int:
        """Listen for followers, and return the port. Links are closed while this broker is not the
        master.

        Raises:
            PortInUse: another process uses the port.
            EnvironmentFault: the port cannot be opened.
        """
        server = LinkServer(
            self._node,
            self._node.store,
            self._sockets,
            self._clock,
            self._after,
            self._broken,
            self._options.link_keys,
            self._cold_reads,
        )
        bound = server.start(host, port)
        self._server = server
        self._tick()
        return bound

    async def stop(self) -> None:
        """Give up the role, close all links, stop listening, and wait for disk steps."""
        async with self._switching:
            await self._hang_up()
            self._node.leave(self._clock.now_ms())
            self._after()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._server is not None:
                self._server.stop()
                self._server = None
        await self._steps_done()

    async def _end_role(self) -> None:
        """Close the link to the master, and complete a cut of the log."""
        await self._hang_up()
        await self._steps_done()

    async def _shed_tail(self) -> None:
        """Give up the role, and cut an incomplete record at the end of the log."""
        self._node.shed_tail()
        self._after()
        await self._steps_done()

    async def _steps_done(self) -> None:
        """Wait for disk steps: a cut of the log continues after its link is closed."""
        await self._steps.drain()

    def _dial(self, address: str) -> None:
        self._master_address = address
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            self._on_trouble(f"the master's replication address {address!r} is not a host:port")
            return
        peer = MasterPeer(
            self._node,
            self._sockets,
            self._clock,
            self._after,
            self._options.reconnect_ms,
            self._options.connect_timeout_ms,
            self._options.link_keys,
        )
        self._peer = peer
        self._peer_task = asyncio.create_task(
            self._guard(peer, host, int(port)), name="replication-follower"
        )

    async def _guard(self, peer: MasterPeer, host: str, port: int) -> None:
        try:
            await peer.run(host, port)
        except Exception as error:
            self._broken(error)

    async def _hang_up(self) -> None:
        """Close the connection to the master."""
        task, self._peer_task = self._peer_task, None
        self._peer = self._master_address = None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _broken(self, error: Exception) -> None:
        """Fence the store after an unexpected error."""
        _log.error("replication failed", exc_info=error)
        self._node.fence(str(error))
        self._node.store.fence(f"replication: {type(error).__name__}: {error}")
        self._on_trouble(f"replication failed: {type(error).__name__}: {error}")

    def appended(self) -> None:
        """Note that the store grew, and send in this turn; called once for all appends
        of a turn.
        """
        self._node.appended(self._clock.now_ms())
        self._after()
        if self._server is not None:
            self._server.wake()

    def check_set(self, now: int | None = None) -> None:
        """Check for slow members; the own timer does that as well."""
        self._node.tick(self._clock.now_ms() if now is None else now, self._clock.wall_ms())
        self._after()

    def statistics(self) -> dict[str, int]:
        """Return the state of the present role as numbers."""
        return self._node.statistics()

    def _peers(self) -> dict[int, str]:
        return {n: w.peer for n, w in self._server.wires.items()} if self._server else {}

    def _after(self) -> None:
        """Execute the effects of the node in order."""
        for effect in self._node.pop_effects():
            if isinstance(effect, SendData):
                if effect.link:
                    if self._server is not None:
                        self._server.send(effect.link, effect.data)
                elif self._peer is not None:
                    self._peer.send(effect.data)
            elif isinstance(effect, Close):
                self._close(effect)
            elif isinstance(effect, ProposeSyncStateSet):
                self._on_proposal(effect.proposal)
            elif isinstance(effect, AskReplicas):
                self._on_stranger()
            else:
                self._tell(effect.text)

    def _tell(self, trouble: str) -> None:
        """Report a problem to an operator; a repeated one is reported once in a period."""
        now = self._clock.now_ms()
        if trouble != self._told or now >= self._tell_again_at_ms:
            self._told, self._tell_again_at_ms = trouble, now + TROUBLE_AGAIN_MS
            _log.error("replication: %s", trouble)
            self._on_trouble(trouble)

    def _close(self, effect: Close) -> None:
        if not effect.link:
            if self._peer is not None:
                self._peer.close(effect.reason)
        elif self._server is not None:
            self._server.close(effect.link, effect.reason)

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(TICK_MS / 1000, self._tick)
        try:
            self.check_set()
            self.speeds.sample(self._clock.now_ms(), self._node.transferred())
            if self._server is not None:
                self._server.wake()
        except Exception as error:
            self._broken(error)

    # Blocking steps ---------------------------------------------------------------------------

    def _run_blocking(self, call: Callable[[], None], then: Then) -> None:
        if self._blocking is None:
            run_inline(call, then)
            return
        self._steps.spawn(self._step(call, then), name="replication-step")

    async def _step(self, call: Callable[[], None], then: Then) -> None:
        error: EpochError | None = None
        try:
            try:
                await self._run(call)
            except OurBug:
                raise
            except EpochError as caught:
                error = caught
            then(error)
            self._after()
            if self._peer is not None:
                self._peer.resume()
        except Exception as bug:
            self._broken(bug)

    async def _run(self, call: Callable[[], None]) -> None:
        if self._blocking is None:
            call()
        else:
            await self._blocking.run(call)


class ReplicationService(Shell):
    """The replication of one broker in controller mode; all on the running event loop."""

    def __init__(
        self,
        store: Store,
        epochs: EpochFile,
        options: ReplicationOptions,
        clock: Clock,
        *,
        own_id: int,
        on_proposal: Callable[[SetProposal], None],
        on_confirm: Callable[[int], None],
        on_trouble: Callable[[str], None],
        on_stranger: Callable[[], None] = lambda: None,
        sockets: Sockets,
        blocking: Blocking | None = None,
        cold_reads: ColdReads | None = None,
        safeguards: Safeguards = SAFE,
    ) -> None:
        node = ReplicationNode(
            store,
            epochs,
            options,
            own_id=own_id,
            safeguards=safeguards,
            run_blocking=self._run_blocking,
            read_clock=clock.now_ms,
            on_confirm=on_confirm,
        )
        super().__init__(
            node,
            options,
            clock,
            sockets,
            blocking,
            on_trouble,
            on_proposal=on_proposal,
            on_stranger=on_stranger,
            cold_reads=cold_reads,
        )
        self.node = node

    # Roles ------------------------------------------------------------------------------------

    async def become_master(self, epoch: int, members: frozenset[int], set_epoch: int) -> None:
        """Become the master of `epoch`; its entry is on the device when this returns.

        Args:
            epoch: the epoch from the controller.
            members: ids of the sync-state set.
            set_epoch: epoch of the set.

        Raises:
            StaleEpoch: the log has seen a newer epoch, and nothing has changed; or it has this
                epoch from another master.
        """
        async with self._switching:
            node = self.node
            node.check_epoch(epoch)
            await self._end_role()
            node.check_epoch(epoch)
            await self._shed_tail()
            start = node.prepare_master(epoch, self._clock.now_ms())
            self._after()
            await self._run(partial(node.epochs.append, epoch, start))
            node.start_master(
                epoch,
                start,
                members,
                set_epoch,
                self._clock.now_ms(),
                self._clock.wall_ms(),
            )
            self._after()

    async def become_follower(
        self,
        epoch: int,
        master_id: int,
        master_ha_address: str | None,
        learner: bool,
        *,
        unclean_epoch: int = 0,
    ) -> None:
        """Copy from a master.

        The same master again, with the same epochs and address, changes nothing.

        Args:
            epoch: the master's epoch from the controller.
            master_id: broker id of the master.
            master_ha_address: "host:port" of its replication port; None waits for a call with an
                address.
            learner: whether this broker is a learner.
            unclean_epoch: see `FollowerCore`.

        Raises:
            StaleEpoch: the log has seen a newer epoch.
        """
        async with self._switching:
            node = self.node
            check(master_id != node.own_id, "INV-32 a broker does not follow itself")
            follower = node.follower
            same = follower is not None and (
                (follower.epoch, follower.unclean_epoch) == (epoch, unclean_epoch)
            )
            if same and self._master_address == master_ha_address:
                return
            node.check_epoch(epoch)
            await self._end_role()
            node.become_follower(
                epoch,
                self._clock.now_ms(),
                self._clock.wall_ms(),
                learner=learner,
                unclean_epoch=unclean_epoch,
            )
            self._after()
            if master_ha_address is not None:
                self._dial(master_ha_address)

    # What the broker tells --------------------------------------------------------------------

    def fence(self, reason: str) -> None:
        """Stop acknowledging and changing anything, until `unfence` or another role."""
        self.node.fence(reason)
        if self.node.follower is not None:
            self.node.leave(self._clock.now_ms())
            self._after()

    def may_serve(self, now: int) -> bool:
        """Whether this master may acknowledge: with its lease, or after it with the whole set (ADR
        0044).
        """
        return self.node.may_serve(now)

    def unfence(self) -> None:
        """Continue as the master of the same epoch."""
        self.node.unfence(self._clock.now_ms())
        self._after()

    def lease(
        self, may_acknowledge: Callable[[int], bool], hold_span_ms: Callable[[], int] = lambda: 0
    ) -> None:
        """Set the functions that are called before each acknowledgement; see the node."""
        self.node.lease(may_acknowledge, hold_span_ms)

    def set_committed(self, members: frozenset[int], set_epoch: int) -> None:
        """Note the controller's set, from an answer or a poll; an older set is ignored."""
        self.node.set_committed(members, set_epoch, self._clock.now_ms())
        self._after()

    def replicas_told(self, registered: frozenset[int]) -> None:
        """Note the ids that the controllers registered in this group."""
        self.node.replicas_told(registered, self._clock.now_ms())
        self._after()

    def proposal_failed(self, proposal: SetProposal, *, refused: bool = False) -> None:
        """Note that a proposal got no answer; with `refused` the active controller refused it."""
        self.node.proposal_failed(proposal, self._clock.now_ms(), refused=refused)
        self._after()

    def when_acked(self, offset: int, deadline_at_ms: int, done: Done) -> None:
        """Call `done` once, in the order of the log, when the data up to `offset` is acknowledged.

        If the store has sync flush, ACKED also means that the data is synced here.
        """
        self.node.when_acked(offset, deadline_at_ms, done, self._clock.now_ms())

    def change_options(self, options: ReplicationOptions) -> None:
        """Change numbers of replicas, times and sizes from now on; the rest with the next role."""
        self.node.options = options
        if self.node.master is not None:
            self.node.master.change_options(options)

    def refusal(self) -> AckStatus | None:
        """Return why a send must be refused now, or None."""
        return self.node.refusal(self._clock.now_ms())

    # Figures ----------------------------------------------------------------------------------

    def ha_info(self) -> dict[str, object]:
        """Return RocketMQ's HARuntimeInfo as a dict."""
        return ha_info(
            self.node,
            self._peers(),
            self._master_address,
            self._clock.now_ms(),
            self._clock.wall_ms(),
            self.speeds,
        )
