"""The world of a whole group: controllers, brokers with real stores, clients, under faults.

Checks INV-06 to INV-17, INV-20 to INV-25 and INV-35. The flush policy, which the seed draws,
decides what may be lost: with sync flush nothing, at any power cut; without it nothing by kills,
and nothing by the power cut of one broker.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from epochmq.controller.options import ControllerOptions
from epochmq.replication.options import ReplicationOptions
from epochmq.store.options import StoreOptions
from epochmq.store.store import Store
from sim.controller.cluster import CONTROLLER_KINDS, Cluster
from sim.controller.controller_world import controller_checkers, controller_options
from sim.controller.controllers import ControllerProcess
from sim.controller.member import CLUSTER, GROUP, Member
from sim.group.brokers import Broker
from sim.group.clients import Client
from sim.group.inv_10 import ConfirmedLog
from sim.group.inv_12 import MasterHasAll
from sim.group.inv_14 import EpochsOfBytes
from sim.group.inv_20 import Drain
from sim.kernel.checker import Checker
from sim.kernel.faults import Fault, Injector
from sim.kernel.host import Host
from sim.kernel.oracle import Oracle
from sim.kernel.plan import Plan
from sim.kernel.violation import Violation
from sim.kernel.workload import HOST
from sim.kernel.world import MS, SECOND
from sim.store.inv_11 import PointerOrder
from sim.store.inv_16 import Recovers
from sim.store.inv_17 import Derived

KINDS = {
    **CONTROLLER_KINDS,
    "full_disk": 1,
    "sync_error": 1,
    "kill_master": 6,
    "power_master": 4,
    "pause_master": 3,
    "isolate_master": 3,
    "master_without_followers": 3,
    "master_without_controllers": 3,
    "strand_master": 6,
    "kill_leader": 3,
    "kill_controllers": 3,
    "cut_controllers": 2,
}
POWER = ("power", "power_at_write", "power_group", "power_master", "sync_error")
LIVENESS_US = 30 * SECOND


def store_options(chance: Random, sync_flush: bool) -> StoreOptions:
    return StoreOptions(
        replicated=True,
        commit_log_file_bytes=4096 << chance.randrange(5),
        consume_queue_file_bytes=20 * chance.choice((10, 40, 200)),
        index=chance.randrange(3) == 0,
        index_slots=16,
        index_items=32,
        preallocate=chance.randrange(2) > 0,
        sync_flush=sync_flush,
        flush_interval_ms=100,
        flush_least_pages=0,
        flush_thorough_interval_ms=500,
        queue_write_interval_ms=200,
        queue_sync_interval_ms=chance.choice((300, 2000)),
        index_sync_interval_ms=1000,
        checkpoint_interval_ms=chance.choice((100, 500)),
        disk_check_interval_ms=100,
        disk_used_ratio=1.0,
        disk_warning_ratio=1.0,
        disk_forcibly_ratio=1.0,
    )


def replication_options(chance: Random, sync_flush: bool, least: int) -> ReplicationOptions:
    return ReplicationOptions(
        all_ack=True,
        min_in_sync_replicas=least,
        not_caught_up_ms=chance.choice((500, 1500)),
        lost_link_grace_ms=chance.choice((100, 400)),
        first_link_grace_ms=chance.choice((300, 800)),
        proposal_retry_ms=100,
        joining_hold_ms=20,
        transfer_batch_bytes=max(
            chance.choice((512, 4096, 32768)), chance.choice((512, 4096, 65536))
        ),
        heartbeat_ms=300,
        housekeeping_ms=1200,
        confirm_interval_ms=chance.choice((10, 50)),
        reconnect_ms=50,
        connect_timeout_ms=300,
        sync_before_ack=sync_flush,
    )


class GroupInjector(Injector):
    """Faults that hit the broker that has a role at that moment."""

    def _master(self) -> str | None:
        """The broker that may acknowledge, or else the one that was told to lead last."""
        found: list[tuple[int, str]] = []
        for name, host in sorted(self.world.hosts.items()):
            if isinstance(host.process, Member) and host.process.membership.is_master:
                found.append((host.process.epoch, name))
        return max(found)[1] if found else None

    def _at_master(self, fault: Fault, kind: str) -> Callable[[], None] | None:
        name = self._master()
        if name is None:
            return None
        struck: Callable[[], None] | None = getattr(self, kind)(replace(fault, hosts=(name,)))
        return struck

    def _kill_master(self, fault: Fault) -> Callable[[], None] | None:
        return self._at_master(fault, "_kill")

    def _power_master(self, fault: Fault) -> Callable[[], None] | None:
        return self._at_master(fault, "_power")

    def _pause_master(self, fault: Fault) -> Callable[[], None] | None:
        return self._at_master(fault, "_pause")

    def _isolate_master(self, fault: Fault) -> Callable[[], None] | None:
        """From all servers; clients still reach it."""
        return self._master_without(fault, "bc")

    def _master_without_followers(self, fault: Fault) -> Callable[[], None] | None:
        return self._master_without(fault, "b")

    def _master_without_controllers(self, fault: Fault) -> Callable[[], None] | None:
        return self._master_without(fault, "c")

    def _master_without(self, fault: Fault, letters: str) -> Callable[[], None] | None:
        one = self._master()
        if one is None:
            return None
        others = [n for n in sorted(self.world.hosts) if n != one and n[0] in letters]
        ways = [(one, other) for other in others]
        if fault.size % 4:  # else it is heard, but hears
            ways += [(other, one) for other in others]
        return self._cut_ways(ways)

    def _kill_controllers(self, fault: Fault) -> Callable[[], None] | None:
        """All of them: the quorum is lost."""
        names = tuple(name for name in sorted(self.world.hosts) if name[0] == "c")
        return self._kill(replace(fault, hosts=names))

    def _cut_controllers(self, fault: Fault) -> Callable[[], None] | None:
        """They see each other, and no broker."""
        names = sorted(self.world.hosts)
        pairs = [(c, b) for c in names if c[0] == "c" for b in names if b[0] == "b"]
        return self._cut_ways([*pairs, *((b, c) for c, b in pairs)])

    def _strand_master(self, fault: Fault) -> Callable[[], None] | None:
        """Cut from its followers it goes on for a moment, and dies: its log ends differently."""
        one = self._master()
        if one is None:
            return None
        whole = self._cut_ways([(one, n) for n in sorted(self.world.hosts) if n[0] == "b"])
        host = self.world.hosts[one]
        ended: list[bool] = []

        def die() -> None:
            if not ended:
                self.world.kill(host)

        def undo() -> None:
            ended.append(True)
            whole()
            self.world.start(host)

        self.world.after(fault.size * MS, f"kill {one}", die)
        return undo

    def _kill_leader(self, fault: Fault) -> Callable[[], None] | None:
        for name, host in sorted(self.world.hosts.items()):
            process = host.process
            if isinstance(process, ControllerProcess) and process.node.core.context.leads:
                return self._kill(replace(fault, hosts=(name,)))
        return None


class GroupHistory:
    """Some seconds of one group."""

    learners: frozenset[str] = frozenset()
    kinds = KINDS
    injects = GroupInjector

    def __init__(self, plan: Plan) -> None:
        sizes = Random(f"{plan.seed}:sizes")
        self.plan = plan
        self.cluster = cluster = Cluster(plan, sizes)
        self.world = world = cluster.world
        self.oracle = Oracle()
        self.draw_counts(sizes)
        cluster.minimum = self.least
        cluster.learners = self.learners
        self.draw_sizes(sizes)
        common = controller_options(cluster, sizes)
        cluster.add_controllers(self.controller_count, lambda h: self.boot(h, common))
        cluster.add_brokers(self.broker_count, lambda h: self.make_broker(h))
        self.clients = [
            world.add_host(f"p{n}", lambda h: self.make_client(h))
            for n in range(1, 1 + self.client_count)
        ]
        self.injector = self.injects(world, cluster.net)
        self.faults = self.draw_faults(sizes)
        self.world.check_with(self.checkers())
        self.world.warm_after_failed_sync = world.streams["warm"].randrange(2) == 0

    def draw_counts(self, sizes: Random) -> None:
        self.broker_count = sizes.choice((1, 2, 2, 3, 3, 3, 3, 3, 4, 5))
        self.controller_count = sizes.choice((1, 3, 3, 3, 5))
        self.client_count = sizes.choice((1, 1, 2))
        self.sync_flush = sizes.randrange(5) < 3
        learner = self.broker_count > 2 and sizes.randrange(4) == 0
        if learner:
            self.learners = frozenset({f"b{self.broker_count}"})
        self.least = min(self.broker_count - learner, sizes.choice((1, 2, 2)))

    def draw_sizes(self, sizes: Random) -> None:
        self.store_options = store_options(sizes, self.sync_flush)
        self.replication = replication_options(sizes, self.sync_flush, self.least)
        self.sizes = sizes.choice(((20, 20, 200), (20, 20, 20, 1500), (300,)))
        self.sync_us = sizes.choice((200, 2000, 10_000))
        self.window_bytes = sizes.choice((1024, 65536))
        self.burst_max = sizes.choice((1, 2, 8))
        self.sends_max = sizes.choice((100, 200, 400))
        self.cluster.net.weather.delay_max_us = sizes.choice((1, 2, 10, 40)) * MS
        self.send_timeout_us = sizes.choice((300, 800)) * MS
        self.ack_timeout_ms = sizes.choice((200, 1000))
        self.safety_us = sizes.choice((2, 3, 5)) * SECOND
        self.pace_us = self.safety_us * (1 + self.burst_max) // (2 * self.sends_max)

    def draw_faults(self, sizes: Random) -> list[Fault]:
        """Without sync flush the power may go once; with a minimum of one not at all."""
        drawn = self.cluster.draw_faults(self.kinds, self.safety_us, count_max=10)
        if self.sync_flush:
            return drawn
        allowed = 1 if self.least > 1 else 0
        kept: list[Fault] = []
        for fault in drawn:
            if fault.kind in POWER:
                if fault.kind == "power_group" or allowed == 0:
                    continue
                allowed -= 1
            kept.append(fault)
        return kept

    def checkers(self) -> list[Checker]:
        return [
            *controller_checkers(),
            PointerOrder(),
            ConfirmedLog(),
            MasterHasAll(),
            EpochsOfBytes(),
            Recovers(one_in=4),
            Derived(),
            Drain(self.oracle),
        ]

    def make_broker(self, host: Host) -> Broker:
        return Broker(self, host)

    def make_client(self, host: Host) -> Client:
        return Client(self, host)

    # What processes ask of the history ------------------------------------------------------------

    def boot(self, host: Host, common: dict[str, int]) -> ControllerProcess:
        options = ControllerOptions(
            controller_d_leger_group="C",
            controller_d_leger_peers=self.cluster.peers,
            controller_d_leger_self_id=host.name,
            **common,  # type: ignore[arg-type]
        )
        return ControllerProcess(self.cluster, host, options)

    def open_store(self, host: Host) -> Store:
        store = Store.open(
            host.disk,
            self.store_options,
            HOST,
            host.wall,
            safeguards=self.cluster.safe,
            boot=f"{host.name} {host.power_cuts}",
        )
        read_limit = store._read_limit
        hide = read_limit.hide

        def watched(offset: int) -> None:
            """The bytes are kept, and readers do not see them any more: the cut begins."""
            self.world.tell("truncated", host, offset)
            self.world.mark("covered.truncated")
            hide(offset)

        read_limit.hide = watched  # type: ignore[method-assign]
        return store

    def clean_start(self, host: Host, store: Store) -> bool:
        """As the broker decides it: a crash takes nothing with sync flush, or in one boot, and an
        unclean start that the controllers do not know of is unclean still."""
        found = store.recovered
        if host.last_boot is None:
            return False
        if found.lost_confirmed or found.cut.size or found.damages:
            return False
        same_boot = host.last_boot == host.power_cuts
        return store.recovered.clean or self.sync_flush or same_boot

    def exit(self, host: Host) -> None:
        if host.up:
            self.world.exit(host)

    # The course of it -----------------------------------------------------------------------------

    def schedule(self) -> list[str]:
        return [str(fault) for fault in self.faults]

    def play(self) -> None:
        self.cluster.start_all()
        self.injector.schedule(self.faults)
        for host in self.clients:
            self.produce(host)
            self.consume(host)
        self.storm()
        self.injector.heal()
        self.be_well()
        self.world.finish()

    def storm(self) -> None:
        """The safety phase."""
        self.world.run_until(self.safety_us)

    def be_well(self) -> None:
        """What must come by itself after the heal."""
        world = self.world
        if not world.run_until(world.time_us + LIVENESS_US, self.is_well):
            raise Violation("INV-35", "30 s after the heal the group is not whole")
        self.last_put()
        if not world.run_until(world.time_us + 5 * SECOND, self.is_even):
            raise Violation("INV-35", "the replicas do not come to one confirmed end")

    def produce(self, host: Host) -> None:
        """Send at a drawn pace until the heal."""
        chance, world = self.world.streams["workload"], self.world

        def act() -> None:
            if isinstance(host.process, Client):
                host.process.send()

        if self.busy():
            for _ in range(chance.randint(1, self.burst_max)):
                world.after(0, "send", act, host)
            pause = 1 + int(chance.expovariate(1 / self.pace_us))
            world.after(pause, "pace", lambda: self.produce(host))

    def consume(self, host: Host) -> None:
        chance, world = self.world.streams["workload"], self.world

        def act() -> None:
            if isinstance(host.process, Client):
                host.process.read()

        if self.busy():
            world.after(0, "read", act, host)
            pause = 1 + int(chance.expovariate(1 / max(30 * MS, self.pace_us)))
            world.after(pause, "pace", lambda: self.consume(host))

    def busy(self) -> bool:
        """Whether clients still begin new calls."""
        return self.world.time_us < self.safety_us

    # After the heal -------------------------------------------------------------------------------

    def brokers(self) -> list[Broker]:
        hosts = self.world.hosts
        found = [hosts[name].process for name in self.cluster.broker_names]
        return [broker for broker in found if isinstance(broker, Broker)]

    def is_well(self) -> bool:
        """One leader, one master under a lease, everybody in the set, everybody agreed."""
        touched = self.world.touched
        if touched is None or touched.name not in self.cluster.broker_names:
            return False
        brokers = self.brokers()
        masters = [b for b in brokers if b.may_acknowledge(b.host.now)]
        if len(masters) != 1 or len(brokers) < len(self.cluster.broker_names):
            return False
        hosts = self.world.hosts
        processes = [hosts[name].process for name in self.cluster.controller_names]
        leaders = [
            p for p in processes if isinstance(p, ControllerProcess) and p.node.core.context.leads
        ]
        if len(leaders) != 1:
            return False
        group = leaders[0].node.machine.groups.get((CLUSTER, GROUP))
        return (
            group is not None
            and masters[0].membership.broker_id == group.master
            and len(group.members) == len(self.cluster.voters)
            and all(b.epoch == group.epoch and b.store.fenced is None for b in brokers)
        )

    def last_put(self) -> None:
        """One more message must be acknowledged within 10 s."""
        host = self.clients[0]
        client = host.process
        assert isinstance(client, Client)
        done: list[bool] = []

        def put() -> None:
            masters = [b for b in self.brokers() if b.may_acknowledge(b.host.now)]
            if masters:
                client.target = self.cluster.broker_names.index(masters[0].host.name)
            client.send(done.append)

        until = self.world.time_us + 10 * SECOND
        while self.world.time_us < until:
            done.clear()
            self.world.after(200 * MS, "last put", put, host)
            self.world.run_until(self.world.time_us + SECOND, lambda: bool(done))
            if done and done[0]:
                return
        raise Violation("INV-35", "no message is acknowledged after the heal")

    def is_even(self) -> bool:
        """Everything everywhere is confirmed, and shown."""
        brokers = self.brokers()
        ends = {b.store.pointers.appended for b in brokers}
        shown = {b.store.pointers.readable for b in brokers}
        return len(brokers) == len(self.cluster.broker_names) and ends == shown and len(ends) == 1


def history(plan: Plan) -> GroupHistory:
    return GroupHistory(plan)
