"""Everything one broker owns, as plain attributes: what handlers get and work on."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from epochmq.base import limits
from epochmq.base.ports import Clock, Disk
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
from epochmq.broker.internal_writes.internal_writer import InternalWriter, OwnLogRoute
from epochmq.broker.internal_writes.role_route import RoleRoute
from epochmq.broker.pop.broker_pop_state import PopState
from epochmq.broker.serving.acknowledgement import PendingAcks, ReplyGroup
from epochmq.broker.serving.group_position import FOREVER, GroupPosition, GroupStatus
from epochmq.broker.serving.roles import HELD_MASTER, ROLES, Role, RoleRow
from epochmq.broker.state.broker_stats import Stats
from epochmq.broker.state.compare_digests import Differences
from epochmq.broker.state.groups import GroupTable
from epochmq.broker.state.keeper import MetadataKeeper, WriteInBackground, write_here
from epochmq.broker.state.metadata_journal import TableJournal
from epochmq.broker.state.request_modes import RequestModes
from epochmq.broker.state.stamps import Watchers
from epochmq.broker.state.topic_table import TopicTable
from epochmq.broker.transaction.transaction_context import EndElsewhere
from epochmq.broker.transaction.transaction_service import TransactionService
from epochmq.model import delay_levels
from epochmq.model.host import format_addr, pack
from epochmq.model.message_id import UniqIds
from epochmq.model.topic import MessageQueue
from epochmq.store.epochs import epoch_before
from epochmq.store.store import Store
from epochmq.store.visibility import Arrivals
from epochmq.wire.bodies.group_bodies import LockBatchRequest
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Reply
from epochmq.wire.session import Session

T = TypeVar("T")


Told = Callable[[Reply], None]
"""Takes the answer to a request that was held."""


class Votes(Protocol):
    """Strict mode's locks, which the other members have a say in."""

    def lock(
        self,
        wanted: LockBatchRequest,
        queues: Sequence[MessageQueue],
        done: Callable[[Reply], None],
    ) -> None: ...

    def unlock(self, wanted: LockBatchRequest) -> None: ...


class BrokerContext:
    """One broker's state. Nothing in here waits, and only the loop's thread touches it.

    `options` are resolved (`config.options.resolve`) and frozen; a change at runtime puts a new
    object in their place through `adopt_options`, so whoever copied something notices by identity.
    """

    pop_arrived: Callable[[Arrivals], None] = staticmethod(lambda arrivals: None)
    """Serves pops that wait for queues with news; the pop handler sets it."""

    pop_left: Callable[[str, Session], None] = staticmethod(lambda group, session: None)
    """Answers what a client waits for that leaves a group; the pop handler sets it."""

    may_not_save: Callable[[], bool] = staticmethod(lambda: False)
    """Whether tables on the disk have to stay as they are for now (`broker/group`)."""

    escape_figures: Callable[[int], dict[str, str]] = staticmethod(lambda now: {})
    """What is on its way to other masters, under GET_BROKER_RUNTIME_INFO's keys; the service sets
    it."""

    process_figures: Callable[[], dict[str, str]] = staticmethod(dict)
    """What the process tells of itself, for GET_BROKER_RUNTIME_INFO; the service sets it."""

    end_elsewhere: EndElsewhere = staticmethod(lambda header, key, answer: False)
    """Ends a transaction whose half message another master has; the service sets it."""

    tenure = 0
    """Counts roles."""
    digest_runs = 0
    """Requests for digests that are being worked at."""
    lock_votes: Votes | None = None
    """Asks the other members for their votes; the service sets it in strict mode."""
    timer: TimerService | None = None
    """Messages for an exact time; None with timerWheelEnable=false, and until it is opened."""

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
    ) -> None:
        self.options = options
        self.clock = clock
        self.disk = disk
        self.store = store
        self.role = Role.MASTER
        self.lease_until_ms = FOREVER
        """A master serves until then (monotonic); FOREVER where nobody gives leases."""
        self.holds: Callable[[int], bool] = _never
        """Past the lease: whether the whole set is behind this master (ADR 0044)."""
        self.acks: PendingAcks | None = None
        """The replicas that sends wait for; None without replication."""
        self.group_position = GroupPosition(options.broker_id)
        self.replica: GroupStatus | None = None
        """Membership and replication; None for a broker without replicas."""
        self.ha_address = format_addr(options.broker_ip2.strip("[]"), options.ha_listen_port)
        """Where replicas reach this one."""
        self.started_at_offset = store.pointers.appended
        self.settle_at: int | None = None
        """A new master delivers no delayed messages before its log is confirmed up to here."""
        self.master_flush_offset = 0
        """Told by a master or an admin; shown only, as upstream."""
        self.differences = Differences()
        """Blocks of the log that another replica has other bytes of."""
        self.watchers = Watchers()
        """Replicas that wait for changes of a table."""
        self._announced = 0
        self.address = format_addr(options.broker_ip1.strip("[]"), port)
        """What clients are told, and what stored messages name as their store host."""
        self.store_host = pack(options.broker_ip1, port)
        self.uniq_ids = UniqIds(self.store_host[:-4], process, clock.wall_ms)
        """Keys for messages whose producer gave none."""
        self.started_wall_ms = clock.wall_ms()
        self.topics = TopicTable(auto_create=options.auto_create_topic_enable)
        store.queue_types(self.topics.has_batch_queues)
        self.groups = GroupTable(auto_create=options.auto_create_subscription_group)
        self.write_in_background: WriteInBackground = write_here
        """Runs a call that may block in the tables' thread; the service sets it."""
        self.keeper = MetadataKeeper(
            TableJournal(disk),
            (self.topics, self.groups),
            lambda call, done: self.write_in_background(call, done),
        )
        """Saves topics and groups."""
        self.offsets = ConsumerOffsets(version_step=options.consumer_offset_update_version_step)
        self.consumers = ConsumerManager(expiry_ms=options.channel_expired_timeout)
        self.producers = ProducerManager(expiry_ms=options.channel_expired_timeout)
        self.locks = _locks(options, clock)
        self.request_modes = RequestModes()
        self.filters = ConsumerFilters(enabled=options.enable_property_filter)
        self.stats = Stats(clock.now_ms(), clock.wall_ms(), options.broker_cluster_name)
        self.long_poll: LongPoll[PullRequest] = LongPoll(
            per_queue_max=limits.LONG_POLLS_PER_QUEUE_MAX, total_max=limits.LONG_POLLS_MAX
        )
        self.internal_writer = self._build_internal_writer()
        self.schedule = Schedule(delay_levels.parse(options.message_delay_level))
        self.delivery = Delivery(self.schedule, store, self.internal_writer)
        self.delay_offsets = DelayOffsets(
            self.schedule, version_step=options.delay_offset_update_version_step
        )
        self.transactions = TransactionService(self)
        self.pop = self._own_pop(options)
        self.soon: Callable[[Callable[[], None]], None] = _call_now
        """Runs a call after the present one, on the loop; the service sets it."""
        self.searches = KeySearches(lambda call: self.soon(call))
        """Queries by key."""
        self.background: RunInBackground = _background_now
        """Runs a call in a thread of its own and hands its result on, None for a failure; the
        service sets it."""
        self.wake: Callable[[Arrivals], None] = _nobody_waits
        """Executes held pulls again whose queue has news; the pull handler sets it."""
        self.find_route: Callable[[str, Waiter], None] = _no_routes
        """Tells the queues of a topic on all brokers; the service sets it."""

    def _own_pop(self, options: BrokerOptions) -> PopState:
        pop = PopState(
            self.store,
            self.internal_writer,
            self.offsets,
            self.topics,
            options,
            cluster=options.broker_cluster_name,
            broker_name=options.broker_name,
            host=self.store_host,
        )
        pop.stands_in = lambda: self.escapes
        return pop

    def _build_internal_writer(self) -> InternalWriter:
        own_log = OwnLogRoute(
            self.store,
            sync_flush=self.options.flush_disk_type == "SYNC_FLUSH",
            kept=lambda end, done: self.when_kept(end, done),
            writable=lambda: self.rights.writable,
        )
        self.pending_writes = own_log.pending_writes
        self.ways_out = RoleRoute(own_log, lambda: self.rights)
        return InternalWriter(self.ways_out)

    def open_timer(self) -> None:
        """Begin with messages for an exact time, unless they are switched off."""
        if self.options.timer_wheel_enable:
            store, internal_writer = self.store, self.internal_writer
            pointers = store.pointers
            self.timer = TimerService(
                self.disk,
                store,
                internal_writer,
                lambda: self.options,
                lambda: (pointers.start, pointers.appended),
                epoch_at=self._epoch_before,
            )
            self.timer.open()

    def _epoch_before(self, offset: int) -> int:
        epochs = () if self.replica is None else self.replica.epochs()
        return epoch_before([(entry.epoch, entry.start_offset) for entry in epochs], offset)

    @property
    def rights(self) -> RoleRow:
        """What the broker's role allows now; once the lease is over nothing, or the messages that
        the whole set holds.

        The clock is read here and not taken from the turn: the process may have been paused since
        the turn began (S17).
        """
        until = self.lease_until_ms
        if until != FOREVER and (now := self.clock.now_ms()) >= until:
            return HELD_MASTER if self.holds(now) else ROLES[Role.FENCED]
        return ROLES[self.role]

    @property
    def delivers(self) -> bool:
        """Whether delayed messages are moved on here, now."""
        return self.rights.secondary and self.settle_at is None

    @property
    def rests(self) -> bool:
        """Whether it would deliver, but for a lease that is over and may yet be renewed."""
        return ROLES[self.role].secondary and self.settle_at is None and not self.delivers

    @property
    def escapes(self) -> bool:
        """Whether what it moves on goes to another master: it stands in for its own (RIP-32)."""
        rights = self.rights
        return rights.secondary and not rights.writable

    @property
    def route_id(self) -> int:
        """What routes call this broker: the master is 0, whatever its own number."""
        return 0 if self.role is Role.MASTER else self.group_position.own_id

    @property
    def is_master(self) -> bool:
        return self.role is Role.MASTER

    def change_role(self, role: Role) -> None:
        """The one swap of the row; only a master's tables take what is made in passing."""
        self.role = role
        self.tenure += 1
        self.topics.frozen = self.groups.frozen = role is not Role.MASTER
        self.pop.role_changed()
        if ROLES[role].consumes:
            self.pop.apply_committed_orders(self.clock.now_ms(), self.clock.wall_ms())
        self.delivery.role_changed()
        self.pending_writes.role_changed()

    def announce(self) -> None:
        """Let replicas fetch what was appended, or changed, since the last call; once a turn."""
        if self.watchers.waiting:
            self.watchers.look(self.clock.now_ms())
        end = self.store.pointers.appended
        if self.acks is not None and end != self._announced:
            self._announced = end
            self.acks.appended()

    def when_kept(self, end: int, done: Callable[[bool], None]) -> None:
        """Call `done` once the log up to `end` is synced and replicated as the options ask."""
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
        """A number that rises by one at each call, to spread messages over queues."""
        self._round_robin += 1
        return self._round_robin

    def adopt_options(self, options: BrokerOptions) -> None:
        """Take over changed options; what the tables keep of them follows."""
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


class RunInBackground(Protocol):
    """Work that would keep the loop for too long."""

    def __call__(self, call: Callable[[], T], done: Callable[[T | None], None]) -> None: ...


def _background_now(call: Callable[[], T], done: Callable[[T | None], None]) -> None:
    done(call())


def _nobody_waits(arrivals: Arrivals) -> None:
    """Before there is a pull handler."""


def _no_routes(topic: str, waiter: Waiter) -> None:
    waiter(None)


def _never(now: int) -> bool:
    return False


def _call_now(call: Callable[[], None]) -> None:
    call()
