"""The context of one broker: all its tables and services, as attributes for the handlers."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, ParamSpec, Protocol, TypeVar

from epochmq.auth.access_control import AccessControl
from epochmq.auth.accounts import Account, AccountTable, Cipher
from epochmq.auth.audit_log import AuditLog
from epochmq.auth.server_keys import initial_user
from epochmq.base import limits
from epochmq.base.ports import Clock, Disk
from epochmq.broker.config.auth_keys import access_rules
from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.config.store_keys import store_options
from epochmq.broker.consume.client_tables import ConsumerManager, ProducerManager
from epochmq.broker.consume.consumer_filters import ConsumerFilters
from epochmq.broker.consume.consumer_offsets import ConsumerOffsets
from epochmq.broker.consume.key_searches import KeySearches
from epochmq.broker.consume.long_polling import LongPoll, PullRequest
from epochmq.broker.consume.queue_locks import LIFE_MS, VOTE_LIFE_MS, QueueLocks
from epochmq.broker.consume.route_book import Waiter
from epochmq.broker.delay.delay_schedule import DelayOffsets, Schedule
from epochmq.broker.delay.delivery import Delivery
from epochmq.broker.delay.timer_service import TimerService
from epochmq.broker.internal_writes.internal_writer import InternalWriter, OwnLogRoute, Route
from epochmq.broker.internal_writes.role_route import RoleRoute
from epochmq.broker.pop.broker_pop_state import PopState
from epochmq.broker.pop.revive_driver import FetchFromGroup
from epochmq.broker.serving.acknowledgement import PendingAcks, ReplyGroup
from epochmq.broker.serving.group_position import GroupPosition, GroupStatus
from epochmq.broker.serving.roles import ROLES, Role
from epochmq.broker.serving.serving_state import Serving
from epochmq.broker.state.acl_files import AclFiles
from epochmq.broker.state.broker_stats import Stats
from epochmq.broker.state.compare_digests import Differences
from epochmq.broker.state.groups import GroupTable
from epochmq.broker.state.keeper import MetadataKeeper, WriteInBackground, write_here
from epochmq.broker.state.metadata_journal import TableJournal
from epochmq.broker.state.request_modes import RequestModes
from epochmq.broker.state.request_times import RequestTimes
from epochmq.broker.state.stamps import Watchers
from epochmq.broker.state.topic_table import TopicTable
from epochmq.broker.transaction.ending import Answer
from epochmq.broker.transaction.transaction_context import EndElsewhere
from epochmq.broker.transaction.transaction_service import TransactionService
from epochmq.model import delay_levels
from epochmq.model.host import format_addr, pack
from epochmq.model.message_id import UniqIds
from epochmq.model.topic import MessageQueue
from epochmq.store.cold_reads import ColdReads
from epochmq.store.epochs import epoch_before
from epochmq.store.store import Store
from epochmq.store.visibility import Arrivals
from epochmq.wire.bodies.group_bodies import LockBatchRequest
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Reply
from epochmq.wire.headers.fast_headers import AnyEnd
from epochmq.wire.session import Session

log = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")


class GroupVotes(Protocol):
    """Queue locks of strict mode, which need votes of the group's other members."""

    def lock(
        self,
        wanted: LockBatchRequest,
        queues: Sequence[MessageQueue],
        done: Callable[[Reply], None],
    ) -> None: ...

    def unlock(self, wanted: LockBatchRequest) -> None: ...


class OtherMasters(Route, Protocol):
    """Masters of other broker groups, to which this broker forwards what it may not write."""

    def figures(self, now: int) -> dict[str, str]:
        """Return figures of what is being forwarded, with keys of GET_BROKER_RUNTIME_INFO."""
        ...

    def choose_pin(self, topic: str) -> int | None:
        """Return the revive queue number of the master that gets the check points of `topic`."""
        ...

    @property
    def end_elsewhere(self) -> EndElsewhere:
        """The function that ends a transaction whose half message another master has."""
        ...


class RunInBackground(Protocol):
    """Type of a function that runs a long call outside the event loop's thread."""

    def __call__(self, call: Callable[[], T], done: Callable[[T | None], None]) -> None: ...


def _call_now(call: Callable[[], None]) -> None:
    call()


def _background_now(call: Callable[[], T], done: Callable[[T | None], None]) -> None:
    done(call())


def _no_routes(topic: str, waiter: Waiter) -> None:
    waiter(None)


@dataclass(frozen=True, slots=True)
class BrokerPorts:
    """Services that the process provides to the broker's context.

    The defaults, for tests, do everything at once.
    """

    soon: Callable[[Callable[[], None]], None] = _call_now
    """Runs a call on the event loop, after the present one."""
    background: RunInBackground = _background_now
    """Runs a call in a thread; passes its result to the second function, None for a failure."""
    read_cold: RunInBackground = _background_now
    """As `background`, in a thread that reads messages which are not in memory."""
    write_in_background: WriteInBackground = write_here
    """Runs a blocking call in the thread that writes tables."""
    find_route: Callable[[str, Waiter], None] = _no_routes
    """Finds the queues of a topic on all brokers."""
    process_figures: Callable[[], dict[str, str]] = dict
    """Figures of the process, for GET_BROKER_RUNTIME_INFO."""


class Listeners(Generic[P]):
    """Functions that `notify` calls, in the order in which they were added."""

    def __init__(self) -> None:
        self._functions: list[Callable[P, None]] = []

    def add(self, function: Callable[P, None]) -> None:
        """Add `function`, which each later `notify` calls."""
        self._functions.append(function)

    def notify(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call all functions with these arguments."""
        for function in self._functions:
            function(*args, **kwargs)


class BrokerContext:
    """The state of one broker. No method waits, and only the event loop's thread uses it.

    `options` are resolved (`config.options.resolve`) and frozen. `adopt_options` replaces them with
    a new object, so code that keeps copies of options detects a change by object identity.
    """

    digest_runs = 0
    """Number of requests for digests that are running."""
    timer: TimerService | None = None
    """Timed messages; None with timerWheelEnable=false, and before `open_timer`."""

    _round_robin = 0

    def __init__(
        self,
        options: BrokerOptions,
        *,
        clock: Clock,
        disk: Disk,
        store: Store,
        port: int,
        process: int = 0,
        ports: BrokerPorts | None = None,
    ) -> None:
        self.options = options
        self.ports = ports or BrokerPorts()
        self.clock = clock
        self.disk = disk
        self.store = store
        self.serving = Serving(clock, self._role_changed)
        """Decides whether the broker may serve and acknowledge now."""
        self.acks: PendingAcks | None = None
        """Acknowledgements of replicas that sends wait for; None without replication."""
        self.lock_votes: GroupVotes | None = None
        """Requests the votes of the other members; None without strict mode."""
        self._may_not_save: Callable[[], bool] = _no
        self.group_position = GroupPosition(options.broker_id)
        self.replica: GroupStatus | None = None
        """Membership and replication; None for a broker without replicas."""
        self.ha_address = format_addr(options.broker_ip2.strip("[]"), options.ha_listen_port)
        """Address for the connections of replicas."""
        self.started_at_offset = store.pointers.appended
        self.master_flush_offset = 0
        """Offset that a master or an administrator sent; it is only shown, as in RocketMQ."""
        self.differences = Differences()
        """Blocks of the log whose bytes differ from another replica's."""
        self.watchers = Watchers()
        """Replicas that wait for changes of a table."""
        self._announced = 0
        self.address = format_addr(options.broker_ip1.strip("[]"), port)
        """The address given to clients, and the store host of stored messages."""
        self.store_host = pack(options.broker_ip1, port)
        self.uniq_ids = UniqIds(self.store_host[:-4], process, clock.wall_ms)
        """Generates UNIQ_KEY for messages whose producer sent none."""
        self.started_wall_ms = clock.wall_ms()
        self.topics = TopicTable(auto_create=options.auto_create_topic_enable)
        store.queue_types(self.topics.has_batch_queues)
        self.groups = GroupTable(auto_create=options.auto_create_subscription_group)
        self.accounts = AccountTable()
        self.audit = AuditLog(clock.wall_ms)
        """Users and their policies."""
        rules = access_rules(options)
        self.access = None if rules is None else AccessControl(rules, self.accounts)
        """Checks every request; None if authentication is disabled."""
        self._initial_user = initial_user(options)
        self._configured_accounts: Sequence[Account] = ()
        self.acl_files: AclFiles | None = None
        self.keeper = MetadataKeeper(
            TableJournal(disk),
            (self.topics, self.groups, self.accounts),
            self.ports.write_in_background,
        )
        """Saves topics, groups and accounts."""
        self.offsets = ConsumerOffsets(version_step=options.consumer_offset_update_version_step)
        self.consumers = ConsumerManager(expiry_ms=options.channel_expired_timeout)
        self.producers = ProducerManager(expiry_ms=options.channel_expired_timeout)
        self.locks = _locks(options, clock)
        self.request_modes = RequestModes()
        self.filters = ConsumerFilters(enabled=options.enable_property_filter)
        self.request_times = RequestTimes(clock.now_ms)
        self.stats = Stats(clock.now_ms(), clock.wall_ms(), options.broker_cluster_name)
        self.long_poll: LongPoll[PullRequest] = LongPoll(
            per_queue_max=limits.LONG_POLLS_PER_QUEUE_MAX, total_max=limits.LONG_POLLS_MAX
        )
        self.internal_writer = self._build_internal_writer()
        self.schedule = Schedule(delay_levels.parse(options.message_delay_level))
        self.cold_reads = ColdReads(self.ports.read_cold)
        """Reads of messages that are not in memory."""
        self.delivery = Delivery(self.schedule, store, self.internal_writer, self.cold_reads)
        self.delay_offsets = DelayOffsets(
            self.schedule, version_step=options.delay_offset_update_version_step
        )
        self.transactions = TransactionService(self)
        self.pop = self._own_pop(options)
        self.searches = KeySearches(self.ports.soon, self.cold_reads, store.reading_memory_only)
        """Running queries by key."""
        self._other_masters: OtherMasters | None = None
        self.arrivals: Listeners[[Arrivals]] = Listeners()
        """Functions that serve requests which wait for messages of a queue."""
        self.pop_clients_left: Listeners[[str, Session]] = Listeners()
        """Functions that answer a client's held pops when the client leaves a group."""
        store.arrivals = self.arrivals.notify

    def _own_pop(self, options: BrokerOptions) -> PopState:
        return PopState(
            self.store,
            self.internal_writer,
            self.offsets,
            self.topics,
            options,
            cluster=options.broker_cluster_name,
            broker_name=options.broker_name,
            host=self.store_host,
            escapes=lambda: self.serving.escapes,
            now_ms=self.clock.now_ms,
        )

    def _build_internal_writer(self) -> InternalWriter:
        own_log = OwnLogRoute(
            self.store,
            sync_flush=self.options.flush_disk_type == "SYNC_FLUSH",
            kept=lambda end, done: self.when_kept(end, done),
            writable=lambda: self.serving.rights.writable,
        )
        self.pending_writes = own_log.pending_writes
        self.ways_out = RoleRoute(own_log, lambda: self.serving.rights)
        return InternalWriter(self.ways_out)

    def open_timer(self) -> None:
        """Start the service of timed messages, unless it is disabled."""
        if self.options.timer_wheel_enable:
            store, internal_writer = self.store, self.internal_writer
            pointers = store.pointers
            self.timer = TimerService(
                self.disk,
                store,
                internal_writer,
                lambda: self.options,
                lambda: (pointers.start, pointers.appended),
                cold_reads=self.cold_reads,
                epoch_at=self._epoch_before,
            )
            self.timer.open()

    def _epoch_before(self, offset: int) -> int:
        epochs = () if self.replica is None else self.replica.epochs()
        return epoch_before([(entry.epoch, entry.start_offset) for entry in epochs], offset)

    def unlock_accounts(
        self,
        cipher: Cipher,
        configured: Sequence[Account] = (),
        acl_files: AclFiles | None = None,
    ) -> None:
        """Use `cipher` for passwords; the master creates the accounts `configured` once, and
        follows `acl_files`.

        Raises `WrongKey` if the cipher does not fit the stored accounts.
        """
        self.accounts.unlock(cipher)
        self._configured_accounts = configured
        self.acl_files = acl_files

    def update_users(self, *, leads: bool) -> None:
        """Create the first Super user and the configured accounts, if this broker `leads`.

        Those that were created before stay as they are, but those of files of ACL 1.0 become as the
        files say.
        """
        if not self.accounts.is_unlocked:
            return
        wall = self.clock.wall_ms()
        if self.acl_files is not None:
            self.acl_files.tick(self.accounts, wall, changes=leads)
        if not leads:
            return
        user, self._initial_user = self._initial_user, None
        if user is not None:
            self.accounts.put_initial(user.access_key, user.secret_key, wall)
        accounts, self._configured_accounts = self._configured_accounts, ()
        for name in self.accounts.put_once(accounts, wall) if accounts else ():
            log.error(
                "user %(user)s is not created: there are too many users or policy entries",
                {"user": name},
            )

    @property
    def route_id(self) -> int:
        """The broker id in routes: 0 for the master, whatever its own id."""
        return 0 if self.serving.is_master else self.group_position.own_id

    def _role_changed(self, role: Role) -> None:
        """Adapt tables and services to a new role; only a master creates topics on use."""
        self.topics.frozen = self.groups.frozen = role is not Role.MASTER
        self.pop.role_changed()
        if ROLES[role].consumes:
            self.pop.apply_committed_orders(self.clock.now_ms(), self.clock.wall_ms())
        self.delivery.role_changed()
        self.pending_writes.role_changed()

    # What services add ------------------------------------------------------------------------

    def join_group(
        self, replica: GroupStatus, position: GroupPosition, acks: PendingAcks | None
    ) -> None:
        """Set the group's status, this broker's position, and the replicas that sends wait for."""
        self.replica = replica
        self.group_position = position
        self.acks = acks

    def move_to(self, position: GroupPosition) -> None:
        """Set a new position in the group: another master, epoch or sync-state set."""
        self.group_position = position

    def use_other_masters(self, masters: OtherMasters, fetch: FetchFromGroup) -> None:
        """Forward to `masters` what this broker may not write; read their messages with `fetch`."""
        self._other_masters = masters
        self.ways_out.use(masters)
        self.pop.use_other_masters(masters.choose_pin, fetch)

    def use_lock_votes(self, votes: GroupVotes) -> None:
        """Use votes of the other members for queue locks (strict mode)."""
        self.lock_votes = votes

    def save_nothing_while(self, may_not_save: Callable[[], bool]) -> None:
        """Do not save tables while `may_not_save()` returns True."""
        self._may_not_save = may_not_save

    def may_not_save(self) -> bool:
        """Return whether the tables must not be saved now."""
        return self._may_not_save()

    def escape_figures(self, now: int) -> dict[str, str]:
        """Return figures of forwarding to other masters, for GET_BROKER_RUNTIME_INFO."""
        return {} if self._other_masters is None else self._other_masters.figures(now)

    def end_elsewhere(self, header: AnyEnd, key: str, answer: Answer) -> bool:
        """End a transaction whose half message another master has; return whether there is one."""
        masters = self._other_masters
        return masters is not None and masters.end_elsewhere(header, key, answer)

    def note_master_flush_offset(self, offset: int) -> None:
        """Store the master's flush offset as reported by a master or operator; only shown."""
        self.master_flush_offset = offset

    def announce(self) -> None:
        """Notify replicas of new messages and changed tables since the last call; once a turn."""
        if self.watchers.waiting:
            self.watchers.look(self.clock.now_ms())
        end = self.store.pointers.appended
        if self.acks is not None and end != self._announced:
            self._announced = end
            self.acks.appended()

    def when_kept(self, end: int, done: Callable[[bool], None]) -> None:
        """Call `done` once the log up to `end` is flushed and replicated as the options require."""
        options, acks = self.options, self.acks
        sync = options.flush_disk_type == "SYNC_FLUSH"
        if acks is not None and not acks.waits:
            acks = None
        if not sync and acks is None:
            done(True)
            return
        group = ReplyGroup(
            lambda code: done(code == ResponseCode.SUCCESS), 0, sync + (acks is not None)
        )
        if sync:
            failed = ResponseCode.SERVICE_NOT_AVAILABLE
            self.store.when_synced(end, lambda ok: group.condition_met(0 if ok else failed))
        if acks is not None:
            acks.when_acked(end, self.clock.now_ms() + options.slave_timeout, group.condition_met)

    def next_number(self) -> int:
        """Return a number that rises by one per call, to spread messages over queues."""
        self._round_robin += 1
        return self._round_robin

    def adopt_options(self, options: BrokerOptions) -> None:
        """Use changed options, and update the tables that keep parts of them."""
        self.options = options
        self.topics.auto_create = options.auto_create_topic_enable
        self.groups.auto_create = options.auto_create_subscription_group
        self.filters.enabled = options.enable_property_filter
        self.pop.adopt_options(options)
        self.store.retention.adopt(store_options(options))
        if self.replica is not None:
            self.replica.options_changed()


def _locks(options: BrokerOptions, clock: Clock) -> QueueLocks:
    life_ms = VOTE_LIFE_MS if options.lock_in_strict_mode else LIFE_MS
    return QueueLocks(life_ms=life_ms, start_ms=clock.now_ms())


def _no() -> bool:
    return False
