"""Runs a broker: opens the store, listens, ticks all parts, and stops cleanly."""

import asyncio
import dataclasses
import gc
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial

from epochmq.auth.accounts import Account, WrongKey
from epochmq.auth.server_keys import initial_user
from epochmq.base.errors import ConfigError, EnvironmentFault, OurBug
from epochmq.base.ports import Clock, Disk
from epochmq.broker.config.auth_keys import stores_users
from epochmq.broker.config.broker_peers import broker_peers
from epochmq.broker.config.options import BrokerOptions, reach_warnings, resolve
from epochmq.broker.config.overrides import apply_overrides
from epochmq.broker.config.store_keys import log_dir, store_options
from epochmq.broker.consume.client_tables import SCAN_MS
from epochmq.broker.consume.route_book import RouteBook
from epochmq.broker.consume.route_service import RouteWatch
from epochmq.broker.context.broker_context import BrokerContext, BrokerPorts
from epochmq.broker.escape.escape_service import EscapeService
from epochmq.broker.group.build_member import build_member
from epochmq.broker.group.controller_mode_member import ControllerModeMember
from epochmq.broker.group.duplicate_id import check_id
from epochmq.broker.group.lock_service import LockVotes
from epochmq.broker.group.plain_member import PlainMember
from epochmq.broker.group.registrar import Registrar
from epochmq.broker.pop.remote_fetch import RemoteMessages
from epochmq.broker.requests.client_handlers import expire_clients
from epochmq.broker.scrub.scrub_service import ScrubService
from epochmq.broker.server.account_files import find_cipher, plain_acl_path, read_old_accounts
from epochmq.broker.server.broker_health import health_checks
from epochmq.broker.server.broker_sink import BrokerSink
from epochmq.broker.server.period import Period
from epochmq.broker.state import acl_files
from epochmq.broker.state.acl_files import AclFiles
from epochmq.broker.state.background_worker import BackgroundWorker
from epochmq.broker.state.metadata_journal import TableJournal
from epochmq.broker.state.saved_files import SavedTable, load_table, save_dirty
from epochmq.broker.state.table_writer import TableWriter
from epochmq.broker.state.topic_table import TopicTable, Wishes, system_topics
from epochmq.model.host import pack, split_addresses
from epochmq.model.saved_file import report_replaced
from epochmq.runtime.blocking import BlockingThread
from epochmq.runtime.bounds import Bounds
from epochmq.runtime.clock import RealClock
from epochmq.runtime.config_text import store_paths
from epochmq.runtime.disk import RealDisk
from epochmq.runtime.health_server import Checks, HealthServer
from epochmq.runtime.logging_setup import set_level
from epochmq.runtime.own_host import boot_id, free_port, host_address, host_name, memory_bytes
from epochmq.runtime.process import process_figures, server_process
from epochmq.runtime.server import RemotingServer
from epochmq.runtime.service_manager import serve_until
from epochmq.runtime.signals import stop_on_signals
from epochmq.runtime.tls import server_tls
from epochmq.store.store import Store
from epochmq.store.store_service import StoreService

COLLECTOR_THRESHOLDS = (50_000, 20, 50)
"""Measured: saves 3 to 5 per cent of a send's time against Python's (700, 10, 10)."""

TICK_MS = 100
"""The longest time between two ticks, in ms."""

log = logging.getLogger(__name__)


class Broker:
    """One broker: `start` makes it serve until `stop`; `port` is the one it listens on."""

    def __init__(
        self,
        options: BrokerOptions,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        bounds: Bounds | None = None,
        label: str = "",
    ) -> None:
        """Create a broker; `label` names it in the log of a process with several brokers."""
        self._label = label
        self._clock = clock or RealClock()
        self._disk = disk
        self._server = RemotingServer(bounds or _bounds(options))
        self._blocking = BlockingThread("epochmq-disk")
        self._saving = BlockingThread("epochmq-tables")
        self._background = BackgroundWorker(BlockingThread("epochmq-background"))
        self._cold_reads = BackgroundWorker(BlockingThread("epochmq-cold-reads"))
        self.options = options
        self.port = options.listen_port
        self.node: BrokerContext
        self.sink: BrokerSink
        self.registrar: Registrar
        self.routes: RouteWatch
        self.escape: EscapeService
        self.remote_fetch: RemoteMessages
        self.scrub: ScrubService
        self._ha_port_is_chosen = options.ha_listen_port != 0
        self.member: ControllerModeMember | PlainMember | None = None
        """Its membership in its group; None before the start."""
        self._store_service: StoreService
        self._table_writer: TableWriter
        self._votes: LockVotes | None = None
        self._health: HealthServer | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._periods: list[Period] = []
        self._closers: list[Callable[[], None]] = []
        self._stopped = False

    # Start -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the store, load the metadata, listen and register.

        Raises `StoreInUse`, `StoreDamaged`, `PortInUse`, `ConfigError` and other
        `EnvironmentFault`s, each with one clear line; closes what was opened before.
        """
        try:
            await self._open()
            await self._serve()
        except BaseException:
            await self.stop(grace_ms=0)
            raise

    async def _open(self) -> None:
        options = self._resolved()
        root, log_path, said = store_paths(
            options.store_path_root_dir, options.store_path_commit_log
        )
        if said:
            log.warning(said)
        folder, elsewhere = log_dir(root, log_path)
        disk = self._disk or RealDisk(options.store_path_root_dir, elsewhere=elsewhere)
        wall = self._clock.wall_ms()
        configured = options.log_level
        options = self.options = apply_overrides(options, disk, wall, log.warning)
        if options.log_level != configured:  # an operator changed it while the broker ran
            set_level(options.log_level)
        host = pack(options.broker_ip1, self.port)
        topics = TopicTable()
        # The store must know each topic's queue type.
        TableJournal(disk).load((topics,), repair=False)
        types = topics.has_batch_queues
        kept = dataclasses.replace(
            store_options(options, folder), replicated=options.enable_controller_mode
        )
        # In a thread: reading a long log must not block others on this loop.
        store = await self._blocking.run(
            lambda: Store.open(disk, kept, host, wall, types, boot=boot_id())
        )
        self._closers.append(lambda: store.close(self._clock.wall_ms()))
        self.node = node = BrokerContext(
            options,
            clock=self._clock,
            disk=disk,
            store=store,
            port=self.port,
            process=os.getpid(),
            ports=self._ports(disk),
        )
        node.keeper.load()
        await self._unlock_passwords(node, root)
        for table in self._tables():
            self._load(table)
        if store.sinks.missing or store.sinks.dirty:
            store.sinks.dirty = True
            save_dirty(disk, (store.sinks,))  # later starts read this file
        if options.lock_in_strict_mode:
            self._load(node.locks)
        node.topics.add_system(system_topics(_wishes(options)))
        node.filters.all_dead(wall)
        node.open_timer()
        self._closers.append(self._close_timer)
        node.pop.orders.begin(self._clock.now_ms(), wall)
        node.pop.apply_committed_orders(self._clock.now_ms(), wall)
        self.sink = BrokerSink(node, self._label)
        if options.enable_controller_mode:
            self.member = build_member(node, self._blocking, self._role_changed)
        else:
            self.member = PlainMember(
                node,
                self._role_changed,
                self._register_again,
                blocking=self._blocking,
                port_is_chosen=self._ha_port_is_chosen,
            )
            node.delivery.clamp()
        self._store_service = StoreService(store, self._clock, self._blocking)

    async def _unlock_passwords(self, node: BrokerContext, root: str) -> None:
        """Find the key that encrypts the passwords; without users there is none.

        Users can be created before authentication is enabled, once there are credentials of the
        servers or a key file.
        """
        options, is_new = self.options, not len(node.accounts)
        if not stores_users(options):
            return
        cipher, source = await self._blocking.run(lambda: find_cipher(options, root, is_new))
        accounts: list[Account] = []
        files: AclFiles | None = None
        if options.migrate_auth_from_v1_enabled:
            accounts = await self._blocking.run(lambda: read_old_accounts(options, cipher))
        elif options.acl_enable:
            user = initial_user(options)
            kept = () if user is None else (user.access_key,)
            path = plain_acl_path(options)
            files = await self._blocking.run(lambda: AclFiles(path, cipher, kept))
        try:
            node.unlock_accounts(cipher, accounts, files)
        except WrongKey:
            text = f"the passwords in {root}/{node.accounts.file} were encrypted with another key"
            raise ConfigError([f"{text} than that of {source}; use the one of before"]) from None

    def _ports(self, disk: Disk) -> BrokerPorts:
        """Return the functions that the broker's state needs from this process."""
        options, loop = self.options, asyncio.get_running_loop()
        self._table_writer = TableWriter(disk, self._saving, lambda: self.node.may_not_save())
        self.routes = RouteWatch(
            RouteBook(options.load_balance_poll_name_server_interval),
            broker_peers(options),
            list(split_addresses(options.namesrv_addr)),
            self._clock,
        )

        def soon(call: Callable[[], None]) -> None:
            loop.call_soon(call)

        return BrokerPorts(
            soon=soon,
            background=self._background.run,
            read_cold=self._cold_reads.run,
            write_in_background=self._table_writer.write_in_background,
            find_route=self.routes.find,
            process_figures=process_figures,
        )

    def _load(self, table: SavedTable) -> None:
        """Fill a table from its file; a fallback to its `.bak` is logged and counted."""
        node = self.node
        loaded = load_table(node.disk, table)
        if loaded is not None and loaded.replaced:
            node.keeper.damaged += 1
            report_replaced(node.disk, table.file, loaded.replaced, "the changes after it are lost")

    def _resolved(self) -> BrokerOptions:
        everywhere = self.options.bind_address in ("", "0.0.0.0", "::")
        address = host_address() if everywhere else ""
        if self.port == 0:
            self.port = free_port(self.options.bind_address)
        options = resolve(
            self.options,
            host_name=host_name(),
            host_address=address,
            memory_bytes=memory_bytes(),
        )
        for line in reach_warnings(options):
            log.warning(line)
        return options

    async def _serve(self) -> None:
        options, node = self.options, self.node
        if not options.enable_controller_mode:
            await check_id(options, node.address)
        await self._store_service.start()
        tls = server_tls(options)
        await self._server.start(options.bind_address, self.port, self.sink, tls=tls)
        if options.fast_listen_port > 0:
            await self._server.start(
                options.bind_address,
                options.fast_listen_port,
                self.sink,
                fast_port=True,
                tls=tls,
                origin="fastListenPort (0, the default, is listenPort - 2; -1 is none)",
            )
        if options.health_listen_port:
            self._health = HealthServer(self.health_checks())
            self._health.start(
                options.bind_address, options.health_listen_port, origin="healthListenPort"
            )
        self.registrar = Registrar(node)
        self.sink.registrar = self.registrar
        self._open_ways_out()
        if options.lock_in_strict_mode:
            peers = broker_peers(options)
            self._votes = LockVotes(node, peers, self._other_members)
            node.use_lock_votes(self._votes)
        now = self._clock.now_ms()
        self._periods = [
            Period(options.flush_consumer_offset_interval, now, self._save_offsets),
            Period(options.flush_delay_offset_interval, now, self._save_delays),
            Period(options.flush_consumer_offset_interval, now, self._save_sinks),
            Period(options.timer_flush_interval_ms, now, self._save_timer),
            Period(SCAN_MS, now, lambda: expire_clients(node, self._clock.now_ms())),
        ]
        if node.acl_files is not None:
            look = partial(node.acl_files.look, self._background.run)
            self._periods.append(Period(acl_files.LOOK_MS, now, look))
        if self.member is not None:
            await self.member.start()
        self._tick(now)
        await self.registrar.wait_registered()
        self._ticker = asyncio.get_running_loop().create_task(self._run())

    def health_checks(self) -> Checks:
        """Return what the health endpoint answers, by path."""
        return health_checks(self.node, lambda: self.registrar.is_registered)

    def buffered_bytes(self) -> tuple[int, int]:
        """Return the bytes of requests that are not complete, and of answers that are not sent."""
        return self._server.buffered_bytes()

    def _open_ways_out(self) -> None:
        """Create the escape bridge, the scrub service, and the fetcher of remote messages."""
        node, options = self.node, self.options
        servers = split_addresses(options.namesrv_addr)
        self.escape = EscapeService(node, broker_peers(options), servers)
        self.scrub = ScrubService(node, broker_peers(options), servers, self._clock)
        self.remote_fetch = RemoteMessages(broker_peers(options), servers, self._clock)
        node.use_other_masters(self.escape, self.remote_fetch.fetch)

    # Running ---------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            now = self._clock.now_ms()
            await asyncio.sleep(max(1, self._next_deadline(now) - now) / 1000)
            try:
                self._tick(self._clock.now_ms())
            except OurBug as error:
                context = {"message": "a tick failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)
                return
            except Exception:
                log.exception("a tick failed")

    def _next_deadline(self, now: int) -> int:
        """Return the earliest deadline of all parts, at most `TICK_MS` away (monotonic ms)."""
        node = self.node
        wanted = [
            node.long_poll.next_deadline(),
            self.sink.stage.syncs.next_deadline(),
            self.registrar.next_deadline(),
            self.routes.next_deadline(),
            self.escape.next_deadline(),
            node.stats.next_deadline(now),
            node.pending_writes.next_deadline(),
            node.transactions.next_deadline(now),
            node.pop.next_deadline(now),
        ]
        if self.member is not None:
            wanted.append(self.member.next_deadline())
        wall = self._clock.wall_ms()
        due_walls = [node.delivery.next_deadline() if node.serving.delivers else None]
        if node.timer is not None:
            due_walls.append(node.timer.next_deadline(wall))
        wanted += [now + due - wall for due in due_walls if due is not None]
        return min([now + TICK_MS, *(at for at in wanted if at is not None)])

    def _tick(self, now: int) -> None:
        """Tick every part; each tick is short."""
        node, sink = self.node, self.sink
        wall = self._clock.wall_ms()
        sink.stage.syncs.expire(now)
        sink.pulls.expire(now)
        if self.member is not None:
            self.member.tick(now)
        if node.serving.delivers:
            node.delivery.tick(wall)
        node.transactions.tick(now, wall)
        if node.timer is not None:
            node.timer.tick(wall, delivers=node.serving.delivers, rests=node.serving.rests)
        node.pop.tick(now, wall, delivers=node.serving.delivers)
        node.pending_writes.tick(now)
        sink.pops.tick(now)
        node.announce()
        sink.stage.count_sent()
        node.stats.tick(now, wall)
        node.update_users(leads=node.serving.rights.changes)
        sink.save_metadata(now)
        self.registrar.tick(now)
        self.routes.tick(now)
        self.escape.tick(now)
        self.scrub.tick(now)
        for period in self._periods:
            period.tick(now)
        if node.offsets.has_dropped:
            node.offsets.has_dropped = False
            self._save_when_synced(node.offsets)

    def _role_changed(self) -> None:
        """Register the new role at once, and answer the clients that wait for messages."""
        now = self._clock.now_ms()
        self.sink.pops.answer_all(now)
        if hasattr(self, "registrar"):
            self.registrar.everything_changed()
            self.registrar.tick(now)
            self._save_when_synced(self.node.offsets)  # a slave drops what its master has
            self._save_delays()
        if not self.node.serving.rights.readable:
            self.sink.pulls.answer_all(now)

    def _register_again(self, address: str) -> None:
        if hasattr(self, "registrar"):
            self.registrar.again(address)

    def _other_members(self) -> Mapping[int, str]:
        """Return the group's other members, as name servers list them now or listed them last."""
        member = self.member
        acting = member.acting if isinstance(member, PlainMember) else None
        if acting is None:
            return {}
        view = acting.core.view
        return view.others() or {n: at for n, at in view.known.items() if n != view.own_id}

    def _save_offsets(self) -> None:
        node = self.node
        node.filters.clean(self._clock.wall_ms())
        self._save_when_synced(node.offsets)  # after the check points of popped messages
        self._table_writer.save(node.filters)
        self._table_writer.save(node.request_modes)
        if node.serving.rights.consumes:
            node.pop.orders.step_version(self._clock.wall_ms())
        self._table_writer.save(node.pop.orders)

    def _save_delays(self) -> None:
        """Save the delay levels' progress once the delivered messages are synced to the device.

        Otherwise a power failure could undo a delivery but keep its progress: the message is lost.
        """
        self.node.delay_offsets.step_version(self._clock.wall_ms())
        self._save_when_synced(self.node.delay_offsets)

    def _save_when_synced(self, table: SavedTable) -> None:
        """Write the table's current state, once the current log is synced to the device."""
        write = self._table_writer.snapshot(table)
        if write is not None:
            save = write  # narrowed for the closure
            store = self.node.store
            store.when_synced(store.pointers.appended, lambda ok: save() if ok else None)

    def _save_timer(self) -> None:
        """Save like the delay levels' progress; see `TimerService.save`."""
        store, timer = self.node.store, self.node.timer
        if timer is not None:
            end = store.pointers.appended
            timer.save(
                self._clock.wall_ms(), self._table_writer, lambda done: store.when_synced(end, done)
            )

    def _close_timer(self) -> None:
        if self.node.timer is not None:
            self.node.timer.close()

    def _save_sinks(self) -> None:
        """Save the sinks; they contain only what is confirmed and synced."""
        self.node.store.forget_confirmed_sinks()
        self._table_writer.save(self.node.store.sinks)

    def _tables(self) -> tuple[SavedTable, ...]:
        node = self.node
        return (
            node.offsets,
            node.filters,
            node.delay_offsets,
            node.request_modes,
            node.pop.orders,
        )

    # Stop ------------------------------------------------------------------------------------

    async def stop(self, grace_ms: int = 3_000) -> None:
        """Unregister, answer waiting clients, save and close; repeated calls do nothing."""
        if self._stopped:
            return
        self._stopped = True
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.wait([self._ticker])
        if self.member is not None:
            await self.member.stop()
        if hasattr(self, "registrar"):
            await self.registrar.stop()
        if hasattr(self, "routes"):
            await self.routes.close()
        if hasattr(self, "escape"):
            await self.escape.close()
            await self.remote_fetch.close()
            await self.scrub.close()
        if self._votes is not None:
            await self._votes.close()
        if hasattr(self, "sink"):
            self.sink.finish(self._clock.now_ms())
        await self._server.stop(grace_ms)
        if self._health is not None:
            self._health.stop()
        if self._ticker is not None:
            self.node.pending_writes.stop()
            await self._table_writer.close()
            self._save_everything()  # while the store's lock still keeps others away
        if hasattr(self, "_store_service"):
            await self._store_service.stop()
        await self._background.close()
        await self._cold_reads.close()
        for close in reversed(self._closers):
            close()
        self._saving.close()
        self._blocking.close()

    def _save_everything(self) -> None:
        node = self.node
        try:
            if node.store.fenced is None:
                node.store.sync()  # deliveries before their progress
            if node.may_not_save():
                raise EnvironmentFault("what is done for the master could not be written down")
            node.transactions.keep_progress(self._clock.wall_ms())
            for table in (node.delay_offsets, node.offsets):
                table.dirty = True  # a table that waited for a sync is not saved yet
            node.delay_offsets.step_version(self._clock.wall_ms())
            node.store.forget_confirmed_sinks()
            node.store.sinks.dirty = True  # above all, that it covers the whole log
            save_dirty(node.disk, (*self._tables(), node.store.sinks))
            if node.timer is not None:
                node.timer.save_now(self._clock.wall_ms())
        except EnvironmentFault as error:
            log.error(
                "the last changes of the metadata could not be saved: %(error)s", {"error": error}
            )
        try:
            node.keeper.close(self._clock.wall_ms())
        except EnvironmentFault as error:
            log.error(
                "topics and groups could not be written as JSON at the end: %(error)s",
                {"error": error},
            )


def _bounds(options: BrokerOptions) -> Bounds:
    return Bounds(
        idle_ms=options.server_channel_max_idle_time_seconds * 1000,
        backlog=options.server_socket_backlog,
    )


def _wishes(options: BrokerOptions) -> Wishes:
    return Wishes(
        cluster=options.broker_cluster_name,
        broker=options.broker_name,
        auto_create=options.auto_create_topic_enable,
        default_queues=options.default_topic_queue_nums,
        cluster_topic=options.cluster_topic_enable,
        broker_topic=options.broker_topic_enable,
        trace_topic=options.msg_trace_topic_name if options.trace_topic_enable else None,
        revive_queues=options.revive_queue_num,
        timer=options.timer_wheel_enable,
    )


def calm_collector() -> None:
    """Make the pauses of Python's cycle collector fewer and shorter.

    Objects built at start live as long as the process, so they are frozen. Messages in flight form
    hardly any cycles, so a collection every 700 allocations is wasted.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


Observe = Callable[[Broker], AbstractAsyncContextManager[None]]
"""Starts what observes a broker, such as metrics, and stops it in the end."""


async def main(options: BrokerOptions, observe: Observe | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C; prints one line when ready. Raises as `Broker.start`."""
    broker = Broker(options)
    with stop_on_signals() as stop, server_process():
        await broker.start()
        calm_collector()
        try:
            async with nullcontext() if observe is None else observe(broker):
                reason = await serve_until(stop, _ready_line(broker))
                log.info("stopping: %(reason)s", {"reason": reason})
        finally:
            await broker.stop()


def _ready_line(broker: Broker) -> str:
    shown = broker.options
    where = f"{shown.bind_address}:{broker.port} (clients are told {broker.node.address})"
    return f"broker {shown.broker_name} ready on {where}"
