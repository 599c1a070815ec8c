"""Replication of one broker: the facade that the broker calls, and the only place that awaits.

Carries out what `ReplicationNode` asks for, in order; decides nothing. Epoch entries are written in
the blocking thread; between the end of one role and the begin of the next there is none.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from epochmq.base.errors import EpochError, OurBug, check
from epochmq.base.ports import Blocking, Clock
from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.base.task_set import TaskSet
from epochmq.replication.ack_policy import AckStatus, Done
from epochmq.replication.ha_info import ha_info
from epochmq.replication.link import Speeds
from epochmq.replication.master_link import FollowerSide, MasterPeer
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.replica_server import LinkServer, MasterSide
from epochmq.replication.replication_effects import (
    AskReplicas,
    Close,
    ProposeSyncStateSet,
    SendData,
    SetProposal,
    Trouble,
)
from epochmq.replication.replication_node import ReplicationNode, Then, run_inline
from epochmq.replication.replication_ports import Sockets
from epochmq.store.epochs import EpochFile, StaleEpoch
from epochmq.store.store import Store

__all__ = ["AckStatus", "ReplicationService", "SetProposal", "StaleEpoch"]

_log = logging.getLogger(__name__)

TROUBLE_AGAIN_MS = 60_000
"""The same trouble is logged and reported again after so long."""

TICK_MS = 50
"""Deadlines, grace periods and heartbeats are looked at so often."""


class Node(Protocol):
    """What carries a role: `ReplicationNode`, or the one without a controller."""

    store: Store

    def pop_effects(
        self,
    ) -> Sequence[SendData | Close | ProposeSyncStateSet | AskReplicas | Trouble]: ...

    def tick(self, now: int, wall: int = 0) -> None: ...

    def appended(self, now: int) -> None: ...

    def leave(self, now: int) -> None: ...

    def fence(self, reason: str) -> None: ...

    def statistics(self) -> dict[str, int]: ...

    def transferred(self) -> dict[int, int]:
        """Bytes of log by link since it began; 0 is the link to the master."""
        ...


class Shell:
    """Sockets, timer and effects around one node."""

    def __init__(
        self,
        node: Node,
        master_side: MasterSide,
        follower_side: FollowerSide,
        options: ReplicationOptions,
        clock: Clock,
        sockets: Sockets,
        on_trouble: Callable[[str], None],
        on_proposal: Callable[[SetProposal], None] = lambda _proposal: None,
    ) -> None:
        self._node = node
        self._master_side = master_side
        self._follower_side = follower_side
        self._options = options
        self._clock = clock
        self._sockets = sockets
        self._on_trouble = on_trouble
        self._on_proposal = on_proposal
        self.on_stranger: Callable[[], None] = lambda: None
        """The controllers are to be asked for the group's replicas; then `replicas_told`."""
        self.speeds = Speeds()
        """Bytes a second by link; 0 is the link to the master."""
        self._server: LinkServer | None = None
        self._peer: MasterPeer | None = None
        self._peer_task: asyncio.Task[None] | None = None
        self._master_address: str | None = None
        self._switching = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._told = ""
        self._tell_again_at_ms = 0

    async def start(self, host: str, port: int) -> int:
        """Listen for followers; the port. They are cut off as long as this is no master."""
        server = LinkServer(
            self._master_side,
            self._node.store,
            self._sockets,
            self._clock,
            self._after,
            self._broken,
        )
        bound = server.start(host, port)
        self._server = server
        self._tick()
        return bound

    async def stop(self) -> None:
        """No role, no links, no listener."""
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

    def _dial(self, address: str) -> None:
        self._master_address = address
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            self._on_trouble(f"the master's replication address {address!r} is no host:port")
            return
        peer = MasterPeer(
            self._follower_side,
            self._sockets,
            self._clock,
            self._after,
            self._options.reconnect_ms,
            self._options.connect_timeout_ms,
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
        """No connection to a master any more."""
        task, self._peer_task = self._peer_task, None
        self._peer = self._master_address = None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _broken(self, error: Exception) -> None:
        """Our bug: better stopped than wrong."""
        _log.error("replication failed", exc_info=error)
        self._node.fence(str(error))
        self._node.store.fence(f"replication: {type(error).__name__}: {error}")
        self._on_trouble(f"replication failed: {type(error).__name__}: {error}")

    def appended(self) -> None:
        """The store grew: send in this turn. Once for all appends of a turn."""
        self._node.appended(self._clock.now_ms())
        self._after()
        if self._server is not None:
            self._server.wake()

    def check_set(self, now: int | None = None) -> None:
        """Look for members that fell behind; the own timer does so as well."""
        self._node.tick(self._clock.now_ms() if now is None else now, self._clock.wall_ms())
        self._after()

    def statistics(self) -> dict[str, int]:
        """Plain figures of the present role."""
        return self._node.statistics()

    def _peers(self) -> dict[int, str]:
        return {n: w.peer for n, w in self._server.wires.items()} if self._server else {}

    def _after(self) -> None:
        """What the node wants done outside, in order."""
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
                self.on_stranger()
            else:
                self._tell(effect.text)

    def _tell(self, trouble: str) -> None:
        """Report what needs a person; what comes again with each new link, once a period."""
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


class ReplicationService(Shell):
    """One broker's part in its group, in controller mode; all on the running loop."""

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
        sockets: Sockets,
        blocking: Blocking | None = None,
        safeguards: Safeguards = SAFE,
    ) -> None:
        node = ReplicationNode(store, epochs, options, own_id=own_id, safeguards=safeguards)
        super().__init__(
            node, node, node, options, clock, sockets, on_trouble, on_proposal=on_proposal
        )
        self.node = node
        node.run_blocking = self._run_blocking
        node.read_clock = clock.now_ms
        node.on_confirm = on_confirm
        self._blocking = blocking
        self._steps = TaskSet()

    async def stop(self) -> None:
        """No role, no links, no listener, nothing on its way to the disk."""
        await super().stop()
        await self._steps_done()

    async def _steps_done(self) -> None:
        """Nothing is on its way to the disk: a cut of the log goes on after its link is gone."""
        await self._steps.drain()

    # Roles ------------------------------------------------------------------------------------

    async def become_master(self, epoch: int, members: frozenset[int], set_epoch: int) -> None:
        """Be the master of `epoch`; its entry is on the device when this returns.

        `StaleEpoch` when this log has seen a newer master, or this very epoch from elsewhere;
        before anything has changed in the first case.
        """
        async with self._switching:
            node = self.node
            node.check_epoch(epoch)
            await self._hang_up()
            await self._steps_done()
            node.check_epoch(epoch)
            node.shed_tail()
            self._after()
            await self._steps_done()
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
        """Copy from that master; without an address wait for a call with one.

        The same master again, by the same epochs and address, goes on undisturbed. `StaleEpoch`
        when this log has seen a newer one. `unclean_epoch`: see `FollowerCore`.
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
            await self._hang_up()
            await self._steps_done()
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
        """Acknowledge nothing and move nothing, until `unfence` or another role."""
        self.node.fence(reason)
        if self.node.follower is not None:
            self.node.leave(self._clock.now_ms())
            self._after()

    def may_serve(self, now: int) -> bool:
        """As master: under the lease, or past it with the whole set (ADR 0044)."""
        return self.node.may_serve(now)

    def unfence(self) -> None:
        """Still, or again, the master of the same epoch."""
        self.node.unfence(self._clock.now_ms())
        self._after()

    def lease(
        self, may_acknowledge: Callable[[int], bool], hold_span_ms: Callable[[], int] = lambda: 0
    ) -> None:
        """Ask this with the monotonic time before each acknowledgement; False fences (S17),
        unless the whole set was heard within `hold_span_ms` (ADR 0044)."""
        self.node.may_acknowledge = may_acknowledge
        self.node.hold_span_ms = hold_span_ms

    def set_committed(self, members: frozenset[int], set_epoch: int) -> None:
        """The controller's set, from an answer or a poll; old news is no harm."""
        self.node.set_committed(members, set_epoch, self._clock.now_ms())
        self._after()

    def replicas_told(self, registered: frozenset[int]) -> None:
        """The ids that the controllers have registered in this group."""
        self.node.replicas_told(registered, self._clock.now_ms())
        self._after()

    def proposal_failed(self, proposal: SetProposal, *, refused: bool = False) -> None:
        """No answer came, or with `refused` the active controller said no."""
        self.node.proposal_failed(proposal, self._clock.now_ms(), refused=refused)
        self._after()

    def when_acked(self, offset: int, deadline_at_ms: int, done: Done) -> None:
        """`done` once, in the log's order, when what ends at `offset` is acknowledged.

        ACKED also means synced here when the store has sync flush.
        """
        self.node.when_acked(offset, deadline_at_ms, done, self._clock.now_ms())

    def change_options(self, options: ReplicationOptions) -> None:
        """Numbers of replicas, time limits and sizes from now on; the rest with the next role."""
        self.node.options = options
        if self.node.master is not None:
            self.node.master.change_options(options)

    def refusal(self) -> AckStatus | None:
        """Why nothing should be appended now; None: go on."""
        return self.node.refusal(self._clock.now_ms())

    # Figures ----------------------------------------------------------------------------------

    def ha_info(self) -> dict[str, object]:
        """RocketMQ's HARuntimeInfo, as JSON has it."""
        return ha_info(
            self.node,
            self._peers(),
            self._master_address,
            self._clock.now_ms(),
            self._clock.wall_ms(),
            self.speeds,
        )

    # Carrying out -----------------------------------------------------------------------------

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
