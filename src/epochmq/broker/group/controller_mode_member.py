"""Runs a broker's membership in controller mode: controller requests, roles, replication, metadata.

`Membership` (the core) decides; this module carries out its effects in order, disk before network.
A role switch is one task; the core starts the next switch only after `role_done` reported how the
last one ended.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from epochmq.base.errors import EnvironmentFault, EpochError, NotReachable, OurBug
from epochmq.base.ports import Blocking
from epochmq.base.task_set import TaskSet
from epochmq.base.unbounded import FOREVER, LONG_MAX
from epochmq.broker.config.broker_peers import broker_peers
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.group import membership_effects as todo
from epochmq.broker.group.broker_identity import IdentityFiles
from epochmq.broker.group.group_membership import Membership
from epochmq.broker.group.member_options import (
    LogState,
    MembershipOptions,
    changed_options,
    replication_sockets,
    waits_for_replicas,
)
from epochmq.broker.group.membership_effects import BecomeFollower, BecomeMaster, Effect, Switch
from epochmq.broker.group.metadata_sync import ReplicaSync
from epochmq.broker.group.metadata_sync_service import ReplicaSyncService
from epochmq.broker.group.replicated_tables import Tables
from epochmq.broker.group.role_switch import RoleSwitch
from epochmq.broker.serving.acknowledgement import PendingAcks
from epochmq.broker.serving.group_position import GroupPosition
from epochmq.broker.serving.roles import HELD_MASTER, Role
from epochmq.model.host import format_addr, parse_addr
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.replication_effects import SetProposal
from epochmq.replication.replication_service import ReplicationService
from epochmq.runtime.own_host import boot_id
from epochmq.store.epochs import EpochFile
from epochmq.wire.bodies.body import decode_body, encode_body
from epochmq.wire.bodies.controller_bodies import EpochEntryBody, HARuntimeInfo
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import request
from epochmq.wire.header import decode_header
from epochmq.wire.headers.admin_headers import ExchangeHAInfoHeader

HA_ASK_MS = 1_000
HA_ASK_TIMEOUT_MS = 1_000
RESIGN_WAIT_MS = 500
DNS_PERIOD_MS = 120_000
DNS_RETRY_MS = 2_000

log = logging.getLogger(__name__)


class ControllerModeMember:
    """One broker in controller mode; ticked by the broker. It is the `GroupStatus` of the
    handlers."""

    def __init__(
        self,
        node: BrokerContext,
        files: IdentityFiles,
        epochs: EpochFile,
        options: MembershipOptions,
        replication: ReplicationOptions,
        *,
        blocking: Blocking,
        waits: bool,
        changed: Callable[[], None],
    ) -> None:
        self._node = node
        self._clock = node.clock
        self._files = files
        self._epochs = epochs
        self._options = options
        own_id = files.broker_id()
        self.core = Membership(
            options, self._log, broker_id=own_id, temp=files.temp(), known=files.known()
        )
        self.replication = ReplicationService(
            node.store,
            epochs,
            replication,
            node.clock,
            own_id=own_id or 0,
            on_proposal=self._proposed,
            on_confirm=lambda _offset: None,
            on_trouble=lambda text: log.error("%(text)s", {"text": text}),
            on_stranger=self._stranger_called,
            sockets=replication_sockets(node.options),
            blocking=blocking,
            cold_reads=node.cold_reads,
        )
        self.replication.lease(self._may_acknowledge, self.core.hold_span_ms)
        self.replication.node.registered = frozenset()
        self._peers = broker_peers(node.options, on_close=self._closed)
        self._brokers = broker_peers(node.options)
        self.sync = ReplicaSyncService(
            ReplicaSync(Tables(node), node.options.slave_metadata_period),
            self._brokers,
            node.clock,
            self._metadata_came,
        )
        self._switch = RoleSwitch(node, changed)
        self._tasks = TaskSet(_log_failure)
        self._following: BecomeFollower | None = None
        self._ha_due_ms = 0
        self._dns_due_ms = 0
        self._stopped = False
        self._served = ""
        self._silent = False
        self._role_lock = asyncio.Lock()
        self._saves = 0
        """The number of writes under way."""
        self._saved = asyncio.Event()
        self._saved.set()
        node.serving.change_role(Role.FENCED)
        acks = PendingAcks(self.replication, lambda: node.serving.rights, waits=waits)
        node.join_group(self, GroupPosition(own_id=own_id or 0), acks)
        if waits:
            node.serving.trust_set(self.replication.node.holds)

    # Start and stop --------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen for replicas, and start the membership core, which looks for a place in the
        group."""
        options = self._node.options
        await self.replication.start(
            options.ha_bind_address or options.bind_address, options.ha_listen_port
        )
        if options.fetch_controller_addr_by_dns_lookup:
            await self._look_up(self._clock.now_ms())
        self._run_effects(self.core.start(self._clock.now_ms(), self._clock.wall_ms()))

    async def stop(self) -> None:
        """Resign if this broker is the master, so that another one is elected at once; then
        close."""
        self._run_effects(self.core.resign(self._clock.now_ms()))
        self._stopped = True
        await self._tasks.wait(RESIGN_WAIT_MS / 1000)
        await self._tasks.close()
        await self.sync.close()
        await self.replication.stop()
        await self._peers.close()
        await self._brokers.close()

    # Running ---------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        """Run the core and everything else that is due."""
        if self._stopped or self._lost_store(now):
            return
        self._look_at_clocks(now)
        self._run_effects(self.core.tick(now, self._clock.wall_ms()))
        self.sync.tick(now)
        self._switch.earlier_confirmed()
        following = self._following
        if following is not None and following.ha_address is None and now >= self._ha_due_ms:
            self._ha_due_ms = now + HA_ASK_MS
            self._spawn(self._ask_ha_address(following.master_address))
        if self._node.options.fetch_controller_addr_by_dns_lookup and now >= self._dns_due_ms:
            self._spawn(self._look_up(now))

    def _lost_store(self, now: int) -> bool:
        """Leave the group when the store is fenced by a disk failure; return whether it is.

        The broker resigns and sends no more heartbeats, because a broker that sends them may be
        elected.
        """
        if self._node.store.fenced is None:
            return False
        if not self._silent:
            self._silent = True
            log.error("leaving the group: %(reason)s", {"reason": self._node.store.fenced})
            self._run_effects(self.core.resign(now))
            self._fence("the store is fenced")
            self.sync.stop()
        return True

    def next_deadline(self) -> int:
        if self._silent:
            return FOREVER
        wanted = [self.core.next_deadline(), self.sync.core.next_deadline() or FOREVER]
        return min(wanted)

    def _run_effects(self, effects: Sequence[Effect]) -> None:
        """Carry out the effects of the core, then apply the lease."""
        for effect in effects:
            try:
                self._carry_out(effect)
            except EnvironmentFault as error:
                log.error("the state of the group cannot be saved: %(error)s", {"error": error})
        self._heed_lease()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case todo.SendCommand():
                self._spawn(self._ask(effect))
            case todo.Tell():
                self._spawn(self._tell(effect))
            case todo.SaveTemp():
                self._save(partial(self._files.save_temp, effect.temp))
            case todo.DropTemp():
                self._save(self._files.drop_temp)
            case todo.SaveIdentity():
                self._save(partial(self._files.save_id, effect.broker_id))
                self.replication.node.own_id = effect.broker_id
                self._node.move_to(replace(self._node.group_position, own_id=effect.broker_id))
            case todo.SaveKnown():
                self._save(partial(self._files.save_known, effect.known))
            case todo.Fence():
                self._fence(effect.reason)
            case todo.SetCommitted():
                position = self._node.group_position
                self._node.move_to(
                    replace(position, members=effect.members, set_epoch=effect.set_epoch)
                )
                self.replication.set_committed(effect.members, effect.set_epoch)
            case todo.FloorChanged():
                log.info(
                    "minInSyncReplicas is %(minimum)d: the controllers recorded it",
                    {"minimum": effect.floor},
                )
                self._change_numbers()
            case todo.ReplicasTold():
                self.replication.replicas_told(effect.ids)
            case todo.UncleanRecorded():
                self._save(partial(self._files.save_boot, boot_id()))
            case todo.ProposalFailed():
                self.replication.proposal_failed(effect.proposal, refused=effect.refused)
            case todo.MembershipReport():
                log.log(logging.WARNING if effect.problem else logging.INFO, "%s", effect.text)
            case _:
                self._spawn(self._change_role(effect))

    def _save(self, write: Callable[[], None]) -> None:
        """Start writing in the background what must be remembered; writes keep their order."""
        self._saves += 1
        self._saved.clear()

        def done(error: EnvironmentFault | None) -> None:
            self._saves -= 1
            if not self._saves:
                self._saved.set()
            if error is not None:
                log.error("the state of the group cannot be saved: %(error)s", {"error": error})

        self._node.ports.write_in_background(write, done)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._stopped:
            work.close()
            return
        self._tasks.spawn(work)

    # Controllers -----------------------------------------------------------------------------

    def _hear(self, effects: Sequence[Effect]) -> None:
        """Carry out the effects of an answer or a notice; a broker that left the group ignores
        them."""
        if not self._stopped and not self._silent:
            self._run_effects(effects)

    async def _ask(self, ask: todo.SendCommand) -> None:
        if self._node.serving.role is Role.FENCED:
            await self._saved.wait()  # the identity is durable before a controller sees it
        try:
            answer = await self._peers.invoke(ask.address, ask.command, ask.timeout_ms)
        except NotReachable:
            lost = self._peers.find(ask.address) is None
            self._hear(self.core.failed(ask.tag, self._clock.now_ms(), lost=lost))
        else:
            self._hear(self.core.answered(ask.tag, answer, self._clock.now_ms()))

    async def _tell(self, tell: todo.Tell) -> None:
        with suppress(NotReachable):
            await self._peers.oneway(tell.address, tell.command)

    def _closed(self, address: str) -> None:
        self._hear(self.core.closed(address, self._clock.now_ms()))

    def _proposed(self, proposal: SetProposal) -> None:
        self._hear(self.core.propose(proposal, self._clock.now_ms()))

    def _stranger_called(self) -> None:
        self._hear(self.core.want_replicas(self._clock.now_ms()))

    async def _look_up(self, now: int) -> None:
        """Resolve the controllers' DNS name; every address of it is a controller."""
        self._dns_due_ms = now + DNS_PERIOD_MS
        host, port = parse_addr(self._options.controllers[0])
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port)
        except OSError as error:
            log.warning(
                "the controllers' name %(host)s cannot be looked up: %(error)s",
                {"host": host, "error": error},
            )
            self._dns_due_ms = now + DNS_RETRY_MS
            return
        addresses = sorted({format_addr(str(address[4][0]), port) for address in found})
        self.core.finder.use(addresses, now)

    # Roles -----------------------------------------------------------------------------------

    async def _change_role(self, switch: Switch) -> None:
        problem = ""
        try:
            async with self._role_lock:
                if isinstance(switch, BecomeMaster):
                    await self._lead(switch)
                else:
                    await self._follow(switch)
        except OurBug as error:
            log.exception("a change of role failed")
            problem = str(error)
        except EpochError as error:
            problem = str(error) or type(error).__name__
        except Exception as error:
            log.exception("a change of role failed")
            problem = f"{type(error).__name__}: {error}"
        now = self._clock.now_ms()
        self._hear(self.core.role_done(switch, now, ok=not problem, problem=problem))

    async def _lead(self, switch: BecomeMaster) -> None:
        self._following = None
        self.sync.stop()
        await self.replication.become_master(switch.epoch, switch.members, switch.set_epoch)
        self._node.serving.grant_lease(0)  # until the core grants it
        healed = self._switch.lead(switch, self._clock.wall_ms())
        if healed:
            log.warning(
                "topics that only the log still knew: %(topics)s", {"topics": ", ".join(healed)}
            )
        log.info(
            "master in epoch %(epoch)d with the sync-state set %(members)s",
            {"epoch": switch.epoch, "members": sorted(switch.members)},
        )

    async def _follow(self, switch: BecomeFollower) -> None:
        """Stop every other role at once; copy the log only after the metadata was copied (S15)."""
        self._following = switch
        await self._replicate(switch)
        self._switch.follow(switch)
        self.sync.follow(switch.master_address)
        log.info(
            "following broker %(master_id)d at %(master_address)s, epoch %(epoch)d",
            {
                "master_id": switch.master_id,
                "master_address": switch.master_address,
                "epoch": switch.epoch,
            },
        )

    async def _replicate(self, switch: BecomeFollower) -> None:
        copied = self.sync.core.ready and self.sync.core.master == switch.master_address
        address = switch.ha_address if copied else None
        await self.replication.become_follower(
            switch.epoch,
            switch.master_id,
            address,
            switch.learner,
            unclean_epoch=switch.unclean_epoch,
        )

    def _metadata_came(self) -> None:
        self._spawn(self._dial())

    async def _dial(self) -> None:
        """Start copying the log: the first copy of the metadata is complete."""
        async with self._role_lock:
            if self._following is not None:
                try:
                    await self._replicate(self._following)
                except EpochError as error:
                    log.warning("cannot follow: %(error)s", {"error": error})

    def _fence(self, reason: str) -> None:
        log.warning("fenced: %(reason)s", {"reason": reason})
        self._following = None
        self._switch.fence()
        self.replication.fence(reason)

    # The lease -------------------------------------------------------------------------------

    def _look_at_clocks(self, now: int) -> None:
        if self.core.look_at_clocks(now, self._clock.wall_ms()):
            self._end_lease_after_jump()

    def _end_lease_after_jump(self) -> None:
        if self.core.is_master and self._node.serving.lease_until_ms < FOREVER:
            self._node.serving.grant_lease(0)
            log.warning(
                "the wall clock ran ahead of the monotonic one: the machine stood still, or the"
                " clock was set; the controllers are asked for a new lease"
            )

    def _may_acknowledge(self, now: int) -> bool:
        """Return whether the lease runs at `now`.

        Both clocks are read, because `now` may be from before a pause. This runs several times for
        each send, so it calls few functions.
        """
        core, clock = self.core, self._clock
        read_at, wall = clock.now_ms(), clock.wall_ms()
        if core.jumps.look(read_at, wall):
            core.clocks_jumped(read_at)
            self._end_lease_after_jump()
        return now < core.lease.until_ms and core.is_master

    def _heed_lease(self) -> None:
        """Serve until the lease ends, or while the whole set has all messages; unfence replication
        when it may go on."""
        node = self._node
        if node.serving.role is not Role.MASTER:
            return
        node.serving.grant_lease(self.core.lease.until_ms if self.core.is_master else 0)
        now = self._clock.now_ms()
        leased, holds = self._may_acknowledge(now), node.serving.set_has_all(now)
        if leased or holds:
            master = self.replication.node.master
            if master is not None and master.fenced is not None:
                self.replication.unfence()
        if leased and node.serving.lease_until_ms == FOREVER:
            self._say(logging.INFO, "serving; these controllers give no leases")
        elif leased:
            self._say(logging.INFO, "serving under the controllers' lease")
        elif holds:
            self._say(
                logging.WARNING,
                "the controllers' lease is over; messages are taken while all of the set have them",
            )
        else:
            self._say(logging.WARNING, "the controllers' lease is over; nothing is served")

    def _say(self, level: int, text: str) -> None:
        """Log `text` when it differs from the last one."""
        if text != self._served:
            self._served = text
            log.log(level, "%s", text)

    # What handlers ask -----------------------------------------------------------------------

    def role_changed(self, now: int) -> None:
        self._hear(self.core.notified(now))

    def master_announced(self, master_address: str, ha_address: str, *, online: bool) -> None:
        if master_address and ha_address:
            now = self._clock.now_ms()
            self._hear(self.core.ha_address_found(master_address, ha_address, now))

    def master_returns(self, master_address: str, ha_address: str, *, hand_over: bool) -> bool:
        """Note a 906; return True, because no acting master exists where controllers elect. Anyone
        can send a master's address, so the master that the controllers named is asked directly."""
        self._ha_due_ms = 0
        return True

    def hint(self) -> None:
        """Do nothing: in controller mode the controllers name the master, not the smallest id."""

    @property
    def owes_progress(self) -> bool:
        return False

    @property
    def is_in_sync(self) -> bool:
        members = self.core.view.members
        return members is not None and self.core.broker_id in members

    @property
    def copy_problem(self) -> str:
        follower = self.replication.node.follower
        return (follower and follower.suspended) or ""

    def options_changed(self) -> None:
        """Apply changed options; a lower minInSyncReplicas applies once the controllers recorded
        it."""
        wanted = self._node.options.min_in_sync_replicas
        if wanted < self.core.floor.in_use:
            log.info(
                "minInSyncReplicas will be %(minimum)d once the controllers have recorded it",
                {"minimum": wanted},
            )
        if wanted != self.core.floor.wanted:
            self._hear(self.core.want_floor(wanted, self._clock.now_ms()))
        self._change_numbers()

    def _change_numbers(self) -> None:
        options = replace(self._node.options, min_in_sync_replicas=self.core.floor.in_use)
        replication = self.replication
        replication.change_options(changed_options(replication.node.options, options))
        if self._node.acks is not None:
            self._node.acks.waits = waits_for_replicas(options)

    async def _ask_ha_address(self, master: str) -> None:
        """Ask the master for its replication address; a Java controller does not send it."""
        command = request(RequestCode.EXCHANGE_BROKER_HA_INFO)
        with suppress(EpochError):
            answer = await self._brokers.invoke(master, command, HA_ASK_TIMEOUT_MS)
            found = decode_header(ExchangeHAInfoHeader, answer.ext)
            self.master_announced(master, found.masterHaAddress or "", online=True)

    def epochs(self) -> list[EpochEntryBody]:
        entries = self._epochs.entries
        last = len(entries) - 1
        return [
            EpochEntryBody(entry.epoch, entry.start, LONG_MAX if index == last else entry.end)
            for index, entry in enumerate(entries)
        ]

    def ha_status(self) -> HARuntimeInfo:
        return decode_body(HARuntimeInfo, encode_body(self.replication.ha_info()))

    def figures(self) -> dict[str, str]:
        left = self.core.lease.until_ms - self._clock.now_ms()
        leased = self._node.serving.is_master and self.core.lease.until_ms < FOREVER
        acks = self._node.acks
        view, pointers = self.core.view, self._node.store.pointers
        return {
            "epochmqSyncStateSet": ",".join(map(str, sorted(view.members or ()))),
            "epochmqSyncStateSetEpoch": str(view.set_epoch),
            "epochmqUnconfirmedBytes": str(pointers.appended - pointers.confirmed),
            "epochmqController": self.core.finder.active or "",
            "epochmqLeaseLeftMillis": str(max(0, left)) if leased else "",
            "epochmqHeldByWholeSet": str(self._node.serving.rights is HELD_MASTER).lower(),
            "epochmqMetadataCopied": str(self.sync.core.ready).lower(),
            "epochmqCutConfirmedBytes": str(
                self._node.store.statistics()["truncated_confirmed_bytes"]
            ),
            "epochmqRefusedAcks": str(0 if acks is None else acks.refused),
            **{f"epochmqReplication_{k}": str(v) for k, v in self.replication.statistics().items()},
        }

    def _log(self) -> LogState:
        store = self._node.store
        return LogState(max(self._epochs.last_epoch, 0), store.whole_end, store.pointers.confirmed)


def _log_failure(_task: asyncio.Task[Any], error: BaseException) -> None:
    log.error("membership failed", exc_info=error)
