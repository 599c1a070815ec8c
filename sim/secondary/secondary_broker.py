"""A simulated broker with delayed messages, timers, transactions and POP (`BrokerContext`).

Delay levels, exact times, transactions and POP, with their handlers, roles, tables and the copying
of tables, are the product's code. This module does on the event heap, in the same order, what
`broker/server/broker_server.py`, `broker/server/broker_sink.py` and
`group/controller_mode_member.py` do on the loop.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from epochmq.base.errors import EnvironmentFault, Refused
from epochmq.broker.consume.client_tables import ClientMember as Producer
from epochmq.broker.context.broker_context import BrokerContext, BrokerPorts
from epochmq.broker.delay.delay_schedule import DelayOffsets, Schedule
from epochmq.broker.delay.delayed import delay
from epochmq.broker.delay.delivery import Delivery
from epochmq.broker.delay.timed import deliver_wall
from epochmq.broker.delay.timer_service import TimerService
from epochmq.broker.group.membership_effects import BecomeFollower, BecomeMaster, Effect, Switch
from epochmq.broker.group.metadata_sync import FetchTable, ReplicaSync
from epochmq.broker.group.replicated_tables import Tables
from epochmq.broker.group.role_switch import RoleSwitch
from epochmq.broker.produce.send_special import half_message, timed_draft
from epochmq.broker.requests.client_handlers import session_closed
from epochmq.broker.requests.pop_handler import PopHandler
from epochmq.broker.requests.pull_handler import PullHandler
from epochmq.broker.requests.request_routing import ROWS, check_role
from epochmq.broker.requests.request_table import REQUEST_TABLE
from epochmq.broker.serving.acknowledgement import PendingAcks
from epochmq.broker.serving.roles import Role
from epochmq.broker.state.keeper import Done, write_here
from epochmq.broker.state.saved_files import SavedFile, load_table
from epochmq.broker.state.topic_table import Wishes, system_topics
from epochmq.model import properties as props
from epochmq.model.names import TIMER_TOPIC
from epochmq.model.property_names import TIMER_DEL_UNIQKEY
from epochmq.model.topic import PERM_READ_WRITE, TopicConfig
from epochmq.replication.ack_policy import AckStatus
from epochmq.replication.replication_node import ReplicationNode
from epochmq.store.draft import Draft
from epochmq.store.epochs import epoch_before
from epochmq.store.timer.wheel import SLOT_BYTES
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, Reply
from sim.controller.member import CLUSTER, GROUP
from sim.group.brokers import REFUSED, Broker
from sim.kernel.host import Host, HostClocks
from sim.kernel.rpc import Session
from sim.kernel.workload import QUEUES, TOPICS
from sim.kernel.world import MS
from sim.secondary.secondary_parts import Saver, Watched, WatchedSession, watch_pops

if TYPE_CHECKING:
    from sim.secondary.secondary_world import SecondaryHistory

PORT = 10911
PRODUCERS = "PG"
SAVE_MS = 200
DIAL_AGAIN_MS = 10
COPY_TIMEOUT_US = 500 * MS
WHEEL_SLOTS = 256
_HOT = (
    RequestCode.SEND_MESSAGE,
    RequestCode.PULL_MESSAGE,
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED,
)


class SecondaryBroker(Broker):
    """One process of a broker of the group."""

    history: "SecondaryHistory"
    copy_timeout_us = COPY_TIMEOUT_US

    def furnish(self, host: Host) -> None:
        history = self.history
        self.later: list[Callable[[], None]] = []
        self.owned = owned = BrokerContext(
            history.options,
            clock=HostClocks(host),
            disk=host.disk,
            store=self.store,
            port=PORT,
            ports=BrokerPorts(soon=self.later.append, write_in_background=self._write_metadata),
        )
        owned.address = history.cluster.address_of(host.name)
        owned.acks = PendingAcks(_Replicas(self, host), lambda: owned.serving.rights, waits=True)
        owned.serving.trust_set(self.holds)
        self.watched = Watched(self, owned.internal_writer.route)
        owned.internal_writer.route = self.watched
        self._own_levels(owned)
        self.pulls, self.pops = PullHandler(owned), PopHandler(owned)
        self.saver = Saver(host, self.shell.latency)
        self.sync = ReplicaSync(Tables(owned), history.options.slave_metadata_period)
        self.swaps = 0
        self.roles = RoleSwitch(owned, self._role_changed)
        self.save_at = host.now + SAVE_MS
        owned.keeper.load()
        for table in self._tables():
            load_table(host.disk, table)
        owned.topics.add_system(_topics(history.options.revive_queue_num))
        self._open_timer(owned, host)
        owned.pop.orders.begin(host.now, host.wall)
        owned.serving.change_role(Role.FENCED)
        watch_pops(self)
        history.alter(self)

    def _own_levels(self, owned: BrokerContext) -> None:
        """Set the history's own delay levels; options only allow whole seconds."""
        owned.schedule = Schedule(self.history.delays_ms)
        owned.delivery = Delivery(owned.schedule, self.store, owned.internal_writer)
        owned.delay_offsets = DelayOffsets(owned.schedule, version_step=1)

    def _open_timer(self, owned: BrokerContext, host: Host) -> None:
        pointers = self.store.pointers
        owned.timer = TimerService(
            host.disk,
            self.store,
            owned.internal_writer,
            lambda: owned.options,
            lambda: (pointers.start, pointers.appended),
            wheel_bytes=WHEEL_SLOTS * SLOT_BYTES,
            epoch_at=lambda offset: epoch_before(self.epochs.entries, offset),
        )
        owned.timer.open()

    @property
    def timer(self) -> TimerService:
        timer = self.owned.timer
        assert timer is not None
        return timer

    @property
    def tenure(self) -> tuple[str, int, int]:
        """Return a key for this process's time in one role, for which it keeps state in memory."""
        return self.host.name, self.host.incarnation, self.swaps

    def state_line(self) -> str:
        owned = self.owned
        return (
            f"{super().state_line()} | {owned.serving.role.name} delivers {owned.serving.delivers}"
            f" levels {owned.schedule.progress()} timer {self.timer.driver.statistics()}"
            f" transactions {owned.transactions.statistics()} pop {owned.pop.statistics()}"
        )

    # Time ---------------------------------------------------------------------------------------

    def wake(self, now: int) -> int | None:
        super().wake(now)
        owned, wall = self.owned, self.host.wall
        self._copy_tables(now)
        self.roles.earlier_confirmed()
        if owned.serving.delivers:
            owned.delivery.tick(wall)
        owned.transactions.tick(now, wall)
        self.timer.tick(wall, delivers=owned.serving.delivers, rests=owned.serving.rests)
        owned.pop.tick(now, wall, delivers=owned.serving.delivers)
        owned.pending_writes.tick(now)
        self.pops.tick(now)
        if now >= self.save_at:
            self.save_at = now + SAVE_MS
            self._save_tables()
        self._turn_ends()
        return self.next_deadline()

    def next_deadline(self) -> int | None:
        now, wall, owned = self.host.now, self.host.wall, self.owned
        walls = [self.timer.next_deadline(wall)]
        if owned.serving.delivers:
            walls.append(owned.delivery.next_deadline())
        wanted = [
            super().next_deadline(),
            self.save_at,
            self.sync.next_deadline(),
            owned.transactions.next_deadline(now),
            owned.pop.next_deadline(now),
            owned.pending_writes.next_deadline(),
            *(now + due - wall for due in walls if due is not None),
        ]
        return max(now + 1, min(at for at in wanted if at is not None))

    def _turn_ends(self) -> None:
        owned, now, wall = self.owned, self.host.now, self.host.wall
        owned.transactions.flush(now, wall)
        self.pulls.run_woken()
        owned.pop.write_acks(wall)
        owned.announce()
        owned.keeper.save(now, wall)
        later, self.later[:] = self.later[:], []
        for call in later:
            self.world.after(0, "soon", partial(self._run, call), self.host)
        self.settle()

    def _run(self, call: Callable[[], None]) -> None:
        call()
        self._turn_ends()

    # Tables -------------------------------------------------------------------------------------

    def _tables(self):  # type: ignore[no-untyped-def]
        owned = self.owned
        return (
            owned.offsets,
            owned.delay_offsets,
            owned.request_modes,
            owned.pop.orders,
        )

    def _write_metadata(self, call: Callable[[], None], done: Done) -> None:
        def saved(error: EnvironmentFault | None) -> None:
            if error is not None:
                self.world.mark("metadata.unsaved")
            done(error)

        write_here(call, saved)

    def _save_tables(self) -> None:
        """Save tables as the service does: progress after a sync of the log."""
        if self.store.fenced is not None:
            return
        owned, wall, store = self.owned, self.host.wall, self.store
        self._save_when_synced(owned.offsets)
        self.saver.save(owned.pop.orders)
        owned.delay_offsets.step_version(wall)
        self._save_when_synced(owned.delay_offsets)
        end = store.pointers.appended
        try:
            self.timer.save(wall, self.saver, lambda done: store.when_synced(end, done))
        except EnvironmentFault:
            self.world.mark("timer.unsaved")

    def _save_when_synced(self, table: SavedFile) -> None:
        write = self.saver.snapshot(table)
        if write is not None:
            save = write
            end = self.store.pointers.appended
            self.store.when_synced(end, lambda ok: save() if ok else None)

    def _copy_tables(self, now: int) -> None:
        """As follower, request changed tables from the master."""
        for fetch in self.sync.due(now):
            self._ask_table(fetch)

    def _ask_table(self, fetch: FetchTable) -> None:
        def answered(answer: Command) -> None:
            self.sync.answered(fetch, answer, self.host.now)

        def failed(_lost: bool) -> None:
            self.sync.failed(fetch, "no answer", self.host.now)

        name = self.cluster.host_at(fetch.address)
        self.rpc.call(name, fetch.command, self.copy_timeout_us, answered, failed)

    def _dial(self) -> None:
        """Follow the master's log after the metadata has been copied (S15)."""
        role = self.membership.role
        if isinstance(role, BecomeFollower) and not self.sync.ready:
            self.dial_at = self.host.now + DIAL_AGAIN_MS
            return
        super()._dial()

    # Roles --------------------------------------------------------------------------------------

    def perform(self, effects: list[Effect]) -> None:
        super().perform(effects)
        owned = self.owned
        if owned.serving.role is Role.MASTER:
            lease = self.membership.lease
            owned.serving.grant_lease(lease.until_ms if self.membership.is_master else 0)

    def become(self, switch: Switch, done: Callable[[Exception | None], None]) -> None:
        own_id = self.membership.broker_id or 0
        self.owned.move_to(replace(self.owned.group_position, own_id=own_id))
        if isinstance(switch, BecomeMaster):
            self.sync.stop()
            super().become(switch, done)
            return

        def followed(error: Exception | None) -> None:
            if error is None:
                self.roles.follow(switch)
                self.sync.follow(switch.master_address, self.host.now)
            done(error)

        super().become(switch, followed)

    def _began(self, switch: BecomeMaster, done: Callable[[Exception | None], None]) -> None:
        self.owned.serving.grant_lease(0)
        self.roles.lead(switch, self.host.wall)
        super()._began(switch, done)

    def fenced(self, reason: str) -> None:
        super().fenced(reason)
        self.roles.fence()

    def set_committed(self, members: frozenset[int], set_epoch: int) -> None:
        super().set_committed(members, set_epoch)
        position = self.owned.group_position
        self.owned.move_to(replace(position, members=members, set_epoch=set_epoch))

    def _role_changed(self) -> None:
        self.swaps += 1
        self.pops.answer_all(self.host.now)

    def _send_log(self, node: ReplicationNode) -> None:
        if self.host.name not in self.history.clogged:
            super()._send_log(node)

    # Requests -----------------------------------------------------------------------------------

    def request(self, command: Command, session: Session) -> None:
        if command.code in _HOT:
            super().request(command, session)
        elif command.code == RequestCode.HEART_BEAT:
            member = Producer(session, session.peer, "", 0, self.host.now)  # type: ignore[arg-type]
            self.owned.producers.heartbeat(PRODUCERS, member)
            session.answer(command, Reply())
        else:
            self._by_table(command, WatchedSession(self, session))
        self._turn_ends()

    def _by_table(self, command: Command, session: WatchedSession) -> None:
        code, now = command.code, self.host.now
        self.world.tell("asked", command)
        try:
            check_role(self.owned, ROWS[RequestCode(code)])
            if code == RequestCode.POP_MESSAGE:
                reply = self.pops.handle_pop(command, session, now)  # type: ignore[arg-type]
            else:
                serve = REQUEST_TABLE[code]
                reply = serve(self.owned, command, session, now)  # type: ignore[arg-type]
        except Refused as error:
            reply = Reply(error.code, error.remark)
        if isinstance(reply, Reply):
            session.answer(command, reply)

    def session_closed(self, session: Session) -> None:
        self.owned.long_poll.drop(session.id)
        self.owned.pop.polls.polls.drop(session.id)
        self.owned.watchers.drop(session.id)
        session_closed(self.owned, session)  # type: ignore[arg-type]

    def _send(self, command: Command, session: Session) -> None:
        try:
            super()._send(command, session)
        except Refused:
            session.answer(command, Reply(REFUSED))

    def draft(self, command: Command, number: int) -> Draft:
        ext = command.ext or {}
        draft, owned, key = super().draft(command, number), self.owned, f"k{number}"
        more = f"UNIQ_KEY\x01{key}\x02{ext.get('properties', '')}".encode()
        draft = msgspec.structs.replace(
            draft,
            properties=draft.properties + more,
            keys=(key, key),
            born_wall_ms=int(ext.get("born", "0")),
        )
        level = int(ext.get("level", "0"))
        if level:
            draft = msgspec.structs.replace(
                draft, properties=draft.properties + f"DELAY\x01{level}\x02".encode()
            )
            self.world.tell("delayed", self, number, owned.schedule.delay_ms(level))
            return delay(draft, level)
        if "half" in ext:
            self.world.tell("half", self, number)
            return half_message(owned, draft, PRODUCERS)
        if "timer" in ext:
            return self._timed(draft, number)
        return draft

    def _timed(self, draft: Draft, number: int) -> Draft:
        properties = props.decode_bytes(draft.properties)
        found = timed_draft(self.owned, draft)
        due = deliver_wall(properties, self.host.wall)
        assert due is not None
        if found.topic == TIMER_TOPIC:
            cancels = properties.get(TIMER_DEL_UNIQKEY, "")
            self.world.tell("timed", self, number, due, cancels)
        return found


class _Replicas:
    """Implements what `PendingAcks` uses of replication, for the current role."""

    def __init__(self, broker: SecondaryBroker, host: Host) -> None:
        self._broker = broker
        self._host = host

    def refusal(self) -> AckStatus | None:
        node = self._broker.node
        return AckStatus.FENCED if node is None else node.refusal(self._host.now)

    def when_acked(self, offset: int, until_ms: int, done: Callable[[AckStatus], None]) -> None:
        node = self._broker.node
        if node is None:
            done(AckStatus.FENCED)
        else:
            node.when_acked(offset, until_ms, done, self._host.now)

    def appended(self) -> None:
        if self._broker.node is not None:
            self._broker.node.appended(self._host.now)


def _topics(revive_queues: int) -> list[TopicConfig]:
    wishes = Wishes(CLUSTER, GROUP, revive_queues=revive_queues, timer=True)
    own = [
        TopicConfig(
            topic_name=name, read_queue_nums=QUEUES, write_queue_nums=QUEUES, perm=PERM_READ_WRITE
        )
        for name in TOPICS
    ]
    return [*system_topics(wishes), *own]
