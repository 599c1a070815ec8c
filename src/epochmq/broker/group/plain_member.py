"""Runs a broker's part in a group without controllers: serve slaves, or copy a master.

A slave learns the master's address from the name servers, in the answers to its registrations;
until then it registers again and again. Metadata and log are copied side by side, as in RocketMQ,
because no slave is elected here. With enableSlaveActingMaster a slave becomes acting master when
the master is gone (`acting_master.py`): the same log, other rights. With totalReplicas above 1 as
well, a broker starts in the role PRE_ONLINE and goes online by `pre_online.py`.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from epochmq.base.errors import EnvironmentFault, EpochError
from epochmq.base.ports import Blocking
from epochmq.base.task_set import TaskSet
from epochmq.base.unbounded import FOREVER
from epochmq.broker.config.broker_peers import broker_peers
from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.group.acting_master import Act, Cease, FetchProgress, Return
from epochmq.broker.group.acting_progress import ActingProgressFetch, OffsetsAfterOnline
from epochmq.broker.group.acting_service import ActingService
from epochmq.broker.group.member_options import (
    changed_options,
    replication_options,
    replication_sockets,
    waits_for_replicas,
)
from epochmq.broker.group.metadata_sync import ReplicaSync
from epochmq.broker.group.metadata_sync_service import ReplicaSyncService
from epochmq.broker.group.name_servers_view import NameServersVerdict
from epochmq.broker.group.pre_online_peers import LogsAsked
from epochmq.broker.group.pre_online_service import PreOnlineService
from epochmq.broker.group.replicated_tables import Tables
from epochmq.broker.serving.acknowledgement import PendingAcks
from epochmq.broker.serving.group_position import GroupPosition
from epochmq.broker.serving.roles import Role
from epochmq.replication.plain.plain_service import PlainReplication
from epochmq.wire.bodies.body import decode_body, encode_body
from epochmq.wire.bodies.controller_bodies import EpochEntryBody, HARuntimeInfo

# Slave peers ---------------------------------------------------------------------------------
# Compares a slave's log with its master's on every new link, and stops copying when they differ.
#
# RocketMQ's slave connects to such a master again and again without a report, or appends to a log
# that has other contents (H9).


LOOK_MS = 1_000
"""The shortest time between two comparisons, in ms."""
AGAIN_MS = 15_000
"""The time between two comparisons of logs that do not fit, in ms; an operator has to act."""

log = logging.getLogger(__name__)


class LogWatch:
    """Watches the log of one slave; ticked by its member."""

    def __init__(self, node: BrokerContext, replication: PlainReplication, logs: LogsAsked) -> None:
        self._node = node
        self._replication = replication
        self._logs = logs
        self.trouble = ""
        """Why the logs do not fit; empty while no difference is known."""
        self._seen = -1
        self._end = 0
        """Where the log ended when there was no link; later bytes came from the master."""
        self._due_ms = 0
        self._task: asyncio.Task[None] | None = None

    def tick(self, now: int, master: str, ha_address: str) -> None:
        """Compare the logs if the link is not the one that was checked last."""
        slave = self._replication.node.follower
        if slave is None:
            return
        self._note_end()
        busy = self._task is not None and not self._task.done()
        if busy or not master or now < self._due_ms:
            return
        if self.trouble or slave.session != self._seen:
            self._seen = slave.session
            work = self._look_again(master, ha_address)
            self._task = asyncio.get_running_loop().create_task(work)

    async def stop(self) -> None:
        """Cancel the open comparison."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def look(self, master: str) -> None:
        """Compare with the log of the broker at `master`, and log a new difference once."""
        self._note_end()
        try:
            trouble = await self._logs.compare(master, own_is_master=False, own_end=self._end)
        except EpochError as error:
            log.debug(
                "the log of %(master)s cannot be read: %(error)s",
                {"master": master, "error": error},
            )
            self._seen = -1
            self._due_ms = self._node.clock.now_ms() + LOOK_MS
            return
        if trouble and not self.trouble:
            log.error("not copying: %(trouble)s", {"trouble": trouble})
        self.trouble = trouble
        self._due_ms = self._node.clock.now_ms() + (AGAIN_MS if trouble else LOOK_MS)

    def _note_end(self) -> None:
        if not self._replication.node.established:
            self._end = self._node.store.whole_end

    async def _look_again(self, master: str, ha_address: str) -> None:
        before = self.trouble
        await self.look(master)
        if self.trouble:
            await self._replication.become_slave(None)
        elif before:
            log.info("the log agrees with the log of %(master)s again", {"master": master})
            await self._replication.become_slave(ha_address or None)


# Plain member --------------------------------------------------------------------------------


ASK_AGAIN_MS = 2_000
"""How often a slave asks name servers for a master that they did not know, in ms."""
STILL_ACTS_PERIODS = 3
"""A slave that does not confirm its step-down notices the master within this many poll periods."""


class PlainMember:
    """A broker's membership without controllers; it is the `GroupStatus` of the handlers.

    `ask` registers at all name servers, to read the answer or because the role changed; `again`
    registers at one name server that does not know this broker.
    """

    def __init__(
        self,
        node: BrokerContext,
        ask: Callable[[], None],
        again: Callable[[str], None],
        *,
        blocking: Blocking,
        port_is_chosen: bool,
    ) -> None:
        options = node.options
        self._node = node
        self._ask = ask
        self._port_is_chosen = port_is_chosen
        self._is_slave = options.broker_role == "SLAVE"
        self.replication = PlainReplication(
            node.store,
            replication_options(options, upgraded=False),
            node.clock,
            on_trouble=lambda text: log.error("%(text)s", {"text": text}),
            sockets=replication_sockets(options),
            blocking=blocking,
            cold_reads=node.cold_reads,
        )
        self._brokers = broker_peers(options, on_close=self._hung_up)
        self.sync = ReplicaSyncService(
            ReplicaSync(Tables(node), options.slave_metadata_period),
            self._brokers,
            node.clock,
            self._copied,
        )
        self._ha_address = options.ha_master_address
        self._ask_due_ms = node.clock.now_ms() + ASK_AGAIN_MS
        self._named_master: str | None = None
        self._tasks = TaskSet()
        self._stopped = False
        self.acting: ActingService | None = None
        """Sends heartbeats and knows the group's members; None without enableSlaveActingMaster."""
        if options.enable_slave_acting_master:
            self.acting = ActingService(node, again, self._change)
            self.replication.node.count_alive(options.total_replicas)
        self.pre_online: PreOnlineService | None = None
        """The return into the group, also when it is finished; None when the options need none."""
        if uses_pre_online(options):
            self.pre_online = PreOnlineService(node, self, self._brokers)
        self._offsets_after_online = OffsetsAfterOnline(node, self._brokers)
        self._acting_progress = ActingProgressFetch(node, self._brokers)
        self._services_at_ms: int | None = None
        self.log_watch = LogWatch(node, self.replication, LogsAsked(node, self._brokers))
        acks: PendingAcks | None = None
        if not self._is_slave:
            waits = waits_for_replicas(options)
            acks = PendingAcks(self.replication, lambda: node.serving.rights, waits=waits)
        node.join_group(self, GroupPosition(own_id=options.broker_id), acks)
        if self.pre_online is not None:
            node.serving.change_role(Role.PRE_ONLINE)
        elif self._is_slave:
            node.serving.change_role(Role.SLAVE)

    async def start(self) -> None:
        """Take the role that the options give.

        A replication port that nobody configured may be in use: a broker without slaves does not
        need it.
        """
        options = self._node.options
        try:
            await self.replication.start(
                options.ha_bind_address or options.bind_address, options.ha_listen_port
            )
        except EnvironmentFault as error:
            if self._port_is_chosen:
                raise
            log.warning("slaves cannot copy from this broker: %(error)s", {"error": error})
        if self._is_slave:
            await self.replication.become_slave(self._ha_address or None)
        else:
            await self.replication.become_master(sync=options.broker_role == "SYNC_MASTER")

    async def stop(self) -> None:
        self._stopped = True
        if self.pre_online is not None:
            await self.pre_online.stop()
        await self._offsets_after_online.stop()
        await self._acting_progress.stop()
        await self.log_watch.stop()
        await self._tasks.close()
        if self.acting is not None:
            await self.acting.stop()
        await self.sync.close()
        await self.replication.stop()
        await self._brokers.close()

    def tick(self, now: int) -> None:
        self.sync.tick(now)
        if self.acting is not None:
            self.acting.core.linked = self.links_near() > 0
            self.acting.tick(now)
            self.acting.end_debt()
            self._count_members(self.acting)
        if self.pre_online is not None:
            self.pre_online.tick(now)
        if self._services_at_ms is not None and now >= self._services_at_ms:
            self._services_at_ms = None
            self._node.serving.deliver_from(None)
            self._node.schedule.look_again()
        if self._node.serving.role is Role.SLAVE:
            self.log_watch.tick(now, self._node.group_position.master_address, self._ha_address)
        if self._misses_master() and now >= self._ask_due_ms:
            self._ask_due_ms = now + ASK_AGAIN_MS
            self._ask()

    def _count_members(self, acting: ActingService) -> None:
        """Set the number of living members for acknowledgements; silent name servers change
        nothing."""
        view = acting.core.view
        if view.members():
            self.replication.node.count_alive(1 + len(view.others()))

    def _misses_master(self) -> bool:
        """Return whether a registration's answer may name a master that this slave does not follow
        yet."""
        if self._node.serving.role is not Role.SLAVE:
            return False
        followed = self._node.group_position.master_address
        named = None if self.acting is None else self.acting.core.view.members().get(0)
        if named != self._named_master:
            self._named_master = named
            self._ask_due_ms = 0  # a new master: ask at once
        return not followed or (named is not None and named != followed)

    def next_deadline(self) -> int:
        acting = FOREVER if self.acting is None else self.acting.next_deadline()
        back = None if self.pre_online is None else self.pre_online.core.next_deadline()
        wanted = (acting, back, self.sync.core.next_deadline(), self._services_at_ms)
        return min(at for at in wanted if at is not None)

    # Acting master ---------------------------------------------------------------------------

    def step_down(self, why: str) -> None:
        """Stop acting before this returns, and do not act again for a while (H4).

        For the hand-over to a returning master: call it before the 906 is answered. The master's
        tables are not copied before a name server lists it as online.
        """
        if self.acting is not None:
            self.acting.step_down(why)

    def _change(self, change: Act | Cease | Return | FetchProgress) -> None:
        """Carry out a role change; the drivers see the new role at their next tick."""
        node = self._node
        if isinstance(change, FetchProgress):
            if self.acting is not None:
                self._acting_progress.fetch(change.addresses, self.acting.took)
            return
        if isinstance(change, Return):
            if node.serving.role is not Role.MASTER:
                return
            if self.pre_online is None:
                self._offsets_after_online.begin(change.address)
                return
            self.pre_online = PreOnlineService(node, self, self._brokers)
            node.serving.change_role(Role.PRE_ONLINE)
            log.warning(
                "not online any more: %(why)s; what a slave did is taken back", {"why": change.why}
            )
        elif isinstance(change, Cease):
            node.transactions.hand_over(node.clock.now_ms(), node.clock.wall_ms())
            node.serving.change_role(Role.SLAVE)
            log.warning("not acting master any more: %(why)s", {"why": change.why})
        else:
            self.sync.stop()
            node.move_to(replace(node.group_position, master_address=""))
            if self.acting is not None:
                self.acting.begin_debt()
            node.serving.change_role(Role.ACTING_MASTER)
            self._begin_progress()
            node.delivery.clamp()
            node.schedule.look_again()
            log.warning("acting master now: %(why)s", {"why": change.why})
        self._ask()

    def _begin_progress(self) -> None:
        """Mark the progress made here as newer than the returning master's: a Java master compares
        the versions."""
        node, wall = self._node, self._node.clock.wall_ms()
        for table in (node.offsets, node.delay_offsets):
            table.version, table.dirty = table.version.leading(wall), True
        if node.timer is not None:
            progress = node.timer.progress
            progress.version, progress.dirty = progress.version.leading(wall), True

    # Pre-online ------------------------------------------------------------------------------

    def group(self, now: int) -> tuple[NameServersVerdict, Mapping[int, str]]:
        """Return the name servers' verdict and the other members; without name servers there are
        none."""
        if self.acting is None:
            return NameServersVerdict.ALONE, {}
        view = self.acting.core.view
        return view.verdict(now), view.others()

    def asked_ms(self, now: int) -> int:
        return now if self.acting is None else self.acting.core.view.asked_ms(now)

    def ask_again(self) -> None:
        self.hint()

    def unheard(self, now: int) -> str:
        return "" if self.acting is None else self.acting.core.view.waits_for(now)

    def links_near(self) -> int:
        """Return how many slaves copy and lag little, as counted for acknowledgements."""
        master = self.replication.node.master
        return 0 if master is None else master.near

    def copying(self) -> tuple[int | None, str]:
        """Return what a slave still lacks of its master, and why; (0, "") for nothing.

        A slave that owes progress copies the tables only after the master fetched that progress;
        the master can do that only once name servers list this slave.
        """
        if not self.replication.node.established:
            return None, "no replication link yet"
        if self.owes_progress:
            return 0, ""
        figures, problem = self.sync.core.statistics(), self.sync.core.problem
        missing = figures["tables"] - figures["came"]
        if not self.sync.core.ready:
            return missing, problem or f"{missing} tables are missing"
        return 0, ""

    def go_online(self, *, hold_services: bool) -> None:
        """Take the configured role and register; delivery waits while a slave may still be
        acting."""
        node = self._node
        if hold_services:
            node.serving.deliver_from(node.store.pointers.appended)
            wait_ms = STILL_ACTS_PERIODS * node.options.sync_broker_member_group_period
            self._services_at_ms = node.clock.now_ms() + wait_ms
        node.serving.change_role(Role.SLAVE if self._is_slave else Role.MASTER)
        node.delivery.clamp()
        node.schedule.look_again()
        self._ask()

    def master_returns(self, master_address: str, ha_address: str, *, hand_over: bool) -> bool:
        """Handle a 906 of a returning master; return whether this broker is not acting master.

        After the hand-over nothing changes the tables here before the master is online, so the
        master gets all of the progress.
        """
        if hand_over:
            self.step_down(f"the master at {master_address} is back")
            self.sync.drop_open_questions()
        self.master_announced(master_address, ha_address, online=False)
        return self._node.serving.role is not Role.ACTING_MASTER

    @property
    def owes_progress(self) -> bool:
        acting = self.acting
        return acting is not None and (acting.core.acting or acting.core.owes)

    @property
    def is_in_sync(self) -> bool:
        return True

    @property
    def copy_problem(self) -> str:
        return self.log_watch.trouble if self._is_slave else ""

    def options_changed(self) -> None:
        options, replication = self._node.options, self.replication
        replication.change_options(changed_options(replication.node.options, options))
        if self._node.acks is not None:
            self._node.acks.waits = waits_for_replicas(options)

    def _copied(self) -> None:
        if self.acting is not None:
            self.acting.copied()

    def _hung_up(self, address: str) -> None:
        """Poll the name servers: the connection to the master broke, so the master may be gone."""
        if not self._stopped:
            self.hint()

    def hint(self) -> None:
        if self.acting is not None:
            self.acting.poll_soon()

    # Events from handlers and registrations --------------------------------------------------

    def master_announced(self, master_address: str, ha_address: str, *, online: bool) -> None:
        """Note where the master is; a configured `haMasterAddress` overrides `ha_address`."""
        if not self._is_slave or self._stopped:
            return
        follows = not self.owes_progress and (online or self.acting is None)
        if master_address and follows:
            position = replace(self._node.group_position, master_address=master_address)
            self._node.move_to(position)
            self.sync.follow(master_address)
        if ha_address and not self._node.options.ha_master_address:
            if ha_address != self._ha_address:
                log.info(
                    "copying the log of the master at %(ha_address)s", {"ha_address": ha_address}
                )
            self._ha_address = ha_address
            self._tasks.spawn(self._copy_from(ha_address))

    async def _copy_from(self, ha_address: str) -> None:
        """Compare with a new master's log before copying its first byte."""
        master = self._node.group_position.master_address
        if master and not self.replication.node.established:
            await self.log_watch.look(master)
        if not self.log_watch.trouble:
            await self.replication.become_slave(ha_address)

    def role_changed(self, now: int) -> None:
        """Do nothing: roles are configured here, not given by controllers."""

    def epochs(self) -> list[EpochEntryBody]:
        return []

    def ha_status(self) -> HARuntimeInfo:
        return decode_body(HARuntimeInfo, encode_body(self.replication.ha_info()))

    def figures(self) -> dict[str, str]:
        table = {"epochmqMetadataCopied": str(self.sync.core.ready).lower()}
        if self.acting is not None:
            table |= self.acting.figures()
        if self.pre_online is not None:
            table["epochmqPreOnline"] = self.pre_online.state
        if self._is_slave:
            table["epochmqLogTrouble"] = self.log_watch.trouble
        return table


def uses_pre_online(options: BrokerOptions) -> bool:
    """Return whether the broker fetches the group's progress before it goes online (pre-online)."""
    several = options.enable_slave_acting_master and options.total_replicas > 1
    return several and not options.skip_pre_online
