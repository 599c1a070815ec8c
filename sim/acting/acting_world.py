"""The world `acting`: groups without controllers, with acting masters, name servers and clients.

The product's broker and name server run on `sim.kernel.loop`, under kills, pauses, cuts and slow
links. Checks INV-20, INV-27, INV-29, INV-32 and INV-33 where a slave acts as master (ADR 0049 to
0051, 0053). There are no power cuts: a group without controllers whose master loses its log's end
waits for an operator (ADR 0050), which the world `hard` has (ADR 0064).
"""

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from types import ModuleType
from typing import Any, ClassVar

from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.delay import delay_schedule as schedule
from epochmq.broker.delay import timed_messages as timer
from epochmq.broker.escape import escape_bridge as escape
from epochmq.broker.escape import escape_service as escape_service
from epochmq.broker.escape import masters as escape_masters
from epochmq.broker.group import acting_master as acting
from epochmq.broker.group import acting_progress
from epochmq.broker.group import acting_service as acting_service
from epochmq.broker.group import metadata_sync as replica_sync
from epochmq.broker.group import metadata_sync_service as replica_sync_service
from epochmq.broker.group import plain_member as log_watch
from epochmq.broker.group import plain_member as plain
from epochmq.broker.group import pre_online as pre_online
from epochmq.broker.group import pre_online_peers as pre_online_peers
from epochmq.broker.group import registration as registration
from epochmq.broker.pop import remote_fetch as remote_fetch
from epochmq.broker.server import broker_server as broker_service
from epochmq.broker.serving.roles import Role
from epochmq.nameserver.options import NamesrvOptions
from epochmq.replication import replica_server as log_server
from epochmq.replication import replication_service as replication
from epochmq.store import store_service as store_service
from sim.acting.acting_again import Again
from sim.acting.acting_book import Book
from sim.acting.acting_broker import BROKER_PORT, NAMES_PORT, BrokerProcess, NamesProcess
from sim.acting.acting_end import NothingLost
from sim.acting.acting_faults import KINDS, ActingInjector
from sim.acting.acting_special import SpecialClient
from sim.acting.inv_29 import OffsetsStay
from sim.acting.inv_32 import SlavesCopy
from sim.acting.inv_33 import Unseen
from sim.kernel.checker import Checker
from sim.kernel.clocks import HostClock
from sim.kernel.faults import Fault, Swarm
from sim.kernel.host import Host, Process
from sim.kernel.loop import SimLoop
from sim.kernel.mutants import ACTING_MUTANTS
from sim.kernel.net import Net
from sim.kernel.plan import Plan
from sim.kernel.replaced import replaced
from sim.kernel.runtime_patches import led_here
from sim.kernel.violation import Violation
from sim.kernel.world import MS, SECOND, World

CLUSTER = "C"
CLIENTS = 2
MIXES = (
    ("plain", "level"),
    ("plain", "level", "timer"),
    ("plain", "half"),
    ("plain", "level", "timer", "half"),
)
WELL_US = 30 * SECOND
LOOK_US = 200 * MS
DRIFT_PPM_MAX = 2000
APART_MS = 5
BRISK: tuple[tuple[ModuleType, str, int], ...] = (
    (acting, "CONFIRM_MS", 60),
    (acting_service, "POLL_TIMEOUT_MS", 400),
    (acting_service, "PROBE_TIMEOUT_MS", 250),
    (remote_fetch, "TIMEOUT_MS", 800),
    (remote_fetch, "KEEP_MS", 300),
    (broker_service, "TICK_MS", 100),
    (escape, "WAIT_MAX_MS", 800),
    (escape, "FAITHFUL_MS", 1_500),
    (escape, "PAUSE_MS", 50),
    (escape, "PAUSE_MAX_MS", 800),
    (escape_masters, "REFRESH_MS", 400),
    (escape_masters, "AGAIN_MS", 100),
    (escape_masters, "REST_MAX_MS", 800),
    (escape_service, "SEND_TIMEOUT_MS", 600),
    (escape_service, "ASK_TIMEOUT_MS", 400),
    (log_watch, "LOOK_MS", 200),
    (log_watch, "AGAIN_MS", 1_000),
    (plain, "ASK_AGAIN_MS", 300),
    (pre_online, "RETRY_MS", 100),
    (pre_online, "RETRY_MAX_MS", 800),
    (pre_online, "DIVERGED_MS", 1_500),
    (pre_online, "LOOK_MS", 40),
    (pre_online, "WAIT_MAX_MS", 1_500),
    (pre_online, "CALL_MS", 2_000),
    (pre_online_peers, "TIMEOUT_MS", 500),
    (acting_progress, "LOOK_MS", 40),
    (registration, "RETRY_MS", 200),
    (registration, "RETRY_MAX_MS", 1_000),
    (replica_sync, "JAVA_PERIOD_MS", 1_000),
    (replica_sync, "RETRY_MAX_MS", 400),
    (replica_sync_service, "TIMEOUT_MS", 1_800),
    (log_server, "COPY_BYTES_MAX", 1 << 30),
    (replication, "TICK_MS", 50),
    (schedule, "RETRY_MS", 100),
    (schedule, "RETRY_MAX_MS", 1_000),
    (store_service, "TICK_MS", 40),
    (timer, "RETRY_MAX_MS", 1_000),
)
"""Pauses of the product that would outlast a history; and no piece of a log goes by `sendfile`, for
simulated files are none of the kernel's."""


class ActingHistory:
    """Some seconds of two or three groups."""

    world_kind: ClassVar[type[World]] = World
    injector_kind: ClassVar[type[ActingInjector]] = ActingInjector
    master_role = "ASYNC_MASTER"
    sets_clocks = False
    """Whether wall clocks of brokers are set."""

    def __init__(self, plan: Plan) -> None:
        sizes = Random(f"{plan.seed}:sizes")
        self.plan = plan
        self.world = self.world_kind(plan.seed)
        self.net = Net(self.world)
        self.book = Book()
        self.draining = False
        self.loops: list[SimLoop] = []
        self.places: dict[str, str] = {}
        self._ips: dict[str, str] = {}
        self.draw(sizes)
        self.add_hosts()
        self.injector = self.injector_kind(self.world, self.net)
        self.faults = self.draw_faults()
        self.world.check_with(self.checkers())

    # Sizes --------------------------------------------------------------------------------------

    def draw(self, sizes: Random) -> None:
        self.groups = ("a", "b")
        self.slaves = sizes.choice((1, 1, 1, 1, 2))
        self.names_count = sizes.choice((1, 1, 3, 2))
        self.safety_us = sizes.choice((3, 4, 5)) * SECOND
        self.pace_ms = sizes.choice((30, 60, 120))
        self.mix = sizes.choice(MIXES)
        self.pops = sizes.randrange(3) == 0
        self.invisible_ms = sizes.choice((300, 1_000))
        self.not_active_ms = sizes.choice((400, 600, 900))
        self.poll_ms = sizes.choice((80, 120, 200))
        self.net.weather.delay_max_us = sizes.choice((1, 2, 10)) * MS
        sync_flush = sizes.randrange(3) == 0
        self.drawn: dict[str, Any] = {
            "flush_disk_type": "SYNC_FLUSH" if sync_flush else "ASYNC_FLUSH",
            "compatible_with_old_name_srv": sizes.randrange(2) > 0,
            "flush_consumer_offset_interval": sizes.choice((100, 400, 1_500)),
            "flush_delay_offset_interval": sizes.choice((100, 400, 1_500)),
            "timer_flush_interval_ms": sizes.choice((100, 400)),
            "slave_metadata_period": sizes.choice((50, 100, 300)),
            "timer_precision_ms": sizes.choice((100, 200, 500)),
            "timer_roll_window_slot": sizes.choice((4, 10, 100)),
            "enable_retry_topic_v2": sizes.randrange(2) > 0,
            "enable_remote_escape": True,
            "mapped_file_size_commit_log": 65_536,
        }
        self.names_options = NamesrvOptions(
            listen_port=NAMES_PORT,
            kv_config_path="kv/kvConfig.json",
            scan_not_active_broker_interval=sizes.choice((100, 200)),
            support_acting_master=True,
            notify_min_broker_id_changed=sizes.randrange(2) > 0,
        )

    def broker_options(self, name: str) -> BrokerOptions:
        """Of the host `name`: its group and its number."""
        number, ip = int(name[1:]), self._ips[name]
        return BrokerOptions(
            broker_cluster_name=CLUSTER,
            broker_name=name[0],
            broker_id=number,
            broker_role="SLAVE" if number else self.master_role,
            listen_port=BROKER_PORT,
            fast_listen_port=-1,
            bind_address=ip,
            broker_ip1=ip,
            broker_ip2=ip,
            namesrv_addr=";".join(self.names_addresses),
            enable_slave_acting_master=True,
            slave_read_enable=True,
            total_replicas=1 + self.slaves,
            broker_not_active_timeout_millis=self.not_active_ms,
            sync_broker_member_group_period=self.poll_ms,
            broker_heartbeat_interval=self.poll_ms,
            send_heartbeat_timeout_millis=300,
            register_broker_timeout_mills=600,
            register_name_server_period=2_000,
            ha_send_heartbeat_interval=200,
            ha_housekeeping_interval=900,
            mapped_file_size_consume_queue=2_000,
            mapped_file_size_timer_log=5_200,
            message_index_enable=False,
            disk_max_used_space_ratio=95,
            message_delay_level="1s 2s",
            max_message_size=8_192,
            memory_window_bytes=1 << 20,
            revive_queue_num=1,
            default_topic_queue_nums=2,
            transaction_time_out=300,
            transaction_check_max=2,
            transaction_check_interval=300,
            transaction_op_batch_interval=100,
            **self.drawn,
        )

    def add_hosts(self) -> None:
        for number in range(self.names_count):
            self._add(f"n{number}", lambda host: NamesProcess(self, host))
        for group in self.groups:
            for number in range(1 + self.slaves):
                self._add(f"{group}{number}", lambda host: BrokerProcess(self, host))
        for number in range(CLIENTS):
            self._add(f"p{number}", partial(self._client, (number, CLIENTS)))
        self.names_addresses = tuple(
            f"{ip}:{NAMES_PORT}" for name, ip in self._ips.items() if name[0] == "n"
        )

    def _client(self, share: tuple[int, int], host: Host) -> SpecialClient:
        return SpecialClient(self, host, share)

    def _add(self, name: str, boot: Callable[[Host], Process]) -> None:
        clocks = self.world.streams["clocks"]
        host = self.world.add_host(name, boot)
        host.clock = HostClock(
            clocks.randint(-DRIFT_PPM_MAX, DRIFT_PPM_MAX),
            clocks.randint(-APART_MS, APART_MS),
            clocks.randint(1, 1_000_000),
        )
        ip = f"10.0.0.{len(self._ips) + 1}"
        self._ips[name], self.places[ip] = ip, name

    def fault_kinds(self) -> dict[str, int]:
        return KINDS

    def draw_faults(self) -> list[Fault]:
        brokers = tuple(name for name in self._ips if name[0] in self.groups)
        names = tuple(name for name in self._ips if name[0] == "n")
        swarm = Swarm(
            self.fault_kinds(),
            (*brokers, *names),
            1_200 * MS,
            self.safety_us,
            8,
            3 * SECOND,
            (brokers, names),
        )
        drawn = swarm.draw(self.world.streams["faults"])
        keep = self.plan.keep
        return [fault for fault in drawn if keep is None or fault.number in keep]

    def checkers(self) -> list[Checker]:
        self.end = NothingLost(self)
        return [OffsetsStay(self.world), SlavesCopy(), Unseen(), Again(self), self.end]

    # What processes ask -------------------------------------------------------------------------

    def new_loop(self, host: Host) -> SimLoop:
        loop = SimLoop(self.net, host, self.places)
        self.loops.append(loop)
        return loop

    def host_at(self, address: str) -> str:
        """Whose address it is."""
        return self.places[address.partition(":")[0]]

    def group_of(self, name: str) -> str:
        return name[0]

    def alter(self, process: BrokerProcess) -> None:
        """Apply the mutants of the plan to a new process."""
        for name in self.plan.off:
            if name in ACTING_MUTANTS:
                ACTING_MUTANTS[name](process)

    def unheard(self, name: str) -> bool:
        """Whether name servers had a reason not to know the broker for as long as it takes until
        another may believe that it is alone: it was cut off, or one of them has just been started
        and knew nobody."""
        span_us = (self.not_active_ms + self.poll_ms) * MS
        if self.injector.hindered(name, 2 * span_us):
            return True
        servers = (host.process for host in self.world.hosts.values())
        return any(
            self.world.time_us - server.began_us < span_us
            for server in servers
            if isinstance(server, NamesProcess)
        )

    def busy(self) -> bool:
        """Whether producers go on."""
        return self.world.time_us < self.safety_us

    def consuming(self) -> bool:
        return not self.draining

    # Who is there -------------------------------------------------------------------------------

    def brokers(self, group: str = "") -> Iterator[BrokerProcess]:
        """Living processes, the masters of groups first."""
        for name, host in sorted(self.world.hosts.items()):
            if isinstance(host.process, BrokerProcess) and (not group or name[0] == group):
                yield host.process

    def online_beside(self, broker: BrokerProcess) -> Iterator[BrokerProcess]:
        """Who else of its group is online, and known there."""
        for other in self.brokers(broker.group):
            if other is not broker and other.settled and other.role is not Role.PRE_ONLINE:
                yield other

    def master(self, group: str) -> BrokerProcess | None:
        return next((b for b in self.brokers(group) if b.role is Role.MASTER), None)

    # The course of it ---------------------------------------------------------------------------

    def schedule(self) -> list[str]:
        return [str(fault) for fault in self.faults]

    def play(self) -> None:
        with led_here(), replaced(BRISK):
            try:
                self._play()
            finally:
                for loop in self.loops:
                    loop.bury()

    def _play(self) -> None:
        chance = self.world.streams["start"]
        for host in self.world.hosts.values():
            at_us = chance.randrange(100 * MS)
            self.world.at(at_us, f"start {host.name}", partial(self.world.start, host))
        self.injector.schedule(self.faults)
        self.storm()
        self.injector.heal()
        self.be_well()
        self.listen()
        self.world.finish()

    def listen(self) -> None:
        """Raise what a task kept to itself: a client that fell is the cause, what waits for it is
        the effect."""
        for loop in self.loops:
            loop.look_at_tasks()
            loop.complain()

    def storm(self) -> None:
        """Run the phase with faults."""
        self.world.run_until(self.safety_us)

    def be_well(self) -> None:
        """Check what must recover without help after the heal."""
        until = self.world.time_us + WELL_US
        while True:
            wrong = self.end.still() if self.is_well() else ("INV-35", "the groups are not whole")
            if wrong is None:
                break
            if self.world.time_us >= until:
                self.listen()
                raise Violation(wrong[0], f"30 s after the heal: {wrong[1]}")
            self.world.run_until(self.world.time_us + LOOK_US)
        self.draining = True

    def is_well(self) -> bool:
        """Every group has its master, its slaves have its log and its tables, routes show it."""
        for group in self.groups:
            master = self.master(group)
            if master is None or not self._is_shown(master):
                return False
            end = master.node.store.pointers.appended
            for broker in self.brokers(group):
                if broker is master:
                    continue
                follows = broker.role is Role.SLAVE and broker.member.sync.core.ready
                if not follows or broker.node.store.pointers.appended != end:
                    return False
        return True

    def _is_shown(self, master: BrokerProcess) -> bool:
        """Whether all name servers know the whole group."""
        wanted = {
            int(broker.host.name[1:]): broker.node.address
            for broker in self.brokers(master.group)
            if broker.ready
        }
        for host in self.world.hosts.values():
            if isinstance(host.process, NamesProcess):
                groups = host.process.server.node.table.brokers.groups
                known = groups.get(master.group)
                if known is None or known.addrs != wanted:
                    return False
        return len(wanted) == 1 + self.slaves


def history(plan: Plan) -> ActingHistory:
    return ActingHistory(plan)
